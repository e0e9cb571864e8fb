// The mesh at one moment: plain immutable data, built by catalog, read by translate and ads. Equal
// inputs give equal snapshots (except for `generation` and `changes`) on every replica.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/egress.hpp"
#include "model/mesh_digests.hpp"
#include "model/origin.hpp"
#include "model/spec_tables.hpp"
#include "osm/ids.hpp"
#include "osm/object.hpp"
#include "osm/values/denylist.hpp"
#include "osm/values/endpoint.hpp"
#include "osm/values/ingress_backend.hpp"
#include "osm/values/mesh_config.hpp"
#include "osm/values/retry.hpp"
#include "osm/values/service.hpp"
#include "osm/values/table.hpp"
#include "osm/values/telemetry.hpp"
#include "osm/values/traffic_policy.hpp"
#include "osm/values/upstream_traffic_setting.hpp"
#include "osm/values/workload.hpp"

namespace osm::inline v1::model {

// Callers from outside of the mesh that a target port of a Service admits, as an IngressBackend
// says. A caller needs an address and, if the port asks for certificates, a name.
struct IngressPort {
  Origin origin;                                     // the IngressBackend's backend
  std::optional<IngressTls> tls;                     // absent: http
  std::optional<std::vector<std::string>> networks;  // ordered, unique; absent: any address
  std::vector<std::string> principals;  // ordered, unique; with client certificates only

  bool asks_for_certificate() const { return tls && tls->client_certificate; }
  friend bool operator==(const IngressPort&, const IngressPort&) = default;
};

// One Service, resolved. Conflicts with other services are settled: (address, port) pairs are
// unique over the whole mesh, and so are protocols per target port of a workload.
struct ServiceEntry {
  ServiceName name;
  std::string cluster_ip;  // empty when headless
  bool headless = false;
  std::vector<std::string> addresses;  // headless only: addresses of its endpoints, ordered, unique
  std::vector<MeshService> ports;      // ordered by port; target ports resolved
  HttpPaths http_paths = HttpPaths::kStrict;
  HeaderNames header_names = HeaderNames::kStrict;
  // Ports with a named target: port name → the workload's port name. See own_ports.hpp.
  std::map<std::string, std::string> named_targets;
  // Addresses where endpoints have other numbers than the target port: port name → address → its
  // numbers there, ordered. Platforms with a port for each instance have such endpoints.
  std::map<std::string, std::map<std::string, std::vector<Port>>> other_targets;
  std::vector<ServiceIdentity> identities;  // accounts behind it, ordered: all a client may meet
  // True if a platform knows the service and nobody serves it, as while it is scaled to zero: the
  // accounts behind it cannot be known.
  bool idle = false;
  // True if only workloads outside of the mesh can be behind it: clients reach them past the mesh,
  // if egress is on.
  bool outside = false;
  // As apex of a TrafficSplit: its backends that exist. Traffic goes to these alone; to nobody if
  // none has a weight.
  std::optional<std::vector<WeightedCluster>> split;
  Origin split_origin{};            // the TrafficSplit
  std::vector<ServiceName> apexes;  // apexes that split to this service, ordered
  std::optional<UpstreamLimits> limits;
  Origin limits_origin{};               // the UpstreamTrafficSetting
  std::map<Port, IngressPort> ingress;  // by target port
  Origin origin{};                      // the Service; not in force without a port
  Origin order_origin{};                // the ServiceProvider, if one orders its endpoints

  const ServiceName& key() const { return name; }
  friend bool operator==(const ServiceEntry&, const ServiceEntry&) = default;
};

// The merged endpoints of one service, healthy ones only, ordered, unique.
struct ServiceEndpoints {
  ServiceName service;
  std::vector<Endpoint> endpoints;
  ProviderNames providers{};  // of the endpoints

  const ServiceName& key() const { return service; }
  friend bool operator==(const ServiceEndpoints&, const ServiceEndpoints&) = default;
};

// One service that a client may see.
struct Upstream {
  ServiceName service;
  bool dialled = true;  // false: only a split sends here, without a listener chain or virtual host
  bool every_identity = true;            // false: only endpoints of `allowed`
  std::vector<ServiceIdentity> allowed;  // ordered

  friend bool operator==(const Upstream&, const Upstream&) = default;
};
using UpstreamList =
    std::shared_ptr<const std::vector<Upstream>>;  // ordered by service; never null

// Null: the Service is not among them.
const Upstream* find_upstream(const std::vector<Upstream>& upstreams, const ServiceName& service);

// Permissions of one identity under SMI. Only identities that a TrafficTarget names have one.
struct IdentityPolicy {
  ServiceIdentity identity;
  UpstreamList upstreams;
  std::vector<InboundTrafficPolicy> inbound;  // ordered by target; empty: nobody may call it
  // Sources of its targets that a Denylist denies; `inbound` does not have them. Ordered, unique.
  std::vector<ServiceIdentity> denied{};
  std::uint64_t admits = 0;  // of `inbound`; see MeshSnapshot::admits_of()

  const ServiceIdentity& key() const { return identity; }
  friend bool operator==(const IdentityPolicy& a, const IdentityPolicy& b) {
    return a.identity == b.identity && *a.upstreams == *b.upstreams && a.inbound == b.inbound &&
           a.denied == b.denied;
  }
};

// Retries of requests to one service.
struct ResolvedRetry {
  RetryPolicy policy;
  Origin origin;  // the Retry; not in force if the Service is missing or has no HTTP port

  friend bool operator==(const ResolvedRetry&, const ResolvedRetry&) = default;
};

// Settings of one identity's sidecars for the services that they call, and its access to the
// outside, in both modes. Only
// identities that such a policy names have one.
struct ClientPolicy {
  ServiceIdentity identity;
  std::map<ServiceName, ResolvedRetry> retries;  // by the dialled service
  std::vector<EgressGrant> egress{};             // ordered by object

  const ServiceIdentity& key() const { return identity; }
  friend bool operator==(const ClientPolicy&, const ClientPolicy&) = default;
};

// One Telemetry, resolved: access logs of the workloads whose entries name it.
struct TelemetryEntry {
  // The collector of an OpenTelemetryLog.
  struct Collector {
    ExtensionServiceName name;
    ExtensionService server;
    std::map<std::string, std::string> attributes;

    friend bool operator==(const Collector&, const Collector&) = default;
  };

  TelemetryName name;
  AccessLogFormat format{};
  std::optional<Collector> collector{};  // absent also if its ExtensionService cannot be used
  Origin origin{};                       // the Telemetry

  const TelemetryName& key() const { return name; }
  friend bool operator==(const TelemetryEntry&, const TelemetryEntry&) = default;
};

// One TrafficTarget, resolved, for list_smi_policies() and policy check. Proxies depend on
// IdentityPolicy only, so Changes does not include targets.
struct TargetEntry {
  ServiceIdentity destination;
  InboundTrafficPolicy
      policy;       // without routes and tcp: all its rules vanished, so it grants nothing
  Origin origin{};  // the TrafficTarget; not in force if it grants nothing
  // The first rule of the TrafficTarget that names each of policy.http_routes.
  std::vector<Origin> route_origins{};

  const smi::ObjectName& key() const { return policy.target; }
  bool grants() const { return !policy.http_routes.empty() || policy.tcp; }
  friend bool operator==(const TargetEntry&, const TargetEntry&) = default;
};

// Key of a workload: all that its proxy certificate proves, but for the account.
struct ProxyKey {
  std::string ns;
  ProxyId id;
  WorkloadKind kind = WorkloadKind::kMachine;

  friend auto operator<=>(const ProxyKey&, const ProxyKey&) = default;
};

struct WorkloadEntry {
  ProxyKey proxy;
  // Without its labels, so that only those count that a Telemetry selects by, and without its claim
  // of the address.
  Workload workload;
  // Reason why its proxy is refused: "Denylist osm-system/a denies it". Empty: it is not.
  std::string denied{};
  Origin denial_origin{};                    // the Denylist, if the proxy is denied
  std::optional<TelemetryName> telemetry{};  // the one in effect; absent: defaults
  bool dns = false;  // its proxy answers for the names of Services: asks_for_dns()

  const ProxyKey& key() const { return proxy; }
  friend bool operator==(const WorkloadEntry&, const WorkloadEntry&) = default;
};

// Stands for a VirtualMachine, a Pod or any other platform's workload.
inline constexpr GroupKind kWorkloadKind{"", "Workload"};

// Differences from the previous generation. Readers that skip generations merge them.
struct Changes {
  bool everything = false;          // mode, egress, TLS, trust domains, the first snapshot
  std::set<ServiceName> services;   // ServiceEntry added, changed or removed
  std::set<ServiceName> endpoints;  // ServiceEndpoints added, changed or removed
  // IdentityPolicy or ClientPolicy added, changed or removed
  std::set<ServiceIdentity> identities;
  std::set<ProxyKey> workloads;         // WorkloadEntry added, changed or removed
  std::set<TelemetryName> telemetries;  // TelemetryEntry added, changed or removed
  // Objects that were added, changed or removed, with or without effect: the keys of the
  // specification, and of workloads (on any platform) with kWorkloadKind.
  std::set<ObjectKey> objects;

  // True if no proxy can be concerned.
  bool empty() const {
    return !everything && services.empty() && endpoints.empty() && identities.empty() &&
           workloads.empty() && telemetries.empty();
  }
  void merge(const Changes& later);
};

struct MeshSnapshot {
  std::uint64_t generation = 0;
  std::string hash;  // of the content, see catalog/mesh_hash.hpp
  std::shared_ptr<const MeshDigests> digests = std::make_shared<const MeshDigests>();  // never null
  // Trust domains at handshakes, and on open connections: see TrustDomains.
  std::vector<TrustDomain> accepted_domains;
  std::vector<TrustDomain> allowed_domains;
  bool osm_v1_names = false;  // TrustDomains::osm_v1_names
  MeshConfig config;
  // Endpoints and identities of denied accounts are in no service, and no policy has one as a
  // source. In permissive mode servers need the list.
  std::shared_ptr<const Denials> denied = std::make_shared<const Denials>();  // never null
  Table<ServiceEntry> services;
  Table<ServiceEndpoints> endpoints;
  Table<IdentityPolicy> policies;     // SMI mode, and while smi_upstreams
  UpstreamList permissive_upstreams;  // permissive mode: every service; else empty
  // True while a permissive mesh keeps clients to the policies of before, since servers may not
  // know of the mode.
  bool smi_upstreams = false;
  Table<ClientPolicy> clients;
  Table<WorkloadEntry> workloads;
  Table<TelemetryEntry> telemetries;
  Table<TargetEntry> targets;                            // every TrafficTarget, in both modes
  std::shared_ptr<const std::vector<Problem>> problems;  // found while resolving; ordered
  std::shared_ptr<const SpecSnapshot> objects;  // the objects that this snapshot was built from
  Changes changes;

  // Services that `identity` may call in the current mode. Never null.
  UpstreamList upstreams_of(const ServiceIdentity& identity) const;
  // Number that stands for the callers that servers of the account admit, and for what. 0: nobody.
  std::uint64_t admits_of(const ServiceIdentity& identity) const;
};

}  // namespace osm::inline v1::model
