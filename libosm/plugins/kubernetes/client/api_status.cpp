#include "kubernetes/client/api_status.hpp"

#include <boost/json.hpp>
#include <string>

#include "kubernetes/client/json_text.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxMessageBytes = 2048;

const json::array* causes_of(const json::object& status) {
  const json::object* details = map_of(status, "details");
  const json::value* causes = details == nullptr ? nullptr : details->if_contains("causes");
  return causes == nullptr ? nullptr : causes->if_array();
}

bool has_cause(const json::object& status, std::string_view reason) {
  const json::array* causes = causes_of(status);
  if (causes == nullptr) return false;
  for (const json::value& cause : *causes)
    if (cause.is_object() && text_of(cause.get_object(), "reason") == reason) return true;
  return false;
}

ErrorCode code_of(std::int64_t http_status, std::string_view reason) {
  switch (http_status) {
    case 400:
      return ErrorCode::kInvalidArgument;
    case 401:
    case 403:
      return ErrorCode::kPermissionDenied;
    case 404:
      return ErrorCode::kNotFound;
    case 409:
      return reason == "AlreadyExists" ? ErrorCode::kAlreadyExists : ErrorCode::kConflict;
    case 410:
      return ErrorCode::kGone;
    case 413:
      return ErrorCode::kTooLarge;
    case 422:
      return ErrorCode::kInvalidField;
    default:
      return http_status == 429 || http_status >= 500 ? ErrorCode::kUnavailable
                                                      : ErrorCode::kInternal;
  }
}

std::string_view remedy_of(std::int64_t http_status) {
  if (http_status == 401) return "; check the token or certificate it was asked with";
  if (http_status == 403) return "; grant it to this account (RBAC)";
  return "";
}

Error error(ErrorCode code, std::string_view what, std::string message, std::string_view remedy) {
  if (message.size() > kMaxMessageBytes) {
    message.resize(kMaxMessageBytes);
    message += "...";
  }
  return {code, std::string(what).append(": ").append(message).append(remedy)};
}

}  // namespace

Error error_of_status(const json::object& status, std::string_view what) {
  const json::value* number = status.if_contains("code");
  const std::int64_t http_status =
      number != nullptr && number->is_int64() ? number->get_int64() : 0;
  const std::string reason = text_of(status, "reason");
  std::string message = text_of(status, "message");
  if (message.empty()) message = reason.empty() ? "refused without a word" : reason;
  // 422 names its fields twice; other refusals may name them here only.
  if (const json::array* causes = causes_of(status)) {
    for (const json::value& cause : *causes) {
      if (!cause.is_object()) continue;
      const std::string field = text_of(cause.get_object(), "field");
      if (field.empty() || message.find(field) != std::string::npos) continue;
      message.append("; ").append(field).append(": ").append(
          text_of(cause.get_object(), "message"));
    }
  }
  // A version that the server has not got to is of another history (a restored backup): what it
  // would have told is not to be had, just as of one that is too old.
  const bool gone =
      reason == "Expired" || reason == "Gone" || has_cause(status, "ResourceVersionTooLarge");
  const ErrorCode code = gone ? ErrorCode::kGone : code_of(http_status, reason);
  return error(code, what, std::move(message), remedy_of(http_status));
}

Error error_of_response(const net::Response& response, std::string_view what) {
  if (const auto body = parse_object(response.body, what);
      body.ok() && text_of(*body, "kind") == "Status")
    return error_of_status(*body, what);
  return error(code_of(response.status, ""), what,
               "the server answered " + std::to_string(response.status) + " " + response.body,
               remedy_of(response.status));
}

}  // namespace osm::inline v1::kubernetes
