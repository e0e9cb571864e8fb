#include "spec/decode_global_limit.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "spec/decoder.hpp"

namespace osm::inline v1::spec {
namespace {

// Status codes that Envoy can answer with.
// https://www.envoyproxy.io/docs/envoy/latest/api-v3/type/v3/http_status.proto
constexpr auto kStatusCodes = std::to_array<std::int64_t>(
    {400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 421,
     422, 423, 424, 426, 428, 429, 431, 500, 501, 502, 503, 504, 505, 506, 507, 508, 510, 511});

constexpr DurationRule kAnswerTime{std::chrono::milliseconds(1), std::chrono::minutes(1),
                                   "from 1ms to 1m, such as 20ms or 1s"};

// Fields that both kinds of limits have.
RateLimitServer server_of(const Field& service, const Field& domain, const Field& timeout,
                          const Field& fail_open) {
  RateLimitServer out;
  if (const auto [map, host, port] = service.required_map("host", "port"); map) {
    out.host = host_of(host.required());
    out.port = port.listed_port().value_or(Port{});
  }
  out.domain = domain.required_text();
  out.timeout = duration_of(timeout, kAnswerTime).value_or(out.timeout);
  out.fail_open = fail_open.boolean().value_or(out.fail_open);
  return out;
}

// At least one. Envoy refuses a descriptor without entries.
std::vector<Field> entries_of(const Field& descriptor) {
  const auto [map, entries] = descriptor.required_map("entries");
  if (!map) return {};
  std::vector<Field> list = entries.required().list();
  if (entries.present() && list.empty()) entries.refuse("must have an entry");
  return list;
}

// Envoy may replace what stands between two "%" of a value.
std::string value_of(const Field& field) {
  std::string text = field.required_text();
  if (text.find('%') != std::string::npos) field.refuse("must not have a '%'");
  return text;
}

std::string header_name_of(const Field& field) {
  std::string name = field.required_text();
  if (!name.empty() && !is_header_name(name)) field.refuse("not an HTTP header name");
  return name;
}

// The one member of `field` that is present; empty: refused.
std::string only_member(const Field& field, std::initializer_list<std::string_view> choices) {
  std::string found;
  std::size_t count = 0;
  for (const std::string_view choice : choices)
    if (field[choice].present()) found = choice, ++count;
  if (count == 1) return found;
  field.refuse("must have exactly one of " + joined({choices.begin(), choices.size()}));
  return {};
}

HeaderCondition condition_of(const Field& field, int& cost) {
  using Kind = HeaderCondition::Kind;
  HeaderCondition out;
  if (!field.required_map({"name", "exact", "prefix", "suffix", "regex", "contains", "present"}))
    return out;
  out.name = header_name_of(field["name"]);
  const std::string chosen =
      only_member(field, {"exact", "prefix", "suffix", "regex", "contains", "present"});
  if (chosen.empty()) return out;
  const Field value = field[chosen];
  if (chosen == "present") {
    out.kind = value.boolean().value_or(true) ? Kind::kPresent : Kind::kAbsent;
    return out;
  }
  out.text = value.required_text();
  if (chosen == "regex") {
    out.kind = Kind::kRegex;
    if (!out.text.empty()) check_regex(value, out.text, cost);
  } else {
    out.kind = chosen == "exact"    ? Kind::kExact
               : chosen == "prefix" ? Kind::kPrefix
               : chosen == "suffix" ? Kind::kSuffix
                                    : Kind::kContains;
  }
  return out;
}

RateLimitEntry entry_of(const Field& field, int& cost) {
  using Kind = RateLimitEntry::Kind;
  RateLimitEntry out;
  if (!field.required_map({"genericKey", "remoteAddress", "requestHeader", "headerValueMatch"}))
    return out;
  const std::string chosen =
      only_member(field, {"genericKey", "remoteAddress", "requestHeader", "headerValueMatch"});
  const Field entry = field[chosen];
  if (chosen == "genericKey") {
    const auto [map, value, key] = entry.required_map("value", "key");
    if (!map) return out;
    out.kind = Kind::kGenericKey;
    out.value = value_of(value);
    out.key = key.text().value_or("");
  } else if (chosen == "remoteAddress") {
    out.kind = Kind::kRemoteAddress;
    if (entry.required_map() && !entry.members().empty()) entry.refuse("must be {}");
  } else if (chosen == "requestHeader") {
    const auto [map, name, key] = entry.required_map("name", "key");
    if (!map) return out;
    out.kind = Kind::kRequestHeader;
    out.header = header_name_of(name);
    out.key = key.required_text();
  } else if (chosen == "headerValueMatch") {
    const auto [map, value, headers, key, expect_match] =
        entry.required_map("value", "headers", "key", "expectMatch");
    if (!map) return out;
    out.kind = Kind::kHeaderValueMatch;
    out.value = value_of(value);
    out.key = key.text().value_or("");
    out.expect_match = expect_match.boolean().value_or(true);
    for (const Field& header : headers.required().list())
      out.headers.push_back(condition_of(header, cost));
    if (headers.present() && out.headers.empty()) headers.refuse("must have a header");
  }
  return out;
}

std::pair<std::string, std::string> pair_of(const Field& field) {
  const auto [map, key, value] = field.required_map("key", "value");
  if (!map) return {};
  return {key.required_text(), value_of(value)};
}

}  // namespace

std::uint32_t refusal_status_of(const Field& field) {
  const std::int64_t code = field.integer(400, 599).value_or(429);
  if (std::find(kStatusCodes.begin(), kStatusCodes.end(), code) == kStatusCodes.end())
    field.refuse("is no status code that Envoy can answer with; use one such as 429 or 503");
  return static_cast<std::uint32_t>(code);
}

std::optional<TcpGlobalRateLimit> tcp_global_limit_of(const Field& field) {
  const auto [map, service, domain, descriptors, timeout, fail_open] =
      field.optional_map("rateLimitService", "domain", "descriptors", "timeout", "failOpen");
  if (!map) return std::nullopt;
  TcpGlobalRateLimit out{server_of(service, domain, timeout, fail_open), {}};
  for (const Field& descriptor : descriptors.required().list()) {
    auto& pairs = out.descriptors.emplace_back();
    for (const Field& entry : entries_of(descriptor)) pairs.push_back(pair_of(entry));
  }
  if (descriptors.present() && out.descriptors.empty())
    descriptors.refuse("must have a descriptor: without one no connection is counted");
  return out;
}

void read_http_global_limit(const Field& field, UpstreamLimits& out, int& cost) {
  const auto [map, service, domain, descriptors, timeout, fail_open, quota_headers, status] =
      field.optional_map("rateLimitService", "domain", "descriptors", "timeout", "failOpen",
                         "enableXRateLimitHeaders", "responseStatusCode");
  if (!map) return;
  out.global_http = HttpGlobalRateLimit{.server = server_of(service, domain, timeout, fail_open),
                                        .quota_headers = quota_headers.boolean().value_or(false),
                                        .status = refusal_status_of(status)};
  out.descriptors = descriptors_of(descriptors, cost);
}

std::vector<RateLimitDescriptor> descriptors_of(const Field& field, int& cost) {
  std::vector<RateLimitDescriptor> out;
  for (const Field& descriptor : field.list()) {
    auto& entries = out.emplace_back();
    for (const Field& entry : entries_of(descriptor)) entries.push_back(entry_of(entry, cost));
  }
  return out;
}

}  // namespace osm::inline v1::spec
