#include "admin_client.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "base/json.hpp"
#include "osm/net/http.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;

// Explains a transport error by the controller and the flag that names its socket.
Error explained(const Error& error, const std::string& socket) {
  const std::string where = socket + ": ";
  switch (error.code) {
    case ErrorCode::kNotFound:
      return {error.code, where +
                              "no admin socket. Is osm-controller running, and is --state-dir the "
                              "directory it was started with?"};
    case ErrorCode::kPermissionDenied:
      return {error.code, where + "belongs to another user: run this as the controller's, or root"};
    case ErrorCode::kUnavailable:
      return {error.code, where + "nobody answers (" + error.message +
                              "). osm-controller may have stopped or be starting"};
    case ErrorCode::kDeadlineExceeded:
      return {error.code, where + "no answer in time; --timeout gives it more"};
    default:
      return error.with_context(socket);
  }
}

Error refusal(int status, const json::value& answer) {
  const json::object& error = map_at(answer, "error");
  const std::string code = text_at(error, "code");
  const std::string message = text_at(error, "message");
  if (code.empty() || message.empty())
    return {ErrorCode::kUnavailable, "the controller answered HTTP " + std::to_string(status)};
  return {status == 400 ? ErrorCode::kInvalidArgument : ErrorCode::kUnavailable,
          message + " [" + code + ']'};
}

}  // namespace

Result<json::value> AdminClient::get(std::string_view path, Query query) const {
  return call("GET", path, query, "");
}

Result<json::value> AdminClient::post(std::string_view path, Query query,
                                      const json::value& body) const {
  return call("POST", path, query, body.is_null() ? "" : json::serialize(body));
}

Result<json::value> AdminClient::call(std::string_view method, std::string_view path, Query query,
                                      std::string body) const {
  std::string target(path);
  char separator = '?';
  for (const auto& [name, value] : query) {
    target += separator + std::string(name) + '=' + net::encode_query_text(value);
    separator = '&';
  }
  const std::string socket = state_dir_ + "/admin.sock";
  net::HttpCall request;
  request.address.unix_path = socket;
  request.method = method;
  request.target = std::move(target);
  request.body = std::move(body);
  request.deadline = timeout_;
  Result<net::Response> response = net::http_call(request);
  if (!response.ok()) return explained(response.error(), socket);

  boost::system::error_code failed;
  json::value answer = json::parse(response->body, failed);
  if (response->status / 100 != 2) return refusal(response->status, answer);
  if (failed) return Error{ErrorCode::kInternal, socket + ": the answer is not JSON"};
  return answer;
}

}  // namespace osm::cli
