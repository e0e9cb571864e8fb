// A CA of the test, and certificates under it for whatever names a test needs.
#pragma once

#include <doctest/doctest.h>
#include <openssl/pem.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "certificate/x509.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/net/http_client.hpp"

namespace osm::net {

// "DNS:localhost,IP:127.0.0.1" in a leaf that may be server and client.
class TestCa {
 public:
  TestCa() {
    const openssl::CleanErrorQueue clean;
    key_ = certificate::x509::generate_key({}).value();
    root_ = certificate::x509::make_root(*key_, lifetime(std::chrono::hours(1))).value();
  }

  std::string root_pem() const { return certificate::x509::to_pem(*root_).value(); }

  certificate::CertificatePtr issue(const std::string& names,
                                    std::chrono::seconds validity = std::chrono::hours(1),
                                    const std::string& usage = "serverAuth,clientAuth") const {
    namespace x509 = certificate::x509;
    const openssl::CleanErrorQueue clean;
    auto key = x509::generate_key({}).value();
    openssl::X509Handle leaf(X509_new());
    const auto valid = lifetime(validity);
    X509_set_version(leaf.get(), X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(leaf.get()), ++serial_);
    ASN1_TIME_set(X509_getm_notBefore(leaf.get()), seconds(valid.not_before));
    ASN1_TIME_set(X509_getm_notAfter(leaf.get()), seconds(valid.not_after));
    X509_set_pubkey(leaf.get(), key.get());
    X509_set_issuer_name(leaf.get(), X509_get_subject_name(root_.get()));
    add(*leaf, NID_subject_alt_name, names);
    add(*leaf, NID_ext_key_usage, usage);
    REQUIRE(X509_sign(leaf.get(), key_.get(), EVP_sha256()) > 0);
    auto made = std::make_shared<certificate::Certificate>(certificate::Certificate{
        .subject = {certificate_name(), SpiffeId("spiffe://cluster.local/x"), {}},
        .chain_pem = x509::to_pem(*leaf).value(),
        .private_key = x509::to_pem(*key).value(),
        .serial_number = std::to_string(serial_),
        .fingerprint = x509::fingerprint(*leaf).value(),
        .not_before = valid.not_before,
        .not_after = valid.not_after});
    return made;
  }

  // TLS settings of a client of this CA's servers.
  std::function<Result<ClientTls>()> client(std::string server_name = "") const {
    ClientTls tls{.trusted_pem = root_pem(),
                  .server_name = std::move(server_name),
                  .certificate_pem = {},
                  .private_key = nullptr};
    return [tls] { return tls; };
  }

 private:
  static CommonName certificate_name() { return CommonName("test"); }
  static std::time_t seconds(WallTime time) {
    return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  }
  static certificate::x509::Lifetime lifetime(std::chrono::seconds validity) {
    const WallTime now =
        std::chrono::time_point_cast<WallTime::duration>(std::chrono::system_clock::now());
    return {now - std::chrono::hours(2), now + validity};
  }
  static void add(X509& leaf, int nid, const std::string& value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
    REQUIRE(extension != nullptr);
    X509_add_ext(&leaf, extension, -1);
    X509_EXTENSION_free(extension);
  }

  openssl::Key key_;
  openssl::X509Handle root_;
  mutable long serial_ = 1;
};

// TLS context of a server of the test's own.
inline boost::asio::ssl::context server_context(const certificate::Certificate& certificate) {
  namespace ssl = boost::asio::ssl;
  ssl::context context(ssl::context::tls_server);
  context.use_certificate_chain(boost::asio::buffer(certificate.chain_pem));
  context.use_private_key(boost::asio::buffer(certificate.private_key.pem()), ssl::context::pem);
  return context;
}

// A key under a passphrase.
inline std::string encrypted_key_pem() {
  const openssl::CleanErrorQueue clean;
  const auto key = certificate::x509::generate_key({}).value();
  const openssl::Bio bio(BIO_new(BIO_s_mem()));
  REQUIRE(PEM_write_bio_PKCS8PrivateKey(bio.get(), key.get(), EVP_aes_128_cbc(), "passphrase", 10,
                                        nullptr, nullptr) == 1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

}  // namespace osm::net
