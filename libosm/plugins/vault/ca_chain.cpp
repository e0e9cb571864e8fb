#include "vault/ca_chain.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/openssl.hpp"

namespace osm::inline v1::vault {
namespace {

constexpr std::size_t kMaxChain = 10;

Error invalid(std::string cause) { return {ErrorCode::kInvalidCertificate, std::move(cause)}; }

// The issuer's name for people; printable characters only.
std::string issuer_name(const X509& certificate) {
  std::array<char, 200> text{};
  X509_NAME_oneline(X509_get_issuer_name(&certificate), text.data(), text.size());
  std::string name(text.data());
  std::erase_if(name, [](unsigned char c) { return c < 0x20 || c >= 0x7f || c == '"'; });
  return name;
}

}  // namespace

Result<CaChain> read_ca_chain(std::string_view pem) {
  const openssl::CleanErrorQueue clean;
  OSM_TRY(const std::vector<openssl::X509Handle> all, openssl::parse_certificates(pem));
  if (all.size() > kMaxChain) return invalid("the chain is longer than 10 certificates");
  CaChain chain{
      .fingerprint = {}, .intermediates_pem = {}, .roots_pem = {}, .not_after = WallTime::max()};
  OSM_TRY(chain.fingerprint, openssl::fingerprint(*all.front()));
  for (const openssl::X509Handle& each : all) {
    if (X509_check_ca(each.get()) == 0)
      return invalid("the chain contains a certificate that is not a CA");
    OSM_TRY(const std::string one, openssl::to_pem(*each));
    const bool root = X509_self_signed(each.get(), 1) == 1;
    (root ? chain.roots_pem : chain.intermediates_pem) += one;
    chain.not_after = std::min(chain.not_after, openssl::not_after(*each));
  }
  if (chain.roots_pem.empty())
    return invalid("the chain ends below its root, whose name is \"" + issuer_name(*all.back()) +
                   "\"; import that certificate into the mount (vault write "
                   "<mount>/issuers/import/bundle pem_bundle=@root.pem)");
  return chain;
}

Result<std::string> fingerprint_of(std::string_view pem) {
  const openssl::CleanErrorQueue clean;
  OSM_TRY(const openssl::X509Handle certificate, openssl::parse_certificate(pem));
  return openssl::fingerprint(*certificate);
}

}  // namespace osm::inline v1::vault
