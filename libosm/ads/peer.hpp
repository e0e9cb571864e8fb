// Who is at the other end of a stream, by its certificate alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/names.hpp"
#include "osm/clock.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::ads {

struct Peer {
  model::ProxyIdentity identity;
  CommonName common_name;
  std::string address;  // as the transport writes it: "ipv4:10.0.0.7:41234"
  WallTime not_before;
  WallTime not_after;
  std::string issuer_key_id{};  // authorityKeyIdentifier, hex: which CA key signed it
  TrustDomain trust_domain{};   // of its identity
};

// What TLS verified: the leaf's fields as the transport hands them over.
struct PeerCertificate {
  std::vector<std::string> uris;  // URI SANs
  std::string common_name;
  std::string pem;
  std::string address;
};

// Failure: kWrongCertificateKind unless its only URI SAN is a proxy identity of one of these trust
// domains; kInvalidCertificate when the PEM cannot be read.
Result<Peer> identify_peer(const std::vector<TrustDomain>& accepted,
                           const PeerCertificate& certificate);

// "10.0.0.7" of "ipv4:10.0.0.7:41234"; "[fd00::1]" of "ipv6:[fd00::1]:41234".
std::string_view peer_host(std::string_view address);

}  // namespace osm::inline v1::ads
