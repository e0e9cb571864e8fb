// Checks a CA's answer. Nothing here trusts it.
#include <span>
#include <utility>
#include <vector>

#include "certificate/issuance.hpp"
#include "certificate/x509.hpp"
#include "osm/certificate/request.hpp"

namespace osm::inline v1::certificate {
namespace {

using openssl::CleanErrorQueue;
using openssl::X509Handle;

constexpr std::size_t kMaxChain = 10;           // certificates
constexpr std::size_t kMaxAnswer = 256 * 1024;  // bytes

Error not_used(const Subject& subject, const std::string& why) {
  return {ErrorCode::kInvalidCertificate, "the CA's certificate for common name " +
                                              x509::in_quotes(subject.common_name.str()) +
                                              " is not used: " + why};
}

Status check_names(const Subject& subject, X509& leaf) {
  if (x509::common_name(*X509_get_subject_name(&leaf)) != subject.common_name.str())
    return not_used(subject, "it has another common name");
  if (!x509::same_names(x509::alternative_names(leaf), subject))
    return not_used(subject, "its subjectAltName is not exactly URI " +
                                 x509::in_quotes(subject.spiffe_id.str()) +
                                 " and the DNS names that were asked for");
  return {};
}

// A CA may always issue for clients and servers both. It must not omit a needed usage, nor permit
// other purposes.
Status check_uses(const Subject& subject, X509& leaf) {
  const std::uint32_t flags = X509_get_extension_flags(&leaf);
  if ((flags & EXFLAG_INVALID) != 0) return not_used(subject, "an extension of it cannot be read");
  // X509_check_ca() alone does not treat CA:TRUE without keyCertSign as a CA.
  if ((flags & EXFLAG_CA) != 0 || X509_check_ca(&leaf) != 0)
    return not_used(subject, "it is a CA itself");
  const std::uint32_t bits = X509_get_key_usage(&leaf);  // all bits if there is no extension
  if ((bits & KU_DIGITAL_SIGNATURE) == 0 ||
      (bits != UINT32_MAX && (bits & (KU_KEY_CERT_SIGN | KU_CRL_SIGN)) != 0))
    return not_used(subject, "its keyUsage is not that of a TLS peer");
  const std::uint32_t uses = X509_get_extended_key_usage(&leaf);
  const std::uint32_t wanted = (x509::for_servers(subject.usage) ? XKU_SSL_SERVER : 0U) |
                               (x509::for_clients(subject.usage) ? XKU_SSL_CLIENT : 0U);
  if ((uses & wanted) != wanted || (uses & ~(XKU_SSL_SERVER | XKU_SSL_CLIENT)) != 0)
    return not_used(subject,
                    "its extendedKeyUsage is not what was asked for: let the CA issue clientAuth "
                    "and serverAuth, and nothing else");
  return {};
}

Status check_times(const Answer& answer, X509& leaf, WallTime now) {
  if (now < x509::not_before(leaf))
    return not_used(answer.subject,
                    "it is not valid yet: compare this machine's clock with the CA's");
  if (now >= x509::not_after(leaf)) return not_used(answer.subject, "it has expired already");
  // Compare seconds: a validity of centuries does not fit into nanoseconds.
  if (std::chrono::floor<std::chrono::seconds>((x509::not_after(leaf) - now) / 2) > answer.validity)
    return not_used(answer.subject, "it lives more than twice as long as was asked for");
  return {};
}

struct Verified {
  std::string sent_pem;  // leaf and intermediates in order, without the root
  std::string root_fingerprint;
};

Result<Verified> verified_chain(const Answer& answer, std::span<const X509Handle> sent,
                                TrustedRoots& trusted, WallTime now) {
  OSM_TRY(const TrustedRoots::Roots roots, trusted.of(answer.trust_bundle_pem));
  const auto chain = x509::verified_chain(*sent.front(), sent.subspan(1), *roots, now);
  if (!chain)
    return not_used(answer.subject, "its chain does not end at a root of the trust bundle (" +
                                        chain.error().message + ")");
  Verified verified;
  OSM_TRY(verified.sent_pem, openssl::sent_pem(*chain));
  OSM_TRY(verified.root_fingerprint, x509::fingerprint(*chain->back()));
  return verified;
}

}  // namespace

Result<Certificate> check_answer(const Answer& answer, const Clock& clock) {
  const CleanErrorQueue clean;
  OSM_TRY(const openssl::Key asked, x509::parse_request_key(answer.request_pem));
  TrustedRoots roots;
  return check_answer(answer, *asked, clock, roots);
}

Result<Certificate> check_answer(const Answer& answer, const EVP_PKEY& asked, const Clock& clock,
                                 TrustedRoots& roots) {
  const CleanErrorQueue clean;
  const Subject& subject = answer.subject;
  if (answer.chain_pem.size() > kMaxAnswer)
    return not_used(subject, "the answer is larger than 256 kB");
  const auto sent = x509::parse_certificates(answer.chain_pem);
  if (!sent) return not_used(subject, sent.error().message);
  if (sent->size() > kMaxChain) return not_used(subject, "its chain is longer than 10");
  X509& leaf = *sent->front();

  const EVP_PKEY* key = X509_get0_pubkey(&leaf);
  if (!key || EVP_PKEY_eq(key, &asked) != 1) return not_used(subject, "it is over another key");
  const WallTime now = clock.wall_now();
  for (const Status& check :
       {check_names(subject, leaf), check_uses(subject, leaf), check_times(answer, leaf, now)})
    if (!check) return check.error();
  OSM_TRY(Verified chain, verified_chain(answer, *sent, roots, now));
  OSM_TRY(std::string fingerprint, x509::fingerprint(leaf));
  return Certificate{
      .subject = subject,
      .chain_pem = std::move(chain.sent_pem),
      .private_key = {},
      .serial_number = x509::serial_number(leaf),
      .fingerprint = std::move(fingerprint),
      .issuer_id = {},
      .issuer_key_id = x509::issuer_key_id(leaf),
      .root_fingerprint = std::move(chain.root_fingerprint),
      .not_before = x509::not_before(leaf),
      .not_after = x509::not_after(leaf),
  };
}

}  // namespace osm::inline v1::certificate
