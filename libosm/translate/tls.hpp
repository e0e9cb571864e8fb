// Mutual TLS between workloads: the two contexts, and the matchers for a peer's identity.
#pragma once

#include <google/protobuf/any.pb.h>

#include <string>
#include <vector>

#include "osm/ids.hpp"
#include "osm/values/mesh_config.hpp"
#include "translate/translate.hpp"

namespace osm::inline v1::translate {

inline constexpr const char* kMeshAlpn = "osm";

// Context towards a service: its FQDN as SNI, and exactly these identities, under any of the
// domains. An empty list pins an identity that is never issued to a workload, because Envoy treats
// no matcher as "anybody".
google::protobuf::Any upstream_tls(const std::vector<TrustDomain>& domains,
                                   const TlsSettings& settings, const std::string& fqdn,
                                   const std::vector<ServiceIdentity>& identities);

// Context for connections from any workload of the trust domains. RBAC decides about their
// permissions.
google::protobuf::Any downstream_tls(const std::vector<TrustDomain>& domains,
                                     const TlsSettings& settings);

// The secrets that both contexts refer to.
std::vector<EncodedResource::Reference> tls_references();

}  // namespace osm::inline v1::translate
