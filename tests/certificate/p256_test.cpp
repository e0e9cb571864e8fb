// P-256 keys are encoded and decoded exactly as OpenSSL does.
#include "certificate/p256.hpp"

#include <doctest/doctest.h>
#include <openssl/pem.h>

#include <string>
#include <vector>

#include "certificate/issuance.hpp"
#include "certificate/x509.hpp"

using namespace osm;
using namespace osm::certificate;

namespace {

using Bytes = std::vector<unsigned char>;

Bytes info_of(EVP_PKEY& key) {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(&key, &der);
  REQUIRE(size > 0);
  Bytes bytes(der, der + size);
  OPENSSL_free(der);
  return bytes;
}

std::string pem_of_openssl(EVP_PKEY& key) {
  const openssl::Bio bio(BIO_new(BIO_s_mem()));
  REQUIRE(PEM_write_bio_PKCS8PrivateKey(bio.get(), &key, nullptr, nullptr, 0, nullptr, nullptr) ==
          1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

openssl::Key new_key() { return x509::generate_key({}).value(); }

}  // namespace

TEST_SUITE("certificate::p256") {
  TEST_CASE("both encodings are OpenSSL's to the byte, and its keys are read as it reads them") {
    const openssl::CleanErrorQueue clean;
    for (int i = 0; i < 300; ++i) {  // one number in 256 begins with a zero
      const openssl::Key key = new_key();
      REQUIRE(p256::is_p256(*key));
      CHECK(p256::to_pem(*key).value().pem() == pem_of_openssl(*key));
      const Bytes info = info_of(*key);
      const auto read = p256::public_key(info);
      REQUIRE(read.has_value());
      REQUIRE(*read);
      CHECK(EVP_PKEY_eq(read->get(), key.get()) == 1);
      const openssl::Handle<X509_PUBKEY, X509_PUBKEY_free> made(X509_PUBKEY_new());
      REQUIRE(p256::set_public_key(*made, *key).ok());
      unsigned char* der = nullptr;
      const int size = i2d_X509_PUBKEY(made.get(), &der);
      CHECK(Bytes(der, der + size) == info);
      OPENSSL_free(der);
    }
  }

  TEST_CASE("an invalid point of the curve is refused; OpenSSL handles other kinds of keys") {
    const openssl::CleanErrorQueue clean;
    const Bytes good = info_of(*new_key());
    for (std::size_t at = good.size() - 64; at < good.size(); ++at) {
      Bytes bent = good;
      bent[at] = static_cast<unsigned char>(bent[at] ^ 1);
      const auto read = p256::public_key(bent);
      REQUIRE(read.has_value());
      CHECK_FALSE(*read);
    }
    Bytes hybrid = good;
    hybrid[26] = 6;
    const Bytes cut(good.begin(), good.end() - 1);
    for (const Bytes& other : {hybrid, cut, Bytes()})
      CHECK_FALSE(p256::public_key(other).has_value());
    for (const openssl::Key& key :
         {openssl::Key(EVP_EC_gen("P-384")), openssl::Key(EVP_RSA_gen(2048)),
          openssl::Key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"))}) {
      CHECK_FALSE(p256::is_p256(*key));
      CHECK_FALSE(p256::public_key(info_of(*key)).has_value());
    }
    // A public key alone has nothing to write.
    CHECK_FALSE(p256::to_pem(**p256::public_key(good)).ok());
  }

  TEST_CASE("the key of a request is the one that signed it, whatever its kind") {
    const openssl::CleanErrorQueue clean;
    const Subject subject{CommonName("buyer.shop.cluster.local"),
                          SpiffeId("spiffe://cluster.local/ns/shop/sa/buyer")};
    for (const KeyParameters& kind :
         {KeyParameters{}, KeyParameters{KeyType::kRsa, 2048}, KeyParameters{KeyType::kEd25519}}) {
      const auto made = request_over_new_key(subject, kind).value();
      const auto read = x509::parse_request_key(made.pem);
      REQUIRE(read.ok());
      CHECK(EVP_PKEY_eq(read->get(), made.key.get()) == 1);
    }
    const std::string pem = request_over_new_key(subject, {}).value().pem;
    for (const std::string& broken : {std::string(), pem.substr(0, 100), pem + pem,
                                      std::string("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n"
                                                  "-----END CERTIFICATE REQUEST-----\n")})
      CHECK_FALSE(x509::parse_request_key(broken).ok());
  }
}
