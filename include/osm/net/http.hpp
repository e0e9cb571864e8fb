// HTTP as handlers and callers see it: one request, one response. No Beast types.
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

// What a client asks for.
struct OSM_API Request {
  std::string method;                        // "GET"; a HEAD arrives as GET
  std::string path;                          // "/v1/proxies": as sent, without the query
  std::map<std::string, std::string> query;  // decoded; of a repeated name the last
  std::string body;
  std::string content_type{};  // as sent, with its parameters; empty: none was said

  // The query parameter `name`. Failure: kInvalidArgument when it is missing or empty.
  Result<std::string> required(const std::string& name) const;
};

// What it is answered.
struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // besides the server's own
};

using Handler = std::function<Response(const Request&)>;

// A body that is JSON already / plain text, with its content type.
OSM_API Response json_response(std::string json, int status = 200);
OSM_API Response text_response(std::string text, int status = 200);
// {"error": {"code": "not-found", "message": "..."}} with the status that fits the code.
OSM_API Response error_response(const Error& error);
// 404 for kNotFound, 400 for what the caller got wrong, 503 for what may pass, ...
OSM_API int http_status(ErrorCode code);

// "a%20b+c" → "a b c". nullopt: an escape that is cut off or not hex.
OSM_API std::optional<std::string> decode_query_text(std::string_view text);
// Everything but unreserved characters (RFC 3986) escaped.
OSM_API std::string encode_query_text(std::string_view text);
// Whether a Content-Type is `media_type`, given in lower case; parameters do not matter.
OSM_API bool has_media_type(std::string_view content_type, std::string_view media_type);
// "/path?a=b&c" in a method's request. Failure: kInvalidArgument.
OSM_API Result<Request> parse_target(std::string_view target);

// One blocking call, for the command line, providers that poll, and tests.
struct HttpCall {
  Address address;
  std::string method = "GET";
  std::string target = "/";
  std::string body{};
  std::string content_type = "application/json";
  std::chrono::milliseconds deadline{10000};  // for everything, connecting included
  std::size_t max_response_bytes = 64 * 1024 * 1024;
};

// Result: the response, whatever its status. Failure: kNotFound (no such socket file),
// kPermissionDenied (a socket of another user), kUnavailable (refused, reset), kDeadlineExceeded,
// kInvalidArgument (host). Thread: any. Blocking: until the response or the deadline.
OSM_API Result<Response> http_call(const HttpCall& call);

}  // namespace osm::inline v1::net
