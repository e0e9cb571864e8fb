// The wire form of a request.

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <string_view>

#include "net/http_client_connection.hpp"

namespace osm::inline v1::net {
namespace {

// RFC 9110, section 5.6.2.
bool is_token(std::string_view text) {
  static constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kOthers.find(c) != std::string_view::npos;
  });
}

bool is_target(std::string_view text) {
  return text.starts_with('/') &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

bool is_field_value(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 0x7f;
  });
}

bool is_ours(std::string_view name) {
  for (const std::string_view ours : {"Host", "Content-Length", "Transfer-Encoding", "Connection",
                                      "Upgrade", "Expect", "TE", "Trailer"})
    if (boost::beast::iequals(name, ours)) return true;
  return false;
}

Error refused(std::string_view what, std::string_view why) {
  return {ErrorCode::kInvalidArgument,
          "the HTTP request's " + std::string(what) + ' ' + std::string(why)};
}

}  // namespace

Result<std::string> request_head(const HttpRequest& request, const Address& address) {
  if (address.is_unix()) {
    OSM_TRY(parse_address(address.str()));  // its length
  }
  if (!is_token(request.method)) return refused("method", "is not one word of letters");
  if (!is_target(request.target))
    return refused("target", "must start with '/' and hold no blanks: escape them");
  std::string head = request.method + ' ' + request.target + " HTTP/1.1\r\nHost: ";
  head += address.is_unix() ? "localhost" : address.str();
  head += "\r\n";
  for (const auto& [name, value] : request.headers) {
    if (!is_token(name)) return refused("header", "has a name that is no word of letters");
    if (is_ours(name)) return refused("header " + name, "is set by the client itself");
    // Do not print the value: it may be a secret, such as a token with a line break at its end.
    if (!is_field_value(value)) return refused("header " + name, "holds a control character");
    head += name + ": " + value + "\r\n";
  }
  const bool has_body = request.method == "POST" || request.method == "PUT" ||
                        request.method == "PATCH" || !request.body.empty();
  if (request.gzip) head += "Accept-Encoding: gzip\r\n";
  if (has_body) head += "Content-Length: " + std::to_string(request.body.size()) + "\r\n";
  head += "\r\n";
  return head;
}

bool is_idempotent(const std::string& method) {
  return method == "GET" || method == "HEAD" || method == "PUT" || method == "DELETE" ||
         method == "OPTIONS";
}

}  // namespace osm::inline v1::net
