#include "osm/values/endpoint.hpp"

#include <algorithm>

#include "model/ip_address.hpp"
#include "model/names.hpp"

namespace osm::inline v1 {
namespace {

constexpr std::size_t kMaxQuoted = 80;

// Text of a platform, for a message: bounded, and without line breaks.
std::string in_quotes(const std::string& text) {
  std::string out = "'" + text.substr(0, kMaxQuoted);
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  if (text.size() > kMaxQuoted) out += "...";
  return out + '\'';
}

Error invalid(std::string message) { return {ErrorCode::kInvalidField, std::move(message)}; }

}  // namespace

Status check_endpoint(const ServiceName& service, const Endpoint& endpoint) {
  if (!model::is_ipv4(endpoint.address) && !model::is_ipv6(endpoint.address))
    return invalid("its address " + in_quotes(endpoint.address) +
                   " is no IPv4 or IPv6 literal: list the address, without port and not a name");
  if (endpoint.port == Port{}) return invalid("its port is 0: list the port it listens on");
  const ServiceIdentity& identity = endpoint.identity;
  if (!is_dns_label(identity.ns) || !is_dns_subdomain(identity.name))
    return invalid("its identity " + in_quotes(identity.str()) +
                   " is no service account: list namespace and account name, as DNS names");
  if (identity.ns != service.ns)
    return Error{ErrorCode::kCrossNamespace, "its identity " + in_quotes(identity.str()) +
                                                 " is of another namespace than Service " +
                                                 service.str() + ": only accounts of " +
                                                 service.ns + " may stand behind it"};
  return {};
}

Result<ServiceName> parse_service_name(std::string ns, std::string name) {
  // Do not use <cctype>: it depends on the locale.
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  for (std::string* text : {&ns, &name}) {
    std::transform(text->begin(), text->end(), text->begin(), lower);
    if (!is_dns_label(*text))
      return invalid(in_quotes(*text) + " cannot be a service's " +
                     (text == &ns ? "namespace" : "name") +
                     ": use letters, digits and '-', at most 63");
  }
  return ServiceName{std::move(ns), std::move(name)};
}

}  // namespace osm::inline v1
