// CAs and certificates as strangers and careless operators make them: nothing is checked.
#pragma once

#include <doctest/doctest.h>
#include <openssl/x509v3.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "certificate/x509.hpp"

namespace osm::certificate::testing {

// The content of a certificate for make_certificate(). Extensions in OpenSSL's configuration
// language: {"subjectAltName", "URI:spiffe://..."}.
struct Wanted {
  std::string common_name;
  std::vector<std::pair<std::string, std::string>> extensions;
  WallTime not_before;
  WallTime not_after;
};

struct Made {
  openssl::Key key;
  openssl::X509Handle certificate;

  std::string pem() const { return x509::to_pem(*certificate).value(); }
  std::string key_pem() const { return x509::to_pem(*key).value().pem(); }
};

inline openssl::Key new_key(const KeyParameters& parameters = {}) {
  return x509::generate_key(parameters).value();
}

inline void add_common_name(X509_NAME* name, const std::string& text) {
  REQUIRE(X509_NAME_add_entry_by_NID(name, NID_commonName, V_ASN1_UTF8STRING,
                                     reinterpret_cast<const unsigned char*>(text.data()),
                                     static_cast<int>(text.size()), -1, 0) == 1);
}

// Signed by `issuer`, or by itself without one.
inline openssl::X509Handle make_certificate(const Wanted& wanted, EVP_PKEY& key,
                                            const Made* issuer) {
  openssl::X509Handle made(X509_new());
  static long serial = 1;
  REQUIRE(X509_set_version(made.get(), X509_VERSION_3) == 1);
  REQUIRE(ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++serial) == 1);
  const auto seconds = [](WallTime time) {
    return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  };
  REQUIRE(ASN1_TIME_set(X509_getm_notBefore(made.get()), seconds(wanted.not_before)));
  REQUIRE(ASN1_TIME_set(X509_getm_notAfter(made.get()), seconds(wanted.not_after)));
  REQUIRE(X509_set_pubkey(made.get(), &key) == 1);
  add_common_name(X509_get_subject_name(made.get()), wanted.common_name);
  X509* parent = issuer ? issuer->certificate.get() : made.get();
  REQUIRE(X509_set_issuer_name(made.get(), X509_get_subject_name(parent)) == 1);
  X509V3_CTX context;
  X509V3_set_ctx(&context, parent, made.get(), nullptr, nullptr, 0);
  for (const auto& [name, value] : wanted.extensions) {
    const openssl::Handle<X509_EXTENSION, X509_EXTENSION_free> extension(
        X509V3_EXT_conf(nullptr, &context, name.c_str(), value.c_str()));
    REQUIRE_MESSAGE(extension, name, "=", value, ": ", openssl::reason());
    REQUIRE(X509_add_ext(made.get(), extension.get(), -1) == 1);
  }
  REQUIRE(X509_sign(made.get(), issuer ? issuer->key.get() : &key, EVP_sha256()) > 0);
  return made;
}

// A CA for a year around `now`, below `issuer` or self-signed.
inline Made make_ca(const std::string& name, WallTime now, const Made* issuer = nullptr,
                    const std::string& constraints = "critical,CA:TRUE",
                    const KeyParameters& parameters = {}) {
  Made made{new_key(parameters), {}};
  made.certificate = make_certificate({.common_name = name,
                                       .extensions = {{"basicConstraints", constraints},
                                                      {"keyUsage", "critical,keyCertSign"},
                                                      {"subjectKeyIdentifier", "hash"}},
                                       .not_before = now - std::chrono::hours(24),
                                       .not_after = now + std::chrono::hours(24 * 364)},
                                      *made.key, issuer);
  return made;
}

}  // namespace osm::certificate::testing
