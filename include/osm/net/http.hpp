// HTTP for handlers and callers: one request, one response. No Beast types.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/net/address.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::net {

// A request of a client.
struct OSM_API Request {
  std::string method;                        // "GET"; a HEAD arrives as GET
  std::string path;                          // "/v1/proxies": as sent, without the query
  std::map<std::string, std::string> query;  // decoded; the last value of a repeated name
  std::string body;
  std::string content_type{};  // as sent, with its parameters; empty: no such header
  // The client's end of the connection: "192.0.2.7:41234", or "uid 1000" of a Unix socket.
  std::string client{};
  std::vector<std::pair<std::string, std::string>> headers{};  // in their order, names as sent

  // The query parameter `name`. Failure: kInvalidArgument if it is missing or empty.
  Result<std::string> required(const std::string& name) const;
  // The first header of that name, in any case of letters. Empty: there is none.
  std::string_view header(std::string_view name) const;
};

// The answer to a request.
struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // besides the server's own
};

using Handler = std::function<Response(const Request&)>;
// Asked with a request without its body, which is read afterwards. Result: a response refuses the
// request: its body is never read, and the connection ends. nullopt: the request goes on. The check
// may set head.client.
using HeadCheck = std::function<std::optional<Response>(Request& head)>;

// A response whose body is JSON / plain text, with its content type.
OSM_API Response json_response(std::string json, int status = 200);
OSM_API Response text_response(std::string text, int status = 200);
// {"error": {"code": "not-found", "message": "..."}} with the status for that code.
OSM_API Response error_response(const Error& error);
// 404 for kNotFound, 400 for errors of the caller, 503 for errors that may pass, ...
OSM_API int http_status(ErrorCode code);

// "a%20b+c" → "a b c". nullopt: a truncated escape, or one that is not hex.
OSM_API std::optional<std::string> decode_query_text(std::string_view text);
// Escapes everything but unreserved characters (RFC 3986).
OSM_API std::string encode_query_text(std::string_view text);
// True if a Content-Type is `media_type` (given in lower case); parameters do not matter.
OSM_API bool has_media_type(std::string_view content_type, std::string_view media_type);
// Parses "/path?a=b&c" into a request's path and query. Failure: kInvalidArgument.
OSM_API Result<Request> parse_target(std::string_view target);

// One blocking call, for the command line, providers that poll, and tests.
struct HttpCall {
  Address address;
  std::string method = "GET";
  std::string target = "/";
  std::string body{};
  std::string content_type = "application/json";
  std::chrono::milliseconds deadline{10000};  // for the whole call, connecting included
  std::size_t max_response_bytes = 64 * 1024 * 1024;
};

// Result: the response, whatever its status. Failure: kNotFound (no such socket file),
// kPermissionDenied (a socket of another user), kUnavailable (refused, reset), kDeadlineExceeded,
// kInvalidArgument (host). Thread: any. Blocking: until the response or the deadline.
OSM_API Result<Response> http_call(const HttpCall& call);

}  // namespace osm::inline v1::net
