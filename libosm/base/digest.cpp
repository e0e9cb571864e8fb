#include "base/digest.hpp"

#include <openssl/evp.h>

#include "base/check.hpp"
#include "base/hex.hpp"

namespace osm::inline v1 {

DigestBuilder& DigestBuilder::add(std::string_view part) {
  append('s', part.size());
  bytes_ += part;
  return *this;
}

DigestBuilder& DigestBuilder::add(std::uint64_t number) {
  append('n', number);
  return *this;
}

DigestBuilder& DigestBuilder::add(const Digest& digest) {
  append('d', digest.bytes.size());
  bytes_.append(digest.bytes.begin(), digest.bytes.end());
  return *this;
}

void DigestBuilder::append(char kind, std::uint64_t number) {
  bytes_ += kind;
  for (int shift = 0; shift < 64; shift += 8) bytes_ += static_cast<char>(number >> shift);
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
