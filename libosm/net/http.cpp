#include "osm/net/http.hpp"

#include <algorithm>

#include "net/json_text.hpp"

namespace osm::inline v1::net {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Result<std::string> Request::required(const std::string& name) const {
  const auto at = query.find(name);
  if (at == query.end() || at->second.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 path + ": the query parameter '" + name + "' is missing; add ?" + name + "=..."};
  }
  return at->second;
}

Response json_response(std::string json, int status) {
  return {status, "application/json", std::move(json), {}};
}

Response text_response(std::string text, int status) {
  return {status, "text/plain; charset=utf-8", std::move(text), {}};
}

Response error_response(const Error& error) {
  std::string json = R"({"error":{"code":)";
  append_json_string(json, error_code_text(error.code));
  json += R"(,"message":)";
  append_json_string(json, error.message);
  json += "}}\n";
  return json_response(std::move(json), http_status(error.code));
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
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_value(text[i + 1]);
      const int low = hex_value(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      out.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    }
  }
  return out;
}

std::string encode_query_text(std::string_view text) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  static constexpr std::string_view kUnreserved =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string out;
  for (const char c : text) {
    if (kUnreserved.find(c) != std::string_view::npos) {
      out.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out.push_back('%');
    out.push_back(kDigits[byte >> 4]);
    out.push_back(kDigits[byte & 15]);
  }
  return out;
}

bool has_media_type(std::string_view content_type, std::string_view media_type) {
  constexpr std::string_view kBlank = " \t";
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  std::string_view said = content_type.substr(0, content_type.find(';'));
  said.remove_prefix(std::min(said.find_first_not_of(kBlank), said.size()));
  said = said.substr(0, said.find_last_not_of(kBlank) + 1);
  return std::equal(said.begin(), said.end(), media_type.begin(), media_type.end(),
                    [&](char a, char b) { return lower(a) == b; });
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
