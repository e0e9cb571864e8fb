#include "base/digest.hpp"

#include <openssl/evp.h>

#include "base/check.hpp"
#include "base/hex.hpp"

namespace osm::inline v1 {

struct DigestBuilder::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

DigestBuilder::DigestBuilder() : context_(std::make_unique<Context>()) {
  OSM_CHECK(context_->evp && EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) == 1);
}

DigestBuilder::~DigestBuilder() = default;

DigestBuilder& DigestBuilder::add(std::string_view part) {
  update('s', static_cast<std::uint64_t>(part.size()));
  OSM_CHECK(EVP_DigestUpdate(context_->evp, part.data(), part.size()) == 1);
  return *this;
}

DigestBuilder& DigestBuilder::add(std::uint64_t number) {
  update('n', number);
  return *this;
}

DigestBuilder& DigestBuilder::add(const Digest& digest) {
  update('d', digest.bytes.size());
  OSM_CHECK(EVP_DigestUpdate(context_->evp, digest.bytes.data(), digest.bytes.size()) == 1);
  return *this;
}

void DigestBuilder::update(char kind, std::uint64_t number) {
  std::array<std::uint8_t, 9> bytes{static_cast<std::uint8_t>(kind)};
  for (std::size_t i = 0; i < 8; ++i) bytes[i + 1] = static_cast<std::uint8_t>(number >> (8 * i));
  OSM_CHECK(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1);
}

Digest DigestBuilder::finish() {
  std::array<std::uint8_t, EVP_MAX_MD_SIZE> full;
  OSM_CHECK(EVP_DigestFinal_ex(context_->evp, full.data(), nullptr) == 1);
  Digest digest;
  std::memcpy(digest.bytes.data(), full.data(), digest.bytes.size());
  return digest;
}

Digest digest_of(std::string_view bytes) {
  std::array<std::uint8_t, EVP_MAX_MD_SIZE> full;
  OSM_CHECK(EVP_Digest(bytes.data(), bytes.size(), full.data(), nullptr, EVP_sha256(), nullptr) ==
            1);
  Digest digest;
  std::memcpy(digest.bytes.data(), full.data(), digest.bytes.size());
  return digest;
}

std::string Digest::hex() const { return hex_of(bytes); }

}  // namespace osm::inline v1
