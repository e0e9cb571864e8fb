// Mutual TLS between workloads: the two contexts, and how a peer's identity is pinned.
#pragma once

#include <google/protobuf/any.pb.h>

#include <string>
#include <vector>

#include "osm/ids.hpp"
#include "osm/values/mesh_config.hpp"
#include "translate/translate.hpp"

namespace osm::inline v1::translate {

inline constexpr const char* kMeshAlpn = "osm";

// Towards a service: its FQDN as SNI, and exactly these identities, of any of the domains. An empty
// list means nobody: it pins an identity that is never issued to a workload, since Envoy takes no
// matcher for anybody.
google::protobuf::Any upstream_tls(const std::vector<TrustDomain>& domains,
                                   const TlsSettings& settings, const std::string& fqdn,
                                   const std::vector<ServiceIdentity>& identities);

// From any workload of the trust domains; which of them may do what is RBAC's to say.
google::protobuf::Any downstream_tls(const std::vector<TrustDomain>& domains,
                                     const TlsSettings& settings);

// The secrets both contexts refer to.
std::vector<EncodedResource::Reference> tls_references();

}  // namespace osm::inline v1::translate
