#include "kubernetes/client/api_status.hpp"

#include <boost/json.hpp>
#include <string>

#include "base/json.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxMessageBytes = 2048;

const json::array& causes_of(const json::object& status) {
  return list_at(map_at(status, "details"), "causes");
}

bool has_cause(const json::object& status, std::string_view reason) {
  for (const json::value& cause : causes_of(status))
    if (text_at(cause, "reason") == reason) return true;
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
  const std::int64_t http_status = number_at(status, "code");
  const std::string reason = text_at(status, "reason");
  std::string message = text_at(status, "message");
  if (message.empty()) message = reason.empty() ? "refused without a word" : reason;
  // 422 names its fields in the message as well; other refusals may name them here only.
  for (const json::value& cause : causes_of(status)) {
    const std::string field = text_at(cause, "field");
    if (field.empty() || message.find(field) != std::string::npos) continue;
    message.append("; ").append(field).append(": ").append(text_at(cause, "message"));
  }
  // A version that is still to come is of another history (a restored backup): its events are not
  // to be had, like those of a version that is too old.
  const bool gone =
      reason == "Expired" || reason == "Gone" || has_cause(status, "ResourceVersionTooLarge");
  const ErrorCode code = gone ? ErrorCode::kGone : code_of(http_status, reason);
  return error(code, what, std::move(message), remedy_of(http_status));
}

Error error_of_response(const net::Response& response, std::string_view what) {
  if (const auto body = parse_json_object(response.body, what);
      body.ok() && text_at(*body, "kind") == "Status")
    return error_of_status(*body, what);
  return error(code_of(response.status, ""), what,
               "the server answered " + std::to_string(response.status) + " " + response.body,
               remedy_of(response.status));
}

}  // namespace osm::inline v1::kubernetes
