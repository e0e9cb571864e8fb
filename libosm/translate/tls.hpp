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
inline constexpr const char* kGrpcAlpn = "h2";
// Name of the certificate provider in gRPC's bootstrap (libosm/admin/grpc_bootstrap.cpp).
inline constexpr const char* kCertificateProvider = "osm";
// The only name that gRPC accepts for a transport socket.
inline constexpr const char* kGrpcTransportSocket = "envoy.transport_sockets.tls";

// Kinds of peers that a context has to suit.
enum class PeerKind {
  kEnvoy,
  kEnvoyOrGrpc,  // ports for gRPC libraries, which refuse a connection without ALPN "h2"
};

// Context towards a service: its FQDN as SNI, and exactly these identities, under any of their
// names. An empty list pins an identity that is never issued to a workload, because Envoy treats
// no matcher as "anybody".
google::protobuf::Any upstream_tls(const PeerNames& names, const TlsSettings& settings,
                                   const std::string& fqdn,
                                   const std::vector<ServiceIdentity>& identities,
                                   PeerKind servers = PeerKind::kEnvoy);

// Context for connections from any workload with such a name. RBAC decides about their
// permissions.
// With kEnvoyOrGrpc the chain must be of HTTP/2.
google::protobuf::Any downstream_tls(const PeerNames& names, const TlsSettings& settings,
                                     PeerKind clients = PeerKind::kEnvoy);

// The same two for a gRPC library: certificate and roots come from files that its bootstrap names.
// The library refuses TLS parameters, so they are its own. A server cannot compare names, so RBAC
// alone decides about its callers.
google::protobuf::Any grpc_upstream_tls(const PeerNames& names,
                                        const std::vector<ServiceIdentity>& identities);
google::protobuf::Any grpc_downstream_tls();

// Context for a gateway outside of the mesh. `principals`: the client certificate must be of the
// mesh's CA and have one of these names, URIs or DNS names; an empty list pins a name that is never
// issued. Nullopt: no certificate is asked for. `protocol`: what the application understands.
google::protobuf::Any ingress_tls(const TlsSettings& settings, Protocol protocol,
                                  const std::optional<std::vector<std::string>>& principals);

// The secrets that all contexts refer to.
std::vector<EncodedResource::Reference> tls_references();

}  // namespace osm::inline v1::translate
