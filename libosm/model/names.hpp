// Names and SPIFFE ids of the mesh's participants. Only this file writes and reads them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "osm/ids.hpp"
#include "osm/result.hpp"
#include "osm/values/workload.hpp"

namespace osm::inline v1::model {

// The identity that a proxy certificate proves.
struct ProxyIdentity {
  ProxyId id;
  ServiceAccount account;  // with its namespace
  WorkloadKind kind = WorkloadKind::kMachine;

  friend bool operator==(const ProxyIdentity&, const ProxyIdentity&) = default;
};

// "spiffe://<trust-domain>/osm/proxy/<uuid>/<namespace>/<account>" of a machine, with "pod" in
// place of "proxy" of a pod.
SpiffeId proxy_spiffe_id(const TrustDomain& domain, const ProxyIdentity& proxy);
// Failure: kWrongCertificateKind for any other text, another trust domain included.
Result<ProxyIdentity> parse_proxy_spiffe_id(const TrustDomain& domain, std::string_view uri);

// Trust domain of an identity; empty: it is none.
TrustDomain trust_domain_of(const SpiffeId& id);

SpiffeId controller_spiffe_id(const TrustDomain& domain);  // ".../osm/controller"
SpiffeId admin_spiffe_id(const TrustDomain& domain);       // ".../osm/admin"

// "<account>.<namespace>.<trust-domain>": common name of a service certificate. OSM v1.2 also has
// it as the certificate's DNS SAN.
CommonName service_common_name(const TrustDomain& domain, const ServiceIdentity& identity);
// Regular expression of these names of all accounts. No other certificate of OSM v1.2 has one: a
// proxy's name is "<uuid>.sidecar.<account>...", and the controller's "ads.<trust-domain>".
std::string service_name_pattern(const TrustDomain& domain);
// "<proxy-uuid>.<service>.<service-namespace>": common name of a machine's proxy certificate.
CommonName proxy_common_name(const ProxyId& id, const ServiceName& service);
// "<pod-uuid>.<pod-namespace>": common name of a pod's proxy certificate.
CommonName pod_common_name(const ProxyId& id, std::string_view ns);

// Default UUID of a workload: UUIDv5 of (trust domain, "<namespace>/<name>").
ProxyId derived_proxy_id(const TrustDomain& domain, const WorkloadName& workload);

}  // namespace osm::inline v1::model
