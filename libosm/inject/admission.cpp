#include "inject/admission.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <map>
#include <utility>

#include "base/base64.hpp"
#include "base/maps.hpp"
#include "spec/fields.hpp"
#include "spec/yaml.hpp"

namespace osm::inline v1::inject {
namespace {

namespace json = boost::json;

constexpr std::string_view kApiVersion = "admission.k8s.io/v1";
constexpr std::size_t kMaxMessageBytes = 16 * 1024;
// Limit of an API server, which drops the rest silently.
constexpr std::size_t kMaxWarningBytes = 256;
constexpr std::size_t kMaxWarnings = 16;
constexpr std::size_t kMaxCauseBytes = 1024;

// Upper bound of the number of values: openings of containers and separators between values.
std::size_t count_values(std::string_view text) {
  std::size_t count = 1;
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted && c == '\\') {
      ++at;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == ',' || c == '[' || c == '{')) {
      ++count;
    }
  }
  return count;
}

Result<json::value> parse(std::string_view body) {
  if (body.size() > kMaxReviewBytes) {
    return Error{ErrorCode::kTooLarge, "the AdmissionReview has " + std::to_string(body.size()) +
                                           " bytes, at most " + std::to_string(kMaxReviewBytes)};
  }
  if (count_values(body) > kMaxReviewValues) {
    return Error{ErrorCode::kTooLarge, "the AdmissionReview has more than " +
                                           std::to_string(kMaxReviewValues) + " values"};
  }
  json::parse_options options;
  options.max_depth = kMaxReviewDepth;
  boost::system::error_code fault;
  json::value value = json::parse(body, fault, {}, options);
  if (fault == json::error::too_deep) {
    return Error{ErrorCode::kTooLarge, "the AdmissionReview is nested more than " +
                                           std::to_string(kMaxReviewDepth) + " levels deep"};
  }
  if (fault) {
    return Error{ErrorCode::kInvalidSyntax,
                 "the body is not JSON (" + fault.message() +
                     "): this webhook takes an AdmissionReview of admission.k8s.io/v1"};
  }
  return value;
}

json::object take_object(json::value& request, std::string_view name) {
  json::value* object = request.as_object().if_contains(name);
  return object && object->is_object() ? std::move(object->as_object()) : json::object();
}

std::string_view reason_of(int code) {
  static const std::map<int, std::string_view> kReasons{
      {400, "BadRequest"}, {403, "Forbidden"},       {413, "RequestEntityTooLarge"},
      {422, "Invalid"},    {429, "TooManyRequests"}, {503, "ServiceUnavailable"}};
  const auto* reason = find_in(kReasons, code);
  return reason ? *reason : "InternalError";
}

int code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kPermissionDenied:
      return 403;
    case ErrorCode::kTooLarge:
      return 413;
    case ErrorCode::kUnavailable:
    case ErrorCode::kNotReady:
    case ErrorCode::kDeadlineExceeded:
      return 503;
    case ErrorCode::kInternal:
    case ErrorCode::kStorage:
    case ErrorCode::kCertificateExpired:
      return 500;
    default:
      return 422;
  }
}

json::array causes_of(const AdmissionResponse& response) {
  json::array causes;
  for (const AdmissionCause& cause : response.causes)
    causes.push_back({{"reason", "FieldValueInvalid"},
                      {"field", cause.field},
                      {"message", spec::shortened(cause.message, kMaxCauseBytes)}});
  return causes;
}

// Sets `uid` as soon as it is known, also if the rest is invalid.
Result<AdmissionRequest> read_request(json::value review, std::string& uid) {
  spec::Findings findings;
  const spec::Field root(&review, "", findings);
  const auto wanted = [&](std::string_view field, std::string_view value) {
    if (root[field].required_text() != value) root[field].refuse("must be " + std::string(value));
  };
  if (root.required_map()) {
    wanted("apiVersion", kApiVersion);
    wanted("kind", "AdmissionReview");
  }
  const spec::Field request = root["request"];
  AdmissionRequest read;
  if (request.required_map()) {
    read.uid = request["uid"].required_text();
    if (read.uid.size() > spec::kMaxFieldBytes) {
      request["uid"].refuse("is too long for a UID");
    } else {
      uid = read.uid;
    }
    read.operation = request["operation"].required_text();
    const spec::Field kind = request["kind"];
    read.group = kind["group"].text().value_or("");
    read.version = kind["version"].text().value_or("");
    read.kind = kind["kind"].required_text();
    read.ns = request["namespace"].text().value_or("");
    read.name = request["name"].text().value_or("");
    read.user = request["userInfo"]["username"].text().value_or("");
    read.dry_run = request["dryRun"].boolean().value_or(false);
    for (const char* name : {"object", "oldObject"})
      if (request[name].present()) static_cast<void>(request[name].required_map());
  }
  if (!findings.valid()) {
    const Problem problem = std::move(findings).take({}).front();
    return Error{problem.code, "AdmissionReview: " + problem.field +
                                   (problem.field.empty() ? "" : ": ") + problem.cause};
  }
  json::value& content = review.as_object().at("request");
  read.object = take_object(content, "object");
  read.old_object = take_object(content, "oldObject");
  return read;
}

// Response for a request that cannot be decoded: a fault of the API server, not of an object.
AdmissionResponse undecodable(const Error& error) {
  AdmissionResponse response = AdmissionResponse::refused(error);
  if (response.code == 422) response.code = 400;
  return response;
}

}  // namespace

AdmissionResponse AdmissionResponse::refused(const Error& error) {
  return {.allowed = false, .code = code_of(error.code), .message = error.message};
}

std::string admission_review(std::string_view uid, const AdmissionResponse& response) {
  json::object answer{{"uid", uid}, {"allowed", response.allowed}};
  if (!response.allowed) {
    json::object status{{"status", "Failure"},
                        {"code", response.code},
                        {"reason", reason_of(response.code)},
                        {"message", spec::shortened(response.message, kMaxMessageBytes)}};
    if (!response.causes.empty()) status["details"] = {{"causes", causes_of(response)}};
    // The API server makes it a Retry-After, for which its clients wait.
    if (response.code == 429) status["details"] = {{"retryAfterSeconds", 1}};
    answer["status"] = std::move(status);
  }
  if (!response.warnings.empty()) {
    json::array warnings;
    for (std::size_t i = 0; i < std::min(response.warnings.size(), kMaxWarnings); ++i)
      warnings.emplace_back(spec::shortened(response.warnings[i], kMaxWarningBytes));
    answer["warnings"] = std::move(warnings);
  }
  if (response.allowed && !response.patch.empty()) {
    answer["patchType"] = "JSONPatch";
    answer["patch"] = base64(json::serialize(response.patch));
  }
  return json::serialize(json::object{
      {"apiVersion", kApiVersion}, {"kind", "AdmissionReview"}, {"response", std::move(answer)}});
}

AdmissionAnswer answer_admission(std::string_view body, const Decide& decide) {
  if (body.empty()) {
    return {400, json::serialize(json::object{
                     {"error",
                      {{"code", error_code_text(ErrorCode::kInvalidSyntax)},
                       {"message", "the body is empty: this webhook takes an AdmissionReview"}}}})};
  }
  auto review = parse(body);
  if (!review.ok()) return {200, admission_review("", undecodable(review.error()))};
  std::string uid;
  const auto request = read_request(*std::move(review), uid);
  if (!request.ok()) return {200, admission_review(uid, undecodable(request.error()))};
  return {200, admission_review(uid, decide(*request))};
}

}  // namespace osm::inline v1::inject
