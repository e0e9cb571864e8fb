#include "spec/decoder.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>

#include "base/host_name.hpp"
#include "base/numbers.hpp"
#include "model/ip_address.hpp"
#include "model/names.hpp"

namespace osm::inline v1::spec {
namespace {

struct Unit {
  std::string_view name;
  double seconds;
};
constexpr std::array kUnits{Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3},
                            Unit{"s", 1},     Unit{"m", 60},    Unit{"h", 3600}};

bool is_network(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos || !model::is_ipv4(text.substr(0, slash))) return false;
  const std::string_view bits = text.substr(slash + 1);
  const auto length = number_of<unsigned>(bits);
  return length && *length <= 32 && (bits.size() == 1 || bits[0] != '0');
}

}  // namespace

ObjectReader::ObjectReader(const Object& object, NameRule rule) : object_(object) {
  if (auto cause = why_unknown(object))
    findings_.refuse("apiVersion", *std::move(cause), ErrorCode::kUnknownKind);
  if (object.key.ns.empty()) {
    findings_.refuse("metadata.namespace", "required");
  } else if (!is_dns_label(object.key.ns)) {
    findings_.refuse("metadata.namespace", kNotALabel);
  }
  const bool named =
      rule == NameRule::kLabel ? is_dns_label(object.key.name) : is_dns_subdomain(object.key.name);
  if (!named)
    findings_.refuse("metadata.name", rule == NameRule::kLabel ? kNotALabel : kNotASubdomain);
}

std::string required_label(const Field& field) {
  std::string name = field.required_text();
  if (!name.empty() && !is_dns_label(name)) field.refuse(kNotALabel);
  return name;
}

std::string required_subdomain(const Field& field) {
  std::string name = field.required_text();
  if (!name.empty() && !is_dns_subdomain(name)) field.refuse(kNotASubdomain);
  return name;
}

std::string required_dns_name(const Field& field) {
  std::string name = field.required_text();
  if (!name.empty() && !is_dns_name(name))
    field.refuse("must be a DNS name: labels of lower-case letters, digits and '-', joined by '.'");
  return name;
}

std::string required_account_name(const Field& field) {
  std::string name = field.required_text();
  if (name.find('.') != std::string::npos && is_dns_subdomain(name)) {
    field.refuse(
        "an account whose name has a dot cannot be an identity in the mesh; give its workloads "
        "another account");
  } else if (!name.empty() && !is_dns_label(name)) {
    field.refuse(kNotALabel);
  }
  return name;
}

std::string required_network(const Field& field) {
  std::string network = field.required_text();
  if (!network.empty() && !is_network(network))
    field.refuse("must be an IPv4 network such as 10.0.0.0/8");
  return network;
}

Ipv4Network network_of(const Field& field) {
  const std::string text = required_network(field);
  const auto slash = text.find('/');
  in_addr address{};
  if (slash == std::string::npos ||
      inet_pton(AF_INET, text.substr(0, slash).c_str(), &address) != 1)
    return {};
  const auto length = number_of<std::uint8_t>(text.substr(slash + 1)).value_or(32);
  if (length > 32) return {};  // refused above
  const std::uint32_t mask = length == 0 ? 0 : ~std::uint32_t{0} << (32 - length);
  return {ntohl(address.s_addr) & mask, length};
}

std::pair<std::string, std::string> required_reference(const Field& field, const GroupKind& kind,
                                                       std::string_view why) {
  const auto [map, written, name, ns] = field.required_map("kind", "name", "namespace");
  if (!map) return {};
  const std::string text = written.required_text();
  if (!text.empty() && text != kind.kind)
    written.refuse(std::string("must be ").append(kind.kind).append(why));
  return {required_label(ns),
          kind == kinds::kServiceAccount ? required_account_name(name) : required_label(name)};
}

ServiceIdentity own_account(const Field& field, std::string_view kind, const std::string& ns) {
  const auto [name_space, name] = required_reference(field, kinds::kServiceAccount);
  if (!name_space.empty() && name_space != ns)
    field["namespace"].refuse("must be the " + std::string(kind) + "'s own namespace, " + ns +
                                  "; write one into the namespace of each source",
                              ErrorCode::kCrossNamespace);
  return {name_space, name};
}

std::optional<std::size_t> choice_of(const Field& field,
                                     const std::vector<std::string_view>& words) {
  const auto text = field.text();
  if (!text) return std::nullopt;
  const auto at = std::find(words.begin(), words.end(), *text);
  if (at != words.end()) return at - words.begin();
  field.refuse("must be one of " + joined(words));
  return std::nullopt;
}

std::optional<double> seconds_of(std::string_view text) {
  if (text.empty()) return std::nullopt;
  double sum = 0;
  while (!text.empty()) {
    const auto digits = std::min(text.find_first_not_of("0123456789."), text.size());
    const auto amount = number_of<double>(text.substr(0, digits));
    text.remove_prefix(digits);
    const auto letters = std::min(text.find_first_of("0123456789."), text.size());
    const auto unit = std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& candidate) {
      return candidate.name == text.substr(0, letters);
    });
    if (!amount || unit == kUnits.end()) return std::nullopt;
    sum += *amount * unit->seconds;
    text.remove_prefix(letters);
  }
  return sum;
}

std::optional<std::chrono::milliseconds> duration_of(const Field& field, const DurationRule& rule) {
  using std::chrono::duration;
  const auto text = field.text();
  if (!text) return std::nullopt;
  const auto seconds = seconds_of(*text);
  const auto bound = [](std::chrono::milliseconds limit) {
    return duration<double>(limit).count();
  };
  if (seconds && *seconds >= bound(rule.least) && *seconds <= bound(rule.most))
    return std::chrono::duration_cast<std::chrono::milliseconds>(duration<double>(*seconds));
  field.refuse("must be a duration " + std::string(rule.text));
  return std::nullopt;
}

bool consists_of(std::string_view text, std::string_view marks) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || marks.find(c) != marks.npos;
  });
}

std::string host_of(const Field& field) {
  const auto text = field.text();
  if (!text) return {};
  if (auto name = host_name_of(*text)) return *std::move(name);
  field.refuse("must be a host name or an IP address, without scheme and port");
  return {};
}

bool is_header_name(std::string_view text) {
  return !text.empty() && consists_of(text, "!#$%&'*+-.^_`|~");
}

}  // namespace osm::inline v1::spec
