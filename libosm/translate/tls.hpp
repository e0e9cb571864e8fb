// Mutual TLS between workloads: the two contexts, and the matchers for a peer's identity.
#pragma once

#include <google/protobuf/any.pb.h>

#include <optional>
#include <string>
#include <vector>

#include "osm/ids.hpp"
#include "osm/values/mesh_config.hpp"
#include "translate/peer_names.hpp"
#include "translate/translate.hpp"

namespace osm::inline v1::translate {

inline constexpr const char* kMeshAlpn = "osm";

// Context towards a service: its FQDN as SNI, and exactly these identities, under any of their
// names. An empty list pins an identity that is never issued to a workload, because Envoy treats
// no matcher as "anybody".
google::protobuf::Any upstream_tls(const PeerNames& names, const TlsSettings& settings,
                                   const std::string& fqdn,
                                   const std::vector<ServiceIdentity>& identities);

// Context for connections from any workload with such a name. RBAC decides about their
// permissions.
google::protobuf::Any downstream_tls(const PeerNames& names, const TlsSettings& settings);

// Context for a gateway outside of the mesh. `principals`: the client certificate must be of the
// mesh's CA and have one of these names, URIs or DNS names; an empty list pins a name that is never
// issued. Nullopt: no certificate is asked for. `protocol`: what the application understands.
google::protobuf::Any ingress_tls(const TlsSettings& settings, Protocol protocol,
                                  const std::optional<std::vector<std::string>>& principals);

// The secrets that all contexts refer to.
std::vector<EncodedResource::Reference> tls_references();

}  // namespace osm::inline v1::translate
