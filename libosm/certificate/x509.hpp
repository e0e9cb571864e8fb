// X.509 as values: keys, certificates and PEM text, without files and policy. Callers hold a
// openssl::CleanErrorQueue around these calls.
#pragma once

#include <string>
#include <string_view>

#include "certificate/issuer.hpp"
#include "certificate/openssl.hpp"
#include "osm/certificate.hpp"
#include "osm/clock.hpp"
#include "osm/result.hpp"

namespace osm::certificate::x509 {

// Failure: kInvalidArgument for RSA sizes outside 2048 to 4096.
Result<openssl::Key> generate_key(const KeyParameters& parameters);

// Whole seconds, rounded down, as X.509 knows them.
struct Lifetime {
  WallTime not_before;
  WallTime not_after;
};

// A self-signed root that may sign leaves only.
Result<openssl::X509Handle> make_root(EVP_PKEY& key, const Lifetime& lifetime);

// A leaf with one common name and one URI SAN. Precondition: `subject` passed validate().
Result<openssl::X509Handle> make_leaf(const Subject& subject, EVP_PKEY& subject_key,
                                      const Lifetime& lifetime, X509& ca, EVP_PKEY& ca_key);

// Whether a subject can be certified under `domain`: a common name of letters, digits, '.', '_' and
// '-', and a SPIFFE id of that trust domain in canonical form. Failure: kInvalidArgument.
Status validate(const Subject& subject, const TrustDomain& domain);

Result<PrivateKey> to_pem(EVP_PKEY& key);  // PKCS#8
Result<std::string> to_pem(X509& certificate);

// The only private key in a PEM text. Never asks for a passphrase: an encrypted key is a failure.
Result<openssl::Key> parse_key(std::string_view pem);
// The only certificate in a PEM text; other PEM blocks are skipped.
Result<openssl::X509Handle> parse_certificate(std::string_view pem);

WallTime not_before(const X509& certificate);
WallTime not_after(const X509& certificate);
std::string serial_number(const X509& certificate);        // lower-case hex
Result<std::string> fingerprint(const X509& certificate);  // SHA-256, lower-case hex

}  // namespace osm::certificate::x509
