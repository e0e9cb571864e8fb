#include "vault/ca_chain.hpp"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>
#include <vector>

namespace osm::inline v1::vault {
namespace {

constexpr std::size_t kMaxChain = 10;

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

Error invalid(std::string cause) { return {ErrorCode::kInvalidCertificate, std::move(cause)}; }

Result<std::vector<Certificate>> parse(std::string_view pem) {
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  std::vector<Certificate> all;
  while (bio) {
    Certificate next(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (!next) break;
    if (all.size() == kMaxChain) return invalid("the chain is longer than 10 certificates");
    all.push_back(std::move(next));
  }
  const unsigned long error = ERR_peek_last_error();
  const bool at_end =
      ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
  if (!at_end || all.empty()) return invalid("that is not a certificate");
  return all;
}

std::string to_pem(X509& certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  char* text = nullptr;
  if (!bio || PEM_write_bio_X509(bio.get(), &certificate) != 1) return "";
  const long size = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<std::size_t>(size)};
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
  const CleanErrorQueue clean;
  OSM_TRY(const std::vector<Certificate> all, parse(pem));
  CaChain chain{.fingerprint = fingerprint(*all.front()),
                .intermediates_pem = {},
                .roots_pem = {},
                .not_after = WallTime::max()};
  for (const Certificate& each : all) {
    if (X509_check_ca(each.get()) == 0)
      return invalid("the chain contains a certificate that is not a CA");
    const bool root = X509_self_signed(each.get(), 1) == 1;
    (root ? chain.roots_pem : chain.intermediates_pem) += to_pem(*each);
    chain.not_after = std::min(chain.not_after, not_after(*each));
  }
  if (chain.roots_pem.empty())
    return invalid("the chain ends below its root, whose name is \"" + issuer_name(*all.back()) +
                   "\"; import that certificate into the mount (vault write "
                   "<mount>/issuers/import/bundle pem_bundle=@root.pem)");
  return chain;
}

Result<std::string> fingerprint_of(std::string_view pem) {
  const CleanErrorQueue clean;
  OSM_TRY(const std::vector<Certificate> all, parse(pem));
  if (all.size() != 1) return invalid("that is not one certificate");
  return fingerprint(*all.front());
}

}  // namespace osm::inline v1::vault
