#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>

#include "envoy/config/listener/v3/listener.pb.h"
#include "envoy/extensions/filters/listener/original_dst/v3/original_dst.pb.h"
#include "envoy/extensions/filters/listener/tls_inspector/v3/tls_inspector.pb.h"
#include "envoy/extensions/filters/network/rbac/v3/rbac.pb.h"
#include "envoy/extensions/filters/network/tcp_proxy/v3/tcp_proxy.pb.h"
#include "translate/access_log.hpp"
#include "translate/class_view.hpp"
#include "translate/dns.hpp"
#include "translate/egress.hpp"
#include "translate/global_limits.hpp"
#include "translate/http_manager.hpp"
#include "translate/inbound.hpp"
#include "translate/ingress.hpp"
#include "translate/input.hpp"
#include "translate/pack_any.hpp"
#include "translate/rbac.hpp"
#include "translate/server_limits.hpp"
#include "translate/tls.hpp"

namespace osm::inline v1::translate {
namespace {

namespace listener = envoy::config::listener::v3;
namespace core = envoy::config::core::v3;

constexpr const char* kOutboundListener = "outbound-listener";
constexpr std::uint32_t kOutboundPort = 15001;
constexpr std::uint32_t kInboundPort = 15003;

void set_address(listener::Listener& out, const std::string& address, std::uint32_t port) {
  auto& at = *out.mutable_address()->mutable_socket_address();
  at.set_address(address);
  at.set_port_value(port);
}

listener::Listener empty_listener(const std::string& name, std::uint32_t port) {
  listener::Listener out;
  out.set_name(name);
  set_address(out, "0.0.0.0", port);
  return out;
}

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
                           const std::vector<Destination>& destinations, Direction direction,
                           const AccessLogs& logs, const IdleTime& idle = {}) {
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
  if (idle) set_milliseconds(*proxy.mutable_idle_timeout(), idle->count());
  logs.add_to(*proxy.mutable_access_log(), direction);
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

// The chain of connections to one address and port of the mesh.
struct OutboundChain {
  ServiceName service;
  Port port{};
  Protocol protocol{};
  std::string address;                      // never empty
  std::string routes;                       // HTTP: the route configuration
  std::vector<Destination> destinations{};  // TCP; empty: connections are closed
  IdleTime idle{};                          // TCP

  std::string name() const { return chain_name("outbound", service, port, protocol); }
  // Named by the address, so that an address that moves to another Service changes one listener.
  // Two listeners with one address, for however short a time, would be refused.
  std::string listener_name() const {
    return "outbound_" + address + '_' + std::to_string(number(port));
  }
};

// The listener of one dialled address and port. It has no socket: the outbound listener hands
// connections over by their destination before interception. So a Service that comes, changes or
// goes is one listener, and no other loses a connection.
struct DialledListenerValues {
  static constexpr XdsType kType = XdsType::kListener;
  static constexpr std::string_view kKind = "dialled-listener";

  OutboundHttp http;  // HTTP only
  AccessLogs logs;
  OutboundChain chain;

  Encoding encode(const std::string& name) const {
    listener::Listener out;
    out.set_name(name);
    set_address(out, chain.address, number(chain.port));
    out.mutable_bind_to_port()->set_value(false);
    out.set_stat_prefix("outbound");  // in common: counters of each listener would cost 9 kB each
    out.set_traffic_direction(core::TrafficDirection::OUTBOUND);
    Encoding encoding;
    logs.add_references(encoding.references);
    // No inspectors: a server-first protocol must not wait for its client.
    auto& filter_chain = *out.add_filter_chains();
    filter_chain.set_name(chain.name());
    // A TCP chain without a destination has no filters: Envoy closes its connections.
    if (is_http(chain.protocol)) {
      *filter_chain.add_filters() = outbound_http_manager(chain.routes, chain.port, http, logs);
      encoding.references.push_back({XdsType::kRoute, chain.routes});
      if (http.tracing) encoding.references.push_back({XdsType::kCluster, kTracingCluster});
    } else if (!chain.destinations.empty()) {
      *filter_chain.add_filters() =
          tcp_proxy("outbound-mesh-tcp-proxy_" + chain.name(), chain.destinations,
                    Direction::kOutbound, logs, chain.idle);
      for (const Destination& destination : chain.destinations)
        encoding.references.push_back({XdsType::kCluster, destination.cluster});
    }
    encoding.any = deterministic_bytes(pack_any(out));
    return encoding;
  }
};

// The listener that takes intercepted connections. Its own chains are for destinations outside of
// the mesh.
struct OutboundListenerValues {
  static constexpr XdsType kType = XdsType::kListener;
  static constexpr std::string_view kKind = "outbound-listener";

  bool egress = false;
  AccessLogs logs;
  std::vector<EgressChain> egress_chains;
  HeaderLimits headers{};  // of chains for HTTP

  Encoding encode(const std::string& name) const {
    auto out = empty_listener(name, kOutboundPort);
    out.set_traffic_direction(core::TrafficDirection::OUTBOUND);
    add_original_dst(out);
    out.mutable_use_original_dst()->set_value(true);  // to the dialled listeners
    // No inspector, except on ports with TLS names: a server-first protocol must not wait for its
    // client.
    if (const auto ports = ports_with_tls_names(egress_chains); !ports.empty()) {
      add_tls_inspector(out);
      use_only_on(ports, *out.mutable_listener_filters(out.listener_filters_size() - 1));
      // A Service of the mesh may have such a port too, and its server may speak first.
      out.set_continue_on_listener_filters_timeout(true);
    }
    logs.add_unmatched_to(*out.mutable_access_log(), Direction::kOutbound);
    Encoding encoding;
    logs.add_references(encoding.references);
    for (const EgressChain& chain : egress_chains) add_egress_chain(chain, out, encoding);
    if (egress) {
      auto& rest = *out.mutable_default_filter_chain();
      rest.set_name("outbound-egress-filter-chain");
      *rest.add_filters() = tcp_proxy("egress-tcp-proxy.passthrough-outbound",
                                      {{kPassthroughCluster}}, Direction::kOutbound, logs);
      encoding.references.push_back({XdsType::kCluster, kPassthroughCluster});
    } else if (egress_chains.empty()) {
      // Envoy refuses a listener without a chain. Nobody dials this address.
      auto& none = *out.add_filter_chains();
      none.set_name("outbound-nowhere");
      add_exact_range(*none.mutable_filter_chain_match(), "0.0.0.0");
    }
    encoding.any = deterministic_bytes(pack_any(out));
    return encoding;
  }

  void add_egress_chain(const EgressChain& chain, listener::Listener& out,
                        Encoding& encoding) const {
    auto& filter_chain = *out.add_filter_chains();
    filter_chain.set_name(chain.name);
    set_match(chain, *filter_chain.mutable_filter_chain_match());
    if (chain.protocol == EgressProtocol::kHttp) {
      *filter_chain.add_filters() = egress_http_manager(chain.routes, headers, logs);
      encoding.references.push_back({XdsType::kRoute, chain.routes});
    } else {
      *filter_chain.add_filters() =
          tcp_proxy("egress-tcp-proxy." + std::to_string(number(chain.port)), {{chain.cluster}},
                    Direction::kOutbound, logs);
      encoding.references.push_back({XdsType::kCluster, chain.cluster});
    }
  }
};

using Taken = std::set<std::pair<std::string, Port>>;

// True for the first that asks for the address and port: Envoy refuses a second listener for them.
bool claim(Taken& taken, const std::string& address, Port port) {
  return !address.empty() && taken.emplace(address, port).second;
}

IdleTime tcp_idle_time(const model::ServiceEntry& entry) {
  return entry.limits ? entry.limits->idle.connection : std::nullopt;
}

void add_cluster_ip_chain(const ClassView& view, Taken& taken, const model::ServiceEntry& entry,
                          const MeshService& port, std::vector<OutboundChain>& chains) {
  if (!claim(taken, entry.cluster_ip, port.port)) return;
  OutboundChain chain{entry.name, port.port, port.protocol, entry.cluster_ip, {}};
  if (is_http(port.protocol)) {
    chain.routes = outbound_route_name(entry, port);
  } else {
    chain.idle = tcp_idle_time(entry);
    chain.destinations = destinations_of(view, entry, port);
  }
  chains.push_back(std::move(chain));
}

// Adds the chains of pods that clients dial at `dialled`. Each pod has its own listener, so a pod
// that comes or goes changes no other. The address names the pod, so a TCP split has no part in it.
void add_pod_chains(Taken& taken, const model::ServiceEntry& entry, const DialledPods& pods,
                    Port dialled, std::vector<OutboundChain>& chains) {
  const MeshService& port = pods.port;
  for (const std::string& address : pods.addresses) {
    if (!claim(taken, address, dialled)) continue;
    OutboundChain chain{entry.name, dialled, port.protocol, address, {}};
    if (is_http(port.protocol)) {
      chain.routes = outbound_route_name(entry, pods);
    } else {
      chain.destinations = {{dialled_cluster_name(entry, port)}};
      chain.idle = tcp_idle_time(entry);
    }
    chains.push_back(std::move(chain));
  }
}

void add_outbound(const ClassView& view, std::vector<InputPtr>& inputs) {
  std::vector<OutboundChain> chains;
  Taken taken;
  for (const auto& [upstream, entry] : view.upstreams) {
    if (!upstream->dialled) continue;
    for (const MeshService& port : entry->ports) {
      if (!entry->headless) add_cluster_ip_chain(view, taken, *entry, port, chains);
      if (entry->headless)
        for (const DialledPods& pods : dialled_pods(*entry, port))
          add_pod_chains(taken, *entry, pods, port.port, chains);
    }
  }
  // Without a mesh only a pod's own ports can be dialled under a headless name. Ports of Services
  // come first, whichever Service it is.
  for (const auto& [upstream, entry] : view.upstreams) {
    if (!upstream->dialled) continue;
    for (const MeshService& port : entry->ports)
      if (dials_one_pod(*entry, port))
        for (const DialledPods& pods : dialled_pods(*entry, port))
          add_pod_chains(taken, *entry, pods, pods.port.target_port, chains);
  }
  const bool egress = view.snapshot.config.proxy.egress;
  std::vector<EgressChain> egress_chains = egress_plan(view).chains;
  if (chains.empty() && egress_chains.empty() && !egress) return;
  const AccessLogs logs = AccessLogs::of(view);
  const OutboundHttp http = OutboundHttp::of(view);
  const bool http_egress =
      std::any_of(egress_chains.begin(), egress_chains.end(),
                  [](const EgressChain& chain) { return chain.protocol == EgressProtocol::kHttp; });
  inputs.push_back(make_input(kOutboundListener,
                              OutboundListenerValues{egress, logs, std::move(egress_chains),
                                                     http_egress ? http.headers : HeaderLimits()}));
  for (OutboundChain& chain : chains) {
    DialledListenerValues values{{}, logs, std::move(chain)};
    if (is_http(values.chain.protocol)) values.http = http;
    std::string name = values.chain.listener_name();
    inputs.push_back(make_input(std::move(name), std::move(values)));
  }
}

// ---- inbound: connections of peers

struct InboundChain {
  ServiceName service;
  Port target_port{};
  Protocol protocol{};
  Authorization authorization;  // TCP only; HTTP has it in its routes
  std::string routes;           // HTTP
  RequestForm form{};           // HTTP
  // HTTP: its routes deny requests, and this ends open streams. The chain changes with it, so that
  // all its connections drain.
  std::vector<ServiceIdentity> denied{};
  ConnectionLimits limits{};
  std::vector<HttpLimiter> limiters{};  // HTTP
  IdleTime idle{};                      // TCP
  bool for_grpc = false;                // HTTP: gRPC libraries connect too, by another match

  std::string name() const { return chain_name("inbound", service, target_port, protocol); }
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

  PeerNames names;
  TlsSettings tls;
  InboundHttp http;
  AccessLogs logs;
  std::vector<InboundChain> chains;   // ordered by name; one per (target port, FQDN)
  PeerNames allowed_names;            // only with denied accounts
  std::vector<IngressChain> ingress;  // ordered by name, matches unique

  Encoding encode(const std::string& name) const {
    auto out = empty_listener(name, kInboundPort);
    out.set_traffic_direction(core::TrafficDirection::INBOUND);
    add_tls_inspector(out);
    add_original_dst(out);
    logs.add_unmatched_to(*out.mutable_access_log(), Direction::kInbound);
    Encoding encoding{{}, tls_references()};
    logs.add_references(encoding.references);
    for (const InboundChain& chain : chains) add_chain(chain, out, encoding);
    for (const IngressChain& chain : ingress) {
      *out.add_filter_chains() = filter_chain_of(chain, tls, http, logs, encoding);
      encoding.references.push_back({XdsType::kRoute, chain.routes});
      for (auto& needed : cluster_references(http))
        encoding.references.push_back(std::move(needed));
    }
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
    *filter_chain.mutable_transport_socket()->mutable_typed_config() = downstream_tls(names, tls);
    if (is_http(chain.protocol)) {
      if (!chain.denied.empty())
        *filter_chain.add_filters() = network_rbac(rbac_denials(allowed_names, chain.denied));
      chain.limits.add_to(filter_chain, encoding);
      *filter_chain.add_filters() = inbound_http_manager(chain.routes, chain.protocol, chain.form,
                                                         http, chain.limiters, logs);
      add_references(chain.limiters, encoding);
      encoding.references.push_back({XdsType::kRoute, chain.routes});
      for (auto& needed : cluster_references(http))
        encoding.references.push_back(std::move(needed));
      if (chain.for_grpc) add_grpc_chain(filter_chain, out);
      return;
    }
    const MeshService served{chain.service, "", {}, chain.target_port, chain.protocol};
    const std::string cluster = served.local_cluster_name().str();
    *filter_chain.add_filters() = network_rbac(rbac_rules(chain.authorization));
    chain.limits.add_to(filter_chain, encoding);
    *filter_chain.add_filters() = tcp_proxy("inbound-mesh-tcp-proxy." + cluster, {{cluster}},
                                            Direction::kInbound, logs, chain.idle);
    encoding.references.push_back({XdsType::kCluster, cluster});
  }

  // The same chain for gRPC libraries: they offer ALPN "h2" only, and insist on it.
  void add_grpc_chain(const listener::FilterChain& mesh, listener::Listener& out) const {
    listener::FilterChain chain = mesh;
    chain.set_name(mesh.name() + "_library");
    auto& match = *chain.mutable_filter_chain_match();
    match.clear_server_names();
    match.clear_application_protocols();
    match.add_application_protocols(kGrpcAlpn);
    chain.mutable_transport_socket()->set_name(chain.name());
    *chain.mutable_transport_socket()->mutable_typed_config() =
        downstream_tls(names, tls, PeerKind::kEnvoyOrGrpc);
    *out.add_filter_chains() = std::move(chain);
  }
};

// gRPC libraries send no server name, so a port has one chain for them: that of the first Service
// by name. An ingress chain for any server name is there first, since its callers offer "h2" too.
void admit_grpc_libraries(InboundListenerValues& values, const std::set<Port>& ports) {
  std::set<Port> taken;
  for (const IngressChain& chain : values.ingress)
    if (chain.tls && chain.server_names.empty()) taken.insert(chain.target_port);
  for (InboundChain& chain : values.chains)
    chain.for_grpc = is_http(chain.protocol) && ports.contains(chain.target_port) &&
                     taken.insert(chain.target_port).second;
}

void add_inbound(const ClassView& view, std::vector<InputPtr>& inputs) {
  const std::vector<ServiceIdentity> denied = denied_callers(view);
  std::map<std::pair<ServiceName, Port>, InboundChain> chains;
  std::set<Port> grpc_ports;
  for (const ServedPort& served : view.served) {
    const MeshService& own = served.port;
    if (own.target_port == Port{0}) continue;
    if (is_for_grpc_libraries(own)) grpc_ports.insert(own.target_port);
    auto [at, added] = chains.try_emplace({own.name, own.target_port});
    if (!added) {  // another service port on the same target port
      // Streams need the chain of gRPC, where the authorizer waits for no body.
      if (own.protocol == Protocol::kGrpc && is_http(at->second.protocol))
        at->second.protocol = own.protocol;
      continue;
    }
    at->second = {own.name, own.target_port, own.protocol, {}, {}, {}, {}};
    at->second.limits = ConnectionLimits::of(view, own.name);
    if (const auto* limits = view.limits_of(own.name); limits && !is_http(own.protocol))
      at->second.idle = limits->idle.connection;
    if (is_http(own.protocol)) {
      at->second.limiters = http_limiters(view, own.name, served.apexes);
      at->second.routes = inbound_route_name(served);
      at->second.denied = denied;
      at->second.form = {served.http_paths, served.header_names};
    } else {
      at->second.authorization = tcp_authorization(view, own.target_port);
    }
  }
  if (chains.empty()) return;
  InboundListenerValues values{accepted_names(view.snapshot),
                               view.snapshot.config.proxy.tls,
                               {},
                               AccessLogs::of(view),
                               {},
                               {},
                               ingress_chains(view)};
  if (view.receives_http()) {
    values.http = InboundHttp::of(view);
    if (!denied.empty()) values.allowed_names = allowed_names(view.snapshot);
  }
  for (auto& [key, chain] : chains) values.chains.push_back(std::move(chain));
  std::sort(values.chains.begin(), values.chains.end(),
            [](const auto& a, const auto& b) { return a.name() < b.name(); });
  admit_grpc_libraries(values, grpc_ports);
  inputs.push_back(make_input(kInboundListener, std::move(values)));
}

}  // namespace

std::vector<InputPtr> listener_inputs(const ClassView& view) {
  std::vector<InputPtr> inputs;
  add_outbound(view, inputs);
  add_inbound(view, inputs);
  add_dns(view, inputs);
  return inputs;
}

}  // namespace osm::inline v1::translate
