#include "cert_manager/signer.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>
#include <vector>

namespace osm::inline v1::cert_manager {
namespace {

constexpr std::size_t kMaxCertificates = 20;

template <auto kFree>
struct FreeWith {
  template <class T>
  void operator()(T* object) const noexcept {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, FreeWith<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, FreeWith<X509_free>>;

// Clears OpenSSL's error queue: an error in it would fail the thread's next handshake.
struct CleanErrorQueue {
  CleanErrorQueue() { ERR_clear_error(); }
  ~CleanErrorQueue() { ERR_clear_error(); }
  CleanErrorQueue(const CleanErrorQueue&) = delete;
  CleanErrorQueue& operator=(const CleanErrorQueue&) = delete;
};

void append_certificates(std::string_view pem, std::vector<Certificate>& all) {
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  while (bio && all.size() < kMaxCertificates) {
    Certificate next(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (!next) return;
    all.push_back(std::move(next));
  }
}

bool signed_by(X509& certificate, X509& candidate) {
  return X509_check_issued(&candidate, &certificate) == X509_V_OK &&
         X509_verify(&certificate, X509_get0_pubkey(&candidate)) == 1;
}

std::string fingerprint(const X509& certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  std::string hex;
  if (X509_digest(&certificate, EVP_sha256(), digest.data(), &size) != 1) return hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex += "0123456789abcdef"[digest[i] >> 4];
    hex += "0123456789abcdef"[digest[i] & 15];
  }
  return hex;
}

WallTime not_after(const X509& certificate) {
  std::tm utc{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(&certificate), &utc) != 1) return WallTime{};
  // "No expiration" (RFC 5280: year 9999) does not fit into 64 bits of nanoseconds.
  constexpr std::int64_t kFarthest = 9'000'000'000;
  return WallTime{
      std::chrono::seconds(std::clamp<std::int64_t>(timegm(&utc), -kFarthest, kFarthest))};
}

}  // namespace

Result<Signer> find_signer(std::string_view chain_pem, std::string_view roots_pem) {
  const CleanErrorQueue clean;
  std::vector<Certificate> all;
  append_certificates(chain_pem, all);
  if (all.empty()) return Error{ErrorCode::kInvalidCertificate, "there is no certificate in it"};
  append_certificates(roots_pem, all);
  for (std::size_t i = 1; i < all.size(); ++i)
    if (signed_by(*all.front(), *all[i])) return Signer{fingerprint(*all[i]), not_after(*all[i])};
  return Error{ErrorCode::kInvalidCertificate,
               "the certificate of the CA that signed is not among those of its chain and of the "
               "trust bundle"};
}

}  // namespace osm::inline v1::cert_manager
