#include "osm/net/http.hpp"

#include <fmt/format.h>

#include <boost/algorithm/string/classification.hpp>
#include <boost/algorithm/string/trim.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>

#include "base/utf8.hpp"

namespace osm::inline v1::net {
Result<std::string> Request::required(const std::string& name) const {
  const auto at = query.find(name);
  if (at == query.end() || at->second.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 path + ": the query parameter '" + name + "' is missing; add ?" + name + "=..."};
  }
  return at->second;
}

std::string_view Request::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (boost::beast::iequals(key, name)) return value;
  return {};
}

Response json_response(std::string json, int status) {
  return {status, "application/json", std::move(json), {}};
}

Response text_response(std::string text, int status) {
  return {status, "text/plain; charset=utf-8", std::move(text), {}};
}

Response error_response(const Error& error) {
  const boost::json::object fields{{"code", error_code_text(error.code)},
                                   {"message", to_utf8(error.message)}};
  return json_response(boost::json::serialize(boost::json::object{{"error", fields}}) + '\n',
                       http_status(error.code));
}

int http_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNotFound:
    case ErrorCode::kUnknownProxy:
      return 404;
    case ErrorCode::kAlreadyExists:
    case ErrorCode::kConflict:
      return 409;
    case ErrorCode::kGone:
      return 410;
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kInvalidSyntax:
    case ErrorCode::kInvalidField:
    case ErrorCode::kUnknownKind:
      return 400;
    case ErrorCode::kTooLarge:
      return 413;
    case ErrorCode::kPermissionDenied:
      return 403;
    case ErrorCode::kNotReady:
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

std::optional<std::string> decode_query_text(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      out.push_back(' ');
    } else if (text[i] != '%') {
      out.push_back(text[i]);
    } else {
      const char* const digits = text.data() + i + 1;
      unsigned char byte = 0;
      if (i + 2 >= text.size() || std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2)
        return std::nullopt;
      out.push_back(static_cast<char>(byte));
      i += 2;
    }
  }
  return out;
}

std::string encode_query_text(std::string_view text) {
  static constexpr std::string_view kUnreserved =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string out;
  for (const char c : text) {
    if (kUnreserved.find(c) != std::string_view::npos) {
      out.push_back(c);
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

bool has_media_type(std::string_view content_type, std::string_view media_type) {
  std::string said(content_type.substr(0, content_type.find(';')));
  boost::trim_if(said, boost::is_any_of(" \t"));
  return boost::beast::iequals(said, media_type);
}

Result<Request> parse_target(std::string_view target) {
  if (!target.starts_with('/'))
    return Error{ErrorCode::kInvalidArgument, "the request target does not start with '/'"};
  Request request;
  const auto mark = target.find('?');
  request.path = std::string(target.substr(0, mark));
  std::string_view rest = mark == std::string_view::npos ? "" : target.substr(mark + 1);
  while (!rest.empty()) {
    const auto end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
    const auto equals = pair.find('=');
    const auto name = decode_query_text(pair.substr(0, equals));
    const auto value =
        decode_query_text(equals == std::string_view::npos ? "" : pair.substr(equals + 1));
    if (!name || !value)
      return Error{ErrorCode::kInvalidArgument, "the query holds a broken %-escape"};
    if (!name->empty()) request.query[*name] = *value;
  }
  return request;
}

}  // namespace osm::inline v1::net
