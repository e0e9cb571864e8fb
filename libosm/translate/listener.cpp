#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "envoy/config/listener/v3/listener.pb.h"
#include "envoy/extensions/filters/listener/original_dst/v3/original_dst.pb.h"
#include "envoy/extensions/filters/listener/tls_inspector/v3/tls_inspector.pb.h"
#include "envoy/extensions/filters/network/rbac/v3/rbac.pb.h"
#include "envoy/extensions/filters/network/tcp_proxy/v3/tcp_proxy.pb.h"
#include "translate/access_log.hpp"
#include "translate/class_view.hpp"
#include "translate/http_manager.hpp"
#include "translate/input.hpp"
#include "translate/limits.hpp"
#include "translate/pack_any.hpp"
#include "translate/rbac.hpp"
#include "translate/tls.hpp"

namespace osm::inline v1::translate {
namespace {

namespace listener = envoy::config::listener::v3;
namespace core = envoy::config::core::v3;

constexpr const char* kOutboundListener = "outbound-listener";
constexpr const char* kInboundListener = "inbound-listener";
constexpr std::uint32_t kOutboundPort = 15001;
constexpr std::uint32_t kInboundPort = 15003;

listener::Listener empty_listener(const std::string& name, std::uint32_t port) {
  listener::Listener out;
  out.set_name(name);
  auto& address = *out.mutable_address()->mutable_socket_address();
  address.set_address("0.0.0.0");
  address.set_port_value(port);
  return out;
}

// Finds the destination before interception. Use this filter only: with the listener's
// use_original_dst flag, a dial to any host's port 15003 would reach this workload.
void add_original_dst(listener::Listener& out) {
  set_extension(*out.add_listener_filters(), "envoy.filters.listener.original_dst",
                envoy::extensions::filters::listener::original_dst::v3::OriginalDst());
}

void add_tls_inspector(listener::Listener& out) {
  set_extension(*out.add_listener_filters(), "envoy.filters.listener.tls_inspector",
                envoy::extensions::filters::listener::tls_inspector::v3::TlsInspector());
}

// Precondition: there is a destination.
listener::Filter tcp_proxy(const std::string& stat_prefix,
                           const std::vector<Destination>& destinations, Direction direction) {
  envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy proxy;
  proxy.set_stat_prefix(stat_prefix);
  if (destinations.size() == 1) {
    proxy.set_cluster(destinations.front().cluster);
  } else {
    for (const Destination& destination : destinations) {
      auto& weighted = *proxy.mutable_weighted_clusters()->add_clusters();
      weighted.set_name(destination.cluster);
      weighted.set_weight(destination.weight);
    }
  }
  *proxy.add_access_log() = access_log(direction);
  listener::Filter filter;
  set_extension(filter, "envoy.filters.network.tcp_proxy", proxy);
  return filter;
}

std::string chain_name(std::string_view direction, const ServiceName& service, Port port,
                       Protocol protocol) {
  return std::string(direction) + '_' + service.str() + '_' + std::to_string(number(port)) + '_' +
         std::string(protocol_text(protocol));
}

void add_exact_range(listener::FilterChainMatch& match, const std::string& address) {
  auto& range = *match.add_prefix_ranges();
  range.set_address_prefix(address);
  range.mutable_prefix_len()->set_value(address.find(':') == std::string::npos ? 32 : 128);
}

// ---- outbound: connections of the application

struct OutboundChain {
  ServiceName service;
  Port port{};
  Protocol protocol{};
  std::vector<std::string> addresses;       // ordered, never empty
  std::string routes;                       // HTTP: the route configuration
  std::vector<Destination> destinations{};  // TCP; empty: connections are closed
  std::string part{};  // tells chains apart that differ in their addresses only

  std::string service_name() const { return chain_name("outbound", service, port, protocol); }
  std::string name() const { return part.empty() ? service_name() : service_name() + '_' + part; }
  auto fields() const {
    return std::tie(service, port, protocol, addresses, routes, destinations, part);
  }
};

struct OutboundListenerValues {
  static constexpr XdsType kType = XdsType::kListener;
  static constexpr std::string_view kKind = "outbound-listener";

  bool egress = false;
  std::optional<HttpTracing> tracing;
  std::vector<OutboundChain> chains;  // ordered by name, matches unique

  auto fields() const { return std::tie(egress, tracing, chains); }

  Encoding encode(const std::string& name) const {
    // No inspectors: the destination alone selects the chain, and a server-first protocol must not
    // wait for its client.
    auto out = empty_listener(name, kOutboundPort);
    out.set_traffic_direction(core::TrafficDirection::OUTBOUND);
    add_original_dst(out);
    *out.add_access_log() = unmatched_access_log(Direction::kOutbound);
    Encoding encoding;
    for (const OutboundChain& chain : chains) add_chain(chain, out, encoding);
    if (egress) {
      auto& rest = *out.mutable_default_filter_chain();
      rest.set_name("outbound-egress-filter-chain");
      *rest.add_filters() = tcp_proxy("egress-tcp-proxy.passthrough-outbound",
                                      {{kPassthroughCluster}}, Direction::kOutbound);
      encoding.references.push_back({XdsType::kCluster, kPassthroughCluster});
    }
    encoding.any = deterministic_bytes(pack_any(out));
    return encoding;
  }

  // A TCP chain without a destination has no filters: Envoy closes its connections.
  void add_chain(const OutboundChain& chain, listener::Listener& out, Encoding& encoding) const {
    auto& filter_chain = *out.add_filter_chains();
    filter_chain.set_name(chain.name());
    auto& match = *filter_chain.mutable_filter_chain_match();
    match.mutable_destination_port()->set_value(number(chain.port));
    for (const std::string& address : chain.addresses) add_exact_range(match, address);
    if (is_http(chain.protocol)) {
      *filter_chain.add_filters() = outbound_http_manager(chain.routes, tracing);
      encoding.references.push_back({XdsType::kRoute, chain.routes});
      if (tracing) encoding.references.push_back({XdsType::kCluster, kTracingCluster});
    } else if (!chain.destinations.empty()) {
      *filter_chain.add_filters() = tcp_proxy("outbound-mesh-tcp-proxy_" + chain.service_name(),
                                              chain.destinations, Direction::kOutbound);
      for (const Destination& destination : chain.destinations)
        encoding.references.push_back({XdsType::kCluster, destination.cluster});
    }
  }
};

using Taken = std::set<std::pair<std::string, Port>>;

// The `addresses` that no chain has claimed yet: Envoy refuses a listener with equal matches.
std::vector<std::string> claim(Taken& taken, std::vector<std::string> addresses, Port port) {
  std::erase_if(addresses, [&](const std::string& address) {
    return address.empty() || !taken.emplace(address, port).second;
  });
  return addresses;
}

void add_cluster_ip_chain(const ClassView& view, Taken& taken, const model::ServiceEntry& entry,
                          const MeshService& port, std::vector<OutboundChain>& chains) {
  auto addresses = claim(taken, {entry.cluster_ip}, port.port);
  if (addresses.empty()) return;
  OutboundChain chain{entry.name, port.port, port.protocol, std::move(addresses), {}};
  if (is_http(port.protocol)) {
    chain.routes = outbound_route_name(entry, port);
  } else {
    chain.destinations = destinations_of(view, entry, port);
  }
  chains.push_back(std::move(chain));
}

// Adds the chains of pods that clients dial at `dialled`.
void add_pod_chains(Taken& taken, const model::ServiceEntry& entry, const DialledPods& pods,
                    Port dialled, std::vector<OutboundChain>& chains) {
  const MeshService& port = pods.port;
  auto addresses = claim(taken, pods.addresses, dialled);
  if (addresses.empty()) return;
  if (is_http(port.protocol)) {
    const std::string part = pods.usual ? ""
                                        : std::to_string(number(port.port)) + '-' +
                                              std::to_string(number(port.target_port));
    chains.push_back({entry.name,
                      dialled,
                      port.protocol,
                      std::move(addresses),
                      outbound_route_name(entry, pods),
                      {},
                      part});
    return;
  }
  // A changed chain loses its connections, and TCP clients do not reconnect by themselves. So each
  // pod has its own chain, and a pod that comes or goes changes no other. The address names the
  // pod, so a split has no part in it.
  const Destination pod{dialled_cluster_name(entry, port)};
  for (const std::string& address : addresses)
    chains.push_back({entry.name, dialled, port.protocol, {address}, {}, {pod}, address});
}

void add_outbound(const ClassView& view, std::vector<InputPtr>& inputs) {
  OutboundListenerValues values;
  values.egress = view.snapshot.config.proxy.egress;
  if (view.sends_http()) values.tracing = HttpTracing::of(view.snapshot.config.proxy);
  Taken taken;
  for (const auto& [upstream, entry] : view.upstreams) {
    if (!upstream->dialled) continue;
    for (const MeshService& port : entry->ports) {
      if (!entry->headless) add_cluster_ip_chain(view, taken, *entry, port, values.chains);
      if (entry->headless)
        for (const DialledPods& pods : dialled_pods(*entry, port))
          add_pod_chains(taken, *entry, pods, port.port, values.chains);
    }
  }
  // Without a mesh only a pod's own ports can be dialled under a headless name. Ports of Services
  // come first, whichever Service it is.
  for (const auto& [upstream, entry] : view.upstreams) {
    if (!upstream->dialled) continue;
    for (const MeshService& port : entry->ports)
      if (dials_one_pod(*entry, port))
        for (const DialledPods& pods : dialled_pods(*entry, port))
          add_pod_chains(taken, *entry, pods, pods.port.target_port, values.chains);
  }
  if (values.chains.empty() && !values.egress) return;
  std::sort(values.chains.begin(), values.chains.end(),
            [](const auto& a, const auto& b) { return a.name() < b.name(); });
  inputs.push_back(make_input(kOutboundListener, std::move(values)));
}

// ---- inbound: connections of peers

struct InboundChain {
  ServiceName service;
  Port target_port{};
  Protocol protocol{};
  Authorization authorization;  // TCP only; HTTP has it in its routes
  std::string routes;           // HTTP
  HttpPaths paths{};            // HTTP
  // HTTP: its routes deny requests, and this ends open streams. The chain changes with it, so that
  // all its connections drain.
  std::vector<ServiceIdentity> denied{};
  std::optional<LocalRateLimit> limit{};

  std::string name() const { return chain_name("inbound", service, target_port, protocol); }
  auto fields() const {
    return std::tie(service, target_port, protocol, authorization, routes, paths, denied, limit);
  }
};

listener::Filter network_rbac(envoy::config::rbac::v3::RBAC rules) {
  envoy::extensions::filters::network::rbac::v3::RBAC rbac;
  rbac.set_stat_prefix("network-");
  *rbac.mutable_rules() = std::move(rules);
  listener::Filter filter;
  set_extension(filter, "l4_rbac", rbac);
  return filter;
}

struct InboundListenerValues {
  static constexpr XdsType kType = XdsType::kListener;
  static constexpr std::string_view kKind = "inbound-listener";

  std::vector<TrustDomain> domains;
  TlsSettings tls;
  InboundHttp http;
  std::vector<InboundChain> chains;          // ordered by name; one per (target port, FQDN)
  std::vector<TrustDomain> allowed_domains;  // only with denied accounts

  auto fields() const { return std::tie(domains, tls, http, chains, allowed_domains); }

  Encoding encode(const std::string& name) const {
    auto out = empty_listener(name, kInboundPort);
    out.set_traffic_direction(core::TrafficDirection::INBOUND);
    add_tls_inspector(out);
    add_original_dst(out);
    *out.add_access_log() = unmatched_access_log(Direction::kInbound);
    Encoding encoding{{}, tls_references()};
    for (const InboundChain& chain : chains) add_chain(chain, out, encoding);
    encoding.any = deterministic_bytes(pack_any(out));
    return encoding;
  }

  void add_chain(const InboundChain& chain, listener::Listener& out, Encoding& encoding) const {
    auto& filter_chain = *out.add_filter_chains();
    filter_chain.set_name(chain.name());
    auto& match = *filter_chain.mutable_filter_chain_match();
    match.mutable_destination_port()->set_value(number(chain.target_port));
    match.set_transport_protocol("tls");
    match.add_application_protocols(kMeshAlpn);
    match.add_server_names(service_fqdn(chain.service));
    filter_chain.mutable_transport_socket()->set_name(chain.name());
    *filter_chain.mutable_transport_socket()->mutable_typed_config() = downstream_tls(domains, tls);
    if (is_http(chain.protocol)) {
      if (!chain.denied.empty())
        *filter_chain.add_filters() = network_rbac(rbac_denials(allowed_domains, chain.denied));
      add_limit(chain, filter_chain);
      *filter_chain.add_filters() =
          inbound_http_manager(chain.routes, chain.protocol, chain.paths, http);
      encoding.references.push_back({XdsType::kRoute, chain.routes});
      for (auto& needed : cluster_references(http))
        encoding.references.push_back(std::move(needed));
      return;
    }
    const MeshService served{chain.service, "", {}, chain.target_port, chain.protocol};
    const std::string cluster = served.local_cluster_name().str();
    *filter_chain.add_filters() = network_rbac(rbac_rules(chain.authorization));
    add_limit(chain, filter_chain);
    *filter_chain.add_filters() =
        tcp_proxy("inbound-mesh-tcp-proxy." + cluster, {{cluster}}, Direction::kInbound);
    encoding.references.push_back({XdsType::kCluster, cluster});
  }

  static void add_limit(const InboundChain& chain, listener::FilterChain& out) {
    if (chain.limit) *out.add_filters() = connection_rate_limit(chain.name(), *chain.limit);
  }
};

void add_inbound(const ClassView& view, std::vector<InputPtr>& inputs) {
  const std::vector<ServiceIdentity> denied = denied_callers(view);
  std::map<std::pair<ServiceName, Port>, InboundChain> chains;
  for (const ServedPort& served : view.served) {
    const MeshService& own = served.port;
    if (own.target_port == Port{0}) continue;
    auto [at, added] = chains.try_emplace({own.name, own.target_port});
    if (!added) {  // another service port on the same target port
      // Streams need the chain of gRPC, where the authorizer waits for no body.
      if (own.protocol == Protocol::kGrpc && is_http(at->second.protocol))
        at->second.protocol = own.protocol;
      continue;
    }
    at->second = {own.name, own.target_port, own.protocol, {}, {}, {}, {}};
    if (const auto entry = view.snapshot.services.find(own.name); entry && entry->limits)
      at->second.limit = entry->limits->tcp;
    if (is_http(own.protocol)) {
      at->second.routes = inbound_route_name(served);
      at->second.denied = denied;
      at->second.paths = served.http_paths;
    } else {
      at->second.authorization = tcp_authorization(view, own.target_port);
    }
  }
  if (chains.empty()) return;
  InboundListenerValues values{
      view.snapshot.accepted_domains, view.snapshot.config.proxy.tls, {}, {}, {}};
  if (view.receives_http()) {
    values.http = InboundHttp::of(view.snapshot.config.proxy);
    if (!denied.empty()) values.allowed_domains = view.snapshot.allowed_domains;
  }
  for (auto& [key, chain] : chains) values.chains.push_back(std::move(chain));
  std::sort(values.chains.begin(), values.chains.end(),
            [](const auto& a, const auto& b) { return a.name() < b.name(); });
  inputs.push_back(make_input(kInboundListener, std::move(values)));
}

}  // namespace

std::vector<InputPtr> listener_inputs(const ClassView& view) {
  std::vector<InputPtr> inputs;
  add_outbound(view, inputs);
  add_inbound(view, inputs);
  return inputs;
}

}  // namespace osm::inline v1::translate
