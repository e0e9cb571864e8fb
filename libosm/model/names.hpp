// Names and the SPIFFE ids of the mesh's participants: the one place that writes and reads them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "osm/ids.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::model {

// What a proxy certificate proves.
struct ProxyIdentity {
  ProxyId id;
  ServiceAccount account;  // with its namespace

  friend bool operator==(const ProxyIdentity&, const ProxyIdentity&) = default;
};

// "spiffe://<trust-domain>/osm/proxy/<uuid>/<namespace>/<account>"
SpiffeId proxy_spiffe_id(const TrustDomain& domain, const ProxyIdentity& proxy);
// Failure: kWrongCertificateKind for any other text, another trust domain included.
Result<ProxyIdentity> parse_proxy_spiffe_id(const TrustDomain& domain, std::string_view uri);

// Of whose identities this is one; empty: of nobody's.
TrustDomain trust_domain_of(const SpiffeId& id);

SpiffeId controller_spiffe_id(const TrustDomain& domain);  // ".../osm/controller"
SpiffeId admin_spiffe_id(const TrustDomain& domain);       // ".../osm/admin"

// "<account>.<namespace>.<trust-domain>": of a service certificate.
CommonName service_common_name(const TrustDomain& domain, const ServiceIdentity& identity);
// "<proxy-uuid>.<service>.<service-namespace>": of a VM's proxy certificate.
CommonName proxy_common_name(const ProxyId& id, const ServiceName& service);
// "<pod-uuid>.<pod-namespace>": of a pod's.
CommonName pod_common_name(const ProxyId& id, std::string_view ns);

// The UUID of a workload that names none: UUIDv5 of (trust domain, "<namespace>/<name>").
ProxyId derived_proxy_id(const TrustDomain& domain, const WorkloadName& workload);

}  // namespace osm::inline v1::model
