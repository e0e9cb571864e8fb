// IngressBackend, policy.openservicemesh.io/v1alpha1.
#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <utility>

#include "osm/values/ingress_backend.hpp"
#include "spec/decoder.hpp"

namespace osm::inline v1::spec {
namespace {

constexpr std::string_view kUri = "spiffe://";
constexpr std::size_t kMaxPrincipalBytes = 512;
// Limit for backends × sources of one object: each combination can become a match of Envoy's.
constexpr std::size_t kMaxBackendSources = 4096;

// The path of a SPIFFE id; empty: it has none, or no trust domain.
std::string_view spiffe_path_of(std::string_view uri) {
  const auto slash = uri.find('/', kUri.size());
  return slash == uri.npos || slash == kUri.size() ? std::string_view() : uri.substr(slash);
}

// An exact name in client certificates.
std::string principal_of(const Field& field) {
  std::string name = field.required_text();
  if (name.empty()) return name;
  if (name.size() > kMaxPrincipalBytes) {
    field.refuse("must have at most " + std::to_string(kMaxPrincipalBytes) + " bytes",
                 ErrorCode::kTooLarge);
  } else if (!name.starts_with(kUri)) {
    if (!is_dns_name(name))
      field.refuse("must be a name of the gateway's certificate: a DNS name, or a spiffe:// URI");
  } else if (!consists_of(name, ":/._-") || spiffe_path_of(name).size() < 2) {
    field.refuse("must be a SPIFFE id, such as spiffe://cluster.local/osm/gateway/edge.example");
  } else if (spiffe_path_of(name).starts_with("/ns/")) {
    field.refuse(
        "is the identity of a workload of the mesh, which a TrafficTarget admits; name the "
        "gateway's own certificate");
  }
  return name;
}

// One of spec.sources; exactly one member is set.
struct IngressSource {
  std::optional<ServiceName> service{};
  std::optional<std::string> network{};
  std::optional<std::string> principal{};
};

IngressSource ingress_source_of(const Field& field) {
  enum class As { kService, kNetwork, kPrincipal };
  const auto [map, kind, name, ns] = field.required_map("kind", "name", "namespace");
  if (!map) return {};
  const As as = choice_of(kind.required(),
                          {{kinds::kService.kind, As::kService},
                           {"IPRange", As::kNetwork},
                           {"AuthenticatedPrincipal", As::kPrincipal}},
                          As::kService);
  if (as == As::kNetwork) return {.network = required_network(name)};
  if (as == As::kPrincipal) return {.principal = principal_of(name)};
  return {.service = ServiceName{required_label(ns), required_label(name)}};
}

// A source that is left out still limits addresses: it may have done so, and without it an https
// backend would admit its principals from everywhere.
void read_sources(const Field& sources, IngressBackend& out) {
  std::size_t place = 0;
  for (const Field& field : sources.required().list()) {
    const auto source = field.element("source", ingress_source_of);
    out.limits_addresses |= !source || !source->principal;
    if (source && source->service) out.services.push_back({*source->service, place});
    if (source && source->network) out.networks.push_back(*source->network);
    if (source && source->principal) out.principals.push_back(*source->principal);
    ++place;
  }
}

std::string sni_host_of(const Field& field) {
  const std::string text = field.required_text();
  const std::string_view prefix = text.starts_with("*.") ? "*." : "";
  const auto name = dns_name_of(std::string_view(text).substr(prefix.size()));
  if (!text.empty() && !name)
    field.refuse("must be a host such as example.com or *.example.com, without scheme and port");
  return std::string(prefix) + name.value_or("");
}

IngressTls tls_of(const Field& field) {
  IngressTls tls;
  const auto [map, skip, hosts] = field.optional_map("skipClientCertValidation", "sniHosts");
  if (!map) return tls;
  tls.client_certificate = !skip.required().boolean().value_or(false);
  for (const Field& host : hosts.list()) tls.sni_hosts.push_back(sni_host_of(host));
  std::sort(tls.sni_hosts.begin(), tls.sni_hosts.end());
  tls.sni_hosts.erase(std::unique(tls.sni_hosts.begin(), tls.sni_hosts.end()), tls.sni_hosts.end());
  return tls;
}

IngressTarget target_of(const Field& field, const std::string& ns) {
  IngressTarget target;
  const auto [map, name, port, tls] = field.required_map("name", "port", "tls");
  if (!map) return target;
  target.service = {ns, required_label(name)};
  if (const auto [is_map, number, protocol] = port.required_map("number", "protocol"); is_map) {
    target.target_port = number.required().port().value_or(Port{});
    if (choice_of(protocol.required(), {"http", "https"}) == 1) target.tls.emplace();
  }
  IngressTls settings = tls_of(tls);
  if (target.tls) {
    target.tls = std::move(settings);
  } else if (tls.present()) {
    tls.note("has no effect: the backend's protocol is http");
  }
  return target;
}

// Refuses a backend that admits nobody because no source has what it checks: the name in a client
// certificate, or else an address.
void check_callers(const Field& field, const IngressTarget& target, const IngressBackend& policy) {
  if (target.tls && target.tls->client_certificate) {
    if (policy.principals.empty())
      field.refuse(
          "asks its clients for a certificate (https without tls.skipClientCertValidation), and "
          "no source names the accepted clients; add an AuthenticatedPrincipal to spec.sources");
  } else if (!policy.limits_addresses) {
    field.refuse(
        "asks for no client certificate, and no source limits the callers' addresses, so it admits "
        "nobody; add a Service or an IPRange to spec.sources (0.0.0.0/0 admits everybody)");
  }
}

void read_backends(const Field& backends, const std::string& ns, IngressBackend& out) {
  std::set<std::pair<ServiceName, Port>> seen;
  std::size_t place = 0;
  for (const Field& field : backends.required().list()) {
    auto target = field.element("backend", [&](const Field& item) {
      IngressTarget read = target_of(item, ns);
      read.place = place;
      if (read.service.name.empty() || read.target_port == Port{}) return read;
      if (!seen.emplace(read.service, read.target_port).second)
        item.refuse("names backend " + read.service.name + " port " +
                        std::to_string(number(read.target_port)) + " a second time",
                    ErrorCode::kDuplicateObject);
      check_callers(item, read, out);
      return read;
    });
    if (target) out.backends.push_back(*std::move(target));
    ++place;
  }
}

void check_cost(const Field& spec, const IngressBackend& policy) {
  const std::size_t sources =
      policy.services.size() + policy.networks.size() + policy.principals.size();
  const std::size_t combinations = policy.backends.size() * sources;
  if (combinations > kMaxBackendSources)
    spec.refuse_object("backends and sources have " + std::to_string(combinations) +
                           " combinations, and at most " + std::to_string(kMaxBackendSources) +
                           " are supported; split the object",
                       ErrorCode::kTooLarge);
}

void note_unused(const Field& matches, const Field& sources, const IngressBackend& policy) {
  for (const Field& match : matches.list()) match.required_map();
  if (!matches.list().empty())
    matches.note("has no effect, as in OSM v1.2: a backend admits all requests");
  const bool asks =
      std::any_of(policy.backends.begin(), policy.backends.end(),
                  [](const IngressTarget& one) { return one.tls && one.tls->client_certificate; });
  if (!policy.principals.empty() && !policy.backends.empty() && !asks)
    sources.note(
        "the AuthenticatedPrincipals have no effect: no backend asks for a client certificate");
}

}  // namespace

DecodedPolicy decode_ingress_backend(const Object& object) {
  ObjectReader reader(object, NameRule::kSubdomain);
  const Field spec = reader.root()["spec"];
  IngressBackend policy;
  const auto [map, backends, sources, matches] =
      spec.required_map("backends", "sources", "matches");
  if (map) {
    read_sources(sources, policy);
    read_backends(backends, object.key.ns, policy);
    check_cost(spec, policy);
    note_unused(matches, sources, policy);
  }
  return std::move(reader).finish_policy(std::move(policy));
}

}  // namespace osm::inline v1::spec
