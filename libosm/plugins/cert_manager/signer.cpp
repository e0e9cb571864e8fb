#include "cert_manager/signer.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "base/openssl.hpp"

namespace osm::inline v1::cert_manager {

Result<Signer> find_signer(std::string_view chain_pem, std::string_view roots_pem) {
  const openssl::CleanErrorQueue clean;
  OSM_TRY(std::vector<openssl::X509Handle> all, openssl::parse_certificates(chain_pem));
  OSM_TRY(std::vector<openssl::X509Handle> roots, openssl::parse_certificates(roots_pem));
  std::move(roots.begin(), roots.end(), std::back_inserter(all));
  for (const auto& each : std::span(all).subspan(1)) {
    if (!openssl::issued(*each, *all.front())) continue;
    OSM_TRY(std::string fingerprint, openssl::fingerprint(*each));
    return Signer{std::move(fingerprint), openssl::not_after(*each)};
  }
  return Error{ErrorCode::kInvalidCertificate,
               "the certificate of the CA that signed is not among those of its chain and of the "
               "trust bundle"};
}

}  // namespace osm::inline v1::cert_manager
