// The peer of a stream, by its certificate alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/mesh_snapshot.hpp"
#include "model/names.hpp"
#include "osm/clock.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::ads {

struct Peer {
  model::ProxyIdentity identity;
  CommonName common_name;
  std::string address;  // in the transport's form: "ipv4:10.0.0.7:41234"
  WallTime not_before;
  WallTime not_after;
  std::string issuer_key_id{};  // authorityKeyIdentifier, hex: the CA key that signed it
  TrustDomain trust_domain{};   // trust domain of its identity

  model::ProxyKey key() const { return {identity.account.ns, identity.id, identity.kind}; }
};

// The fields of the verified leaf certificate, as the transport passes them.
struct PeerCertificate {
  std::vector<std::string> uris;  // URI SANs
  std::string common_name;
  std::string pem;
  std::string address;
  std::string chain_pem{};  // further certificates that the peer sent; may be empty
};

// Identifies a peer. Failure: kWrongCertificateKind unless its only URI SAN is a proxy identity of
// one of these trust domains; kInvalidCertificate if the PEM cannot be read.
Result<Peer> identify_peer(const std::vector<TrustDomain>& accepted,
                           const PeerCertificate& certificate);

// "10.0.0.7" of "ipv4:10.0.0.7:41234"; "[fd00::1]" of "ipv6:[fd00::1]:41234".
std::string_view peer_host(std::string_view address);

}  // namespace osm::inline v1::ads
