#include "ads/peer.hpp"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

#include "base/hex.hpp"
#include "base/times.hpp"

namespace osm::inline v1::ads {
namespace {

// Clears OpenSSL's error queue: an error in it would fail the thread's next TLS handshake.
struct CleanErrorQueue {
  ~CleanErrorQueue() { ERR_clear_error(); }
};

bool read_facts(const std::string& pem, Peer& peer) {
  const CleanErrorQueue clean;
  std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
  std::unique_ptr<X509, decltype(&X509_free)> x509(
      PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr), X509_free);
  if (!x509) return false;
  const auto not_before = time_of(X509_get0_notBefore(x509.get()));
  const auto not_after = time_of(X509_get0_notAfter(x509.get()));
  if (!not_before || !not_after) return false;
  peer.not_before = *not_before;
  peer.not_after = *not_after;
  if (const ASN1_OCTET_STRING* id = X509_get0_authority_key_id(x509.get()))
    peer.issuer_key_id =
        hex_of({ASN1_STRING_get0_data(id), static_cast<std::size_t>(ASN1_STRING_length(id))});
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
