// HTTP as handlers see it: one request in, one response out. No Beast types.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "osm/result.hpp"

namespace osm::net {

struct Request {
  std::string method;                        // "GET"; a HEAD arrives as GET
  std::string path;                          // "/v1/proxies": as sent, without the query
  std::map<std::string, std::string> query;  // decoded; of a repeated name the last
  std::string body;

  // The query parameter `name`. Failure: kInvalidArgument when it is missing or empty.
  Result<std::string> required(const std::string& name) const;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // besides the server's own
};

using Handler = std::function<Response(const Request&)>;

Response json_response(std::string json, int status = 200);
Response text_response(std::string text, int status = 200);
// {"error": {"code": "not-found", "message": "..."}} with the status that fits the code.
Response error_response(const Error& error);
int http_status(ErrorCode code);

// "a%20b+c" → "a b c". nullopt: an escape that is cut off or not hex.
std::optional<std::string> decode_query_text(std::string_view text);
// Everything but unreserved characters (RFC 3986) escaped.
std::string encode_query_text(std::string_view text);
// "/path?a=b&c" in a method's request. Failure: kInvalidArgument.
Result<Request> parse_target(std::string_view target);

}  // namespace osm::net
