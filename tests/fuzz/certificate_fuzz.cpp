// PEM of strangers and of operators → X.509 values and peers: unreadable ones are refused, readable
// ones read back, and OpenSSL's error queue stays empty, whose leftovers would fail the next TLS
// handshake of the thread.
//
//   input: '0', then PEM text; '1', then DER of a certificate; '2', then DER of a private key.
#include <openssl/pem.h>

#include "ads/peer.hpp"
#include "certificate/local_issuer.hpp"
#include "certificate/x509.hpp"
#include "fuzz/fuzz.hpp"
#include "osm/runtime/system.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

namespace x509 = certificate::x509;

const TrustDomain kDomain{"cluster.local"};
constexpr const char* kUri =
    "spiffe://cluster.local/osm/proxy/6f2c1a58-9a53-4a5f-8f5c-0d5a3b7e61f0/bookstore/bookstore";

std::string pem_of(const char* label, std::string_view der) {
  const openssl::Bio bio(BIO_new(BIO_s_mem()));
  PEM_write_bio(bio.get(), label, "", reinterpret_cast<const unsigned char*>(der.data()),
                static_cast<long>(der.size()));
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  ERR_clear_error();
  return {data, static_cast<std::size_t>(size)};
}

void require_clean_queue() {
  require(ERR_peek_error() == 0, "OpenSSL's error queue is left empty");
}

void read_certificate(const std::string& pem) {
  const openssl::CleanErrorQueue queue;
  const auto parsed = x509::parse_certificate(pem);
  if (!parsed.ok()) {
    require(parsed.error().code == ErrorCode::kInvalidCertificate, "a refusal says its kind");
    return;
  }
  const X509& certificate = **parsed;
  (void)x509::not_before(certificate);
  (void)x509::not_after(certificate);
  const std::string serial = x509::serial_number(certificate);
  require(serial.find_first_not_of("0123456789abcdef-") == std::string::npos,
          "a serial number is hex", serial);
  const auto print = x509::fingerprint(certificate);
  const auto again = x509::to_pem(**parsed);
  if (!print.ok() || !again.ok()) return;
  const auto reread = x509::parse_certificate(*again);
  require(reread.ok(), "a certificate that was written can be read", *again);
  require(x509::fingerprint(**reread).value_or("") == *print, "a certificate reads back");
}

void read_key(const std::string& pem) {
  const openssl::CleanErrorQueue queue;
  const auto parsed = x509::parse_key(pem);
  if (!parsed.ok()) return;
  const auto again = x509::to_pem(**parsed);
  if (!again.ok()) return;
  const auto reread = x509::parse_key(again->pem());
  require(reread.ok() && EVP_PKEY_eq(reread->get(), parsed->get()) == 1, "a key reads back");
}

void run(Choices choices) {
  const std::size_t kind = choices.below(3);
  std::string pem(choices.rest());
  if (kind == 1) pem = pem_of("CERTIFICATE", pem);
  if (kind == 2) pem = pem_of("PRIVATE KEY", pem);

  read_certificate(pem);
  read_key(pem);
  require_clean_queue();

  const auto peer = ads::identify_peer({kDomain}, {{kUri}, "name", pem, "ipv4:10.0.0.7:1"});
  if (peer.ok()) require(peer->identity.account.ns == "bookstore", "who it is comes from the URI");
  require_clean_queue();

  static const SystemClock clock;
  const auto issuer = certificate::make_local_issuer(pem, kDomain, clock);
  require(issuer.ok() || issuer.error().message.find("PRIVATE") == std::string::npos,
          "an error does not quote the key");
  require_clean_queue();
}

const bool kAdded = add("certificate", [](std::string_view input) { run(Choices(input)); });

}  // namespace
