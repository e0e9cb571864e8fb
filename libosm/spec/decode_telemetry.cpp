// Telemetry, policy.openservicemesh.io/v1alpha1, and ExtensionService,
// config.openservicemesh.io/v1alpha2.
#include "osm/values/telemetry.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>

#include "spec/decoder.hpp"
#include "spec/log_format.hpp"

namespace osm::inline v1::spec {
namespace {

namespace json = boost::json;

// Every chain of a listener has the format and the attributes.
constexpr std::size_t kMostFormatBytes = 4096;
constexpr std::size_t kMostLevels = 8;        // of maps in a JSON format
constexpr std::size_t kMostLabelBytes = 317;  // a prefix of 253, a slash and a name of 63
constexpr DurationRule kCollectorTimeout{std::chrono::milliseconds(1), std::chrono::hours(1),
                                         "from 1ms to 1h, such as 500ms or 5s"};

void check_commands(const Field& field, std::string_view text, std::string_view member = {}) {
  if (text.find('\0') != std::string_view::npos) field.refuse("must be without a zero byte");
  if (auto cause = why_bad_log_format(text))
    field.refuse(member.empty() ? *cause : '"' + std::string(member) + "\" " + *cause);
}

// Refuses anything but texts and maps of them.
void check_members(const Field& field, const json::object& map, std::size_t level = 1) {
  if (level > kMostLevels) return field.refuse("has too many maps inside of each other");
  for (const auto& [key, value] : map) {
    const std::string_view name = key;
    if (const auto* text = value.if_string()) {
      check_commands(field, {text->data(), text->size()}, name);
    } else if (const auto* inner = value.if_object()) {
      check_members(field, *inner, level + 1);
    } else {
      field.refuse('"' + std::string(name) + "\" must be a text or a map of texts");
    }
  }
}

AccessLogFormat format_of(const Field& field) {
  using enum AccessLogFormat::Kind;
  if (!field.present()) return {};
  const std::string text = field.required_text();
  if (text.size() > kMostFormatBytes) {
    field.refuse("must have at most " + std::to_string(kMostFormatBytes) + " bytes",
                 ErrorCode::kTooLarge);
    return {};
  }
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] != '{') {
    check_commands(field, text);
    return {kText, text};
  }
  boost::system::error_code error;
  const json::value value = json::parse(text, error);
  if (error || !value.is_object()) {
    field.refuse("begins with a brace and is no JSON object: " + error.message());
    return {};
  }
  check_members(field, value.get_object());
  return {kJson, json::serialize(value)};
}

std::map<std::string, std::string> attributes_of(const Field& field) {
  auto attributes = field.text_map();
  std::size_t bytes = 0;
  for (const auto& [name, value] : attributes) {
    bytes += name.size() + value.size();
    if (name.empty()) field.refuse("must have no empty name");
    check_commands(field, value, name);
  }
  if (bytes > kMostFormatBytes)
    field.refuse("must have at most " + std::to_string(kMostFormatBytes) + " bytes in all",
                 ErrorCode::kTooLarge);
  return attributes;
}

// The namespace is checked where the control plane's is known.
OpenTelemetryLog open_telemetry_of(const Field& field) {
  OpenTelemetryLog log;
  const auto [map, service, attributes] = field.required_map("extensionService", "attributes");
  if (!map) return log;
  if (const auto [is_map, ns, name] = service.required_map("namespace", "name"); is_map)
    log.service = {required_label(ns), required_subdomain(name)};
  log.attributes = attributes_of(attributes);
  return log;
}

// An empty selector selects everything, as an absent one.
std::map<std::string, std::string> selector_of(const Field& field) {
  auto selector = field.text_map();
  for (const auto& [name, value] : selector)
    if (name.empty() || name.size() > kMostLabelBytes) field.refuse("has a name that no label has");
  return selector;
}

}  // namespace

DecodedPolicy decode_telemetry(const Object& object) {
  ObjectReader reader(object, NameRule::kSubdomain);
  const auto [map, selector, log] = reader.root()["spec"].required_map("selector", "accessLog");
  Telemetry telemetry;
  telemetry.selector = selector_of(selector);
  const auto [is_map, format, exported] = log.optional_map("format", "openTelemetry");
  telemetry.format = format_of(format);
  // An export that cannot be read sends nothing, and the rest is used.
  if (exported.present()) telemetry.open_telemetry = exported.element("export", open_telemetry_of);
  return std::move(reader).finish_policy(std::move(telemetry));
}

DecodedPolicy decode_extension_service(const Object& object) {
  ObjectReader reader(object, NameRule::kSubdomain);
  ExtensionService service;
  const auto [map, host, port, protocol, connect_timeout] =
      reader.root()["spec"].required_map("host", "port", "protocol", "connectTimeout");
  if (map) {
    service.host = host_of(host.required());
    service.port = port.listed_port().value_or(Port{});
    // Anything else, above all TLS, would be sent in plain text.
    choice_of(protocol, {"grpc", "h2c"});
    if (const auto timeout = duration_of(connect_timeout, kCollectorTimeout))
      service.connect_timeout = *timeout;
  }
  return std::move(reader).finish_policy(std::move(service));
}

}  // namespace osm::inline v1::spec
