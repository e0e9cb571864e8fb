// X.509 as values: keys, certificates and PEM text, without files and policy. Callers hold a
// openssl::CleanErrorQueue around these calls.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/openssl.hpp"
#include "osm/certificate/issuer.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/clock.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::certificate::x509 {

using openssl::fingerprint;
using openssl::issuer_key_id;
using openssl::not_after;
using openssl::not_before;
using openssl::parse_certificate;
using openssl::parse_certificates;
using openssl::to_pem;

// Extended key usages of a usage: serverAuth, clientAuth.
bool for_servers(Usage usage);
bool for_clients(Usage usage);

// Failure: kInvalidArgument for RSA sizes outside 2048 to 4096.
Result<openssl::Key> generate_key(const KeyParameters& parameters);

// Whole seconds, rounded down, as in X.509.
struct Lifetime {
  WallTime not_before;
  WallTime not_after;
};

// A self-signed root that may sign leaves only.
Result<openssl::X509Handle> make_root(EVP_PKEY& key, const Lifetime& lifetime);

// A leaf with one common name, one URI SAN, and the subject's DNS SANs. Precondition: `subject`
// passed validate().
Result<openssl::X509Handle> make_leaf(const Subject& subject, EVP_PKEY& subject_key,
                                      const Lifetime& lifetime, X509& ca, EVP_PKEY& ca_key);

// A request (PKCS#10) for these names and nothing else, signed by its own key. Precondition:
// `subject` passed validate().
Result<openssl::Request> make_request(const Subject& subject, EVP_PKEY& key);

// Checks that a subject can be certified: a common name of letters, digits, '.', '_' and '-', a
// canonical SPIFFE id, and DNS names without wildcards, for webhooks (which need one), gateways
// and, of its own account, a workload. Failure: kInvalidArgument.
Status validate(const Subject& subject);
// Also checks that it belongs to `domain`.
Status validate(const Subject& subject, const TrustDomain& domain);

Result<PrivateKey> to_pem(EVP_PKEY& key);  // PKCS#8
Result<std::string> to_pem(X509_REQ& request);

// The only private key in a PEM text. Never asks for a passphrase: an encrypted key is a failure.
Result<openssl::Key> parse_key(std::string_view pem);
// The only request in a PEM text that holds nothing else. Failure: kInvalidArgument.
Result<openssl::Request> parse_request(std::string_view pem);
// The key of a request that was checked before; for P-256 in a fifth of the time.
Result<openssl::Key> parse_request_key(std::string_view pem);

// The printable part of a name, for errors.
std::string in_quotes(std::string_view text);

std::string serial_number(const X509& certificate);  // lower-case hex

// The subject alternative names, in their order, unchecked.
struct AlternativeNames {
  std::vector<std::string> uris;
  std::vector<std::string> dns;
  bool others = false;  // there are names of other types
};
AlternativeNames alternative_names(const GENERAL_NAMES* names);
AlternativeNames alternative_names(const X509& certificate);
// True if these are exactly the subject's.
bool same_names(const AlternativeNames& names, const Subject& subject);

// The value of the only common name; nothing if there is none, or if there are several.
std::optional<std::string> common_name(const X509_NAME& name);

// Result: the chain from `leaf` to one of `roots`, in order; keys and signatures of 112 bits at
// least.
// Failure: kInvalidCertificate with OpenSSL's reason.
Result<std::vector<openssl::X509Handle>> verified_chain(
    X509& leaf, std::span<const openssl::X509Handle> between,
    std::span<const openssl::X509Handle> roots, WallTime now);

// Checks that `chain` is a CA's: the signing certificate first, each signed by the next, the root
// last, all of them valid CAs with sufficient path length. Precondition: not empty.
// Failure: kInvalidCertificate, kCertificateExpired: the certificate, the reason, and what to do.
Status check_ca_chain(std::span<const openssl::X509Handle> chain, WallTime now);

}  // namespace osm::inline v1::certificate::x509
