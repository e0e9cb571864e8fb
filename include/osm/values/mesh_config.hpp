// MeshConfig (config.openservicemesh.io/v1alpha2): the supported settings of the whole mesh.
// docs/mesh-objects.md says when each takes effect.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "osm/ids.hpp"
#include "osm/log.hpp"
#include "osm/values/egress.hpp"

namespace osm::inline v1 {

// spec.certificate's key algorithm. Applies to service certificates only.
enum class KeyType { kEcdsaP256, kRsa, kEd25519 };

// As in Envoy's TlsParameters. Older versions are not supported.
enum class TlsVersion { kAuto, kTls12, kTls13 };

// TLS between workloads' proxies: spec.sidecar's TLS fields.
struct TlsSettings {
  TlsVersion minimum = TlsVersion::kTls12;
  TlsVersion maximum = TlsVersion::kTls13;
  std::vector<std::string> cipher_suites{};  // for TLS 1.2; empty: Envoy's own choice
  std::vector<std::string> ecdh_curves{};    // empty: Envoy's own choice
  friend bool operator==(const TlsSettings&, const TlsSettings&) = default;
};

// Address at which a sidecar delivers requests to its workload.
enum class LocalProxyMode { kLocalhost, kPodIp };

// Settings of injected pods, from spec.sidecar. Existing pods keep theirs.
struct SidecarConfig {
  std::string envoy_image{};           // empty: the injector's own
  std::string init_container_image{};  // empty: the injector's own
  std::string log_level = "error";     // Envoy's --log-level
  bool privileged_init_container = false;
  LocalProxyMode local_proxy_mode = LocalProxyMode::kLocalhost;
  // Kubernetes quantities by resource: {"cpu", "500m"}. No request exceeds its limit.
  std::map<std::string, std::string> limits{};
  std::map<std::string, std::string> requests{};

  friend bool operator==(const SidecarConfig&, const SidecarConfig&) = default;
};

// Traffic of an injected pod that bypasses its sidecar, from spec.traffic. The pod's annotations
// add to it.
struct TrafficExclusions {
  // IPv4 networks, "10.0.0.0/8". Exclusion takes precedence over inclusion.
  std::vector<std::string> inbound_ip_ranges{};
  std::vector<std::string> outbound_ip_ranges{};
  std::vector<std::string> outbound_included_ip_ranges{};  // empty: all
  std::vector<Port> outbound_ports{};
  std::vector<Port> inbound_ports{};
  std::vector<std::string> network_interfaces{};

  friend bool operator==(const TrafficExclusions&, const TrafficExclusions&) = default;
};

// Protocol of spans: Zipkin's v2 JSON over HTTP, or OpenTelemetry's over gRPC.
enum class TracingProtocol { kZipkin, kOpenTelemetry };

// spec.observability.tracing: the collector that sidecars send spans to.
struct TracingConfig {
  bool enabled = false;
  // Host name or IP address of the collector. If the spec has none:
  // jaeger.<osm-namespace>.svc.<cluster domain>.
  std::string address{};
  Port port{9411};                         // 4317 for OpenTelemetry, unless the spec has one
  std::string endpoint = "/api/v2/spans";  // Zipkin: path of the requests that carry spans
  TracingProtocol protocol = TracingProtocol::kZipkin;

  friend bool operator==(const TracingConfig&, const TracingConfig&) = default;
};

// spec.traffic.inboundExternalAuthorization: a gRPC service that sidecars ask about every HTTP
// request they receive.
struct ExternalAuthorization {
  bool enabled = false;
  std::string address{};  // a host name or an IP address; empty: no server, so no answer
  Port port{};
  std::string stat_prefix = "inboundExtAuthz";
  std::chrono::milliseconds timeout = std::chrono::seconds(1);
  bool failure_mode_allow = false;  // true: requests pass while the service does not answer

  friend bool operator==(const ExternalAuthorization&, const ExternalAuthorization&) = default;
};

// spec.certificate.ingressGateway: the client certificate of an ingress gateway, kept in a Secret.
struct IngressGatewayCertificate {
  std::vector<std::string> subject_alt_names{};  // DNS names; at least one
  std::chrono::seconds validity = std::chrono::hours(24);
  std::string secret_name{};
  std::string secret_namespace{};

  friend bool operator==(const IngressGatewayCertificate&,
                         const IngressGatewayCertificate&) = default;
};

// spec.sidecar.headers: limits of the headers of one request or answer, as Envoy's own defaults.
struct HeaderLimits {
  std::uint32_t count = 100;     // 1 to 10,000
  std::uint32_t kilobytes = 60;  // of all together, 1 to 8192

  friend bool operator==(const HeaderLimits&, const HeaderLimits&) = default;
};

// Settings that shape the configuration of every proxy. Proxies are configured anew exactly when
// this member of a MeshConfig changes.
struct ProxySettings {
  bool permissive = false;  // spec.traffic.enablePermissiveTrafficPolicyMode
  bool egress = false;      // spec.traffic.enableEgress
  // spec.featureFlags.enableEgressPolicy: without `egress`, sidecars obey Egress objects.
  bool egress_policy = true;
  TlsSettings tls{};
  HeaderLimits headers{};
  TracingConfig tracing{};
  ExternalAuthorization external_authorization{};
  // spec.featureFlags.enableEnvoyActiveHealthChecks: sidecars probe the endpoints they call.
  bool active_health_checks = false;
  bool retries = false;  // spec.featureFlags.enableRetryPolicy: sidecars obey Retry objects
  // spec.featureFlags.enableIngressBackendPolicy: sidecars obey IngressBackends.
  bool ingress = true;
  // spec.featureFlags.enableWASMStats: sidecars count the requests that they receive, by caller.
  bool request_metrics = false;
  // Domain of the cluster's DNS, which ends the full host names of Services. No field of the
  // object: MeshSpecOptions sets it.
  std::string cluster_domain = "cluster.local";

  friend bool operator==(const ProxySettings&, const ProxySettings&) = default;
};

// Settings of pods that are injected from now on.
struct InjectionSettings {
  SidecarConfig sidecar{};
  TrafficExclusions exclusions{};

  friend bool operator==(const InjectionSettings&, const InjectionSettings&) = default;
};

// Settings of certificates that are issued from now on.
struct CertificateSettings {
  std::chrono::seconds service_validity = std::chrono::hours(48);
  std::chrono::seconds proxy_validity = std::chrono::days(30);
  KeyType key_type = KeyType::kEcdsaP256;
  int rsa_bits = 2048;  // spec.certificate.certKeyBitSize; RSA only
  std::optional<IngressGatewayCertificate> ingress_gateway{};

  friend bool operator==(const CertificateSettings&, const CertificateSettings&) = default;
};

// spec.addresses.allotments: an element. Only objects of the namespaces may claim an address of the
// networks. The smallest allotted network that holds an address decides.
struct AddressAllotment {
  std::vector<Ipv4Network> networks{};
  std::vector<std::string> namespaces{};  // "*": all; empty: nobody may

  friend bool operator==(const AddressAllotment&, const AddressAllotment&) = default;
};

// The settings in effect. A setting that is absent in the object has its default.
struct MeshConfig {
  ProxySettings proxy{};
  InjectionSettings injection{};
  CertificateSettings certificates{};
  // spec.sidecar.maxDataPlaneConnections: number of proxies that one replica serves at a time. 0:
  // no limit.
  std::size_t max_proxies = 0;
  std::optional<LogLevel> log_level{};  // spec.observability.osmLogLevel; absent: the daemon's flag
  // Of VirtualMachines, DNSResources and spec.clusterIP of Services. An address that no network
  // holds may be claimed by any namespace if the public internet does not route it.
  std::vector<AddressAllotment> allotments{};

  friend bool operator==(const MeshConfig&, const MeshConfig&) = default;
};

}  // namespace osm::inline v1
