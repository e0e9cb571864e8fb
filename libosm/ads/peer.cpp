#include "ads/peer.hpp"

#include <algorithm>

#include "base/openssl.hpp"
#include "base/times.hpp"

namespace osm::inline v1::ads {
namespace {

bool read_facts(const std::string& pem, Peer& peer) {
  const openssl::CleanErrorQueue clean;
  const auto leaf = openssl::parse_certificate(pem);
  if (!leaf) return false;
  const auto not_before = time_of(X509_get0_notBefore(leaf->get()));
  const auto not_after = time_of(X509_get0_notAfter(leaf->get()));
  if (!not_before || !not_after) return false;
  peer.not_before = *not_before;
  peer.not_after = *not_after;
  peer.issuer_key_id = openssl::issuer_key_id(**leaf);
  return true;
}

}  // namespace

Result<Peer> identify_peer(const std::vector<TrustDomain>& accepted,
                           const PeerCertificate& certificate) {
  if (certificate.uris.size() != 1)
    return Error{ErrorCode::kWrongCertificateKind,
                 "the client certificate has " + std::to_string(certificate.uris.size()) +
                     " URI SANs; a proxy certificate has exactly one (osm vm bootstrap issues it)"};
  const std::string& uri = certificate.uris.front();
  TrustDomain domain = model::trust_domain_of(SpiffeId(uri));
  if (std::find(accepted.begin(), accepted.end(), domain) == accepted.end())
    return Error{ErrorCode::kWrongCertificateKind,
                 "the URI SAN '" + uri + "' is of no trust domain of this mesh"};
  OSM_TRY(model::ProxyIdentity identity, model::parse_proxy_spiffe_id(domain, uri));
  Peer peer{
      std::move(identity), CommonName(certificate.common_name), certificate.address, {}, {}, {},
      std::move(domain)};
  if (!read_facts(certificate.pem, peer))
    return Error{ErrorCode::kInvalidCertificate, "the client certificate's validity is unreadable"};
  return peer;
}

std::string_view peer_host(std::string_view address) {
  const std::size_t scheme = address.find(':');
  const std::size_t port = address.rfind(':');
  if (scheme == std::string_view::npos || port == scheme) return address;
  return address.substr(scheme + 1, port - scheme - 1);
}

}  // namespace osm::inline v1::ads
