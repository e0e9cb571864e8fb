// Base64 with padding (RFC 4648, section 4), as Kubernetes writes bytes in JSON. Header only, so
// that plugins have it beside a shared libosm too, which hides its rooms.
#pragma once

#include <openssl/evp.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "osm/certificate/secret_bytes.hpp"

namespace osm::inline v1 {

inline std::string base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // EVP_EncodeBlock ends with a NUL
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

// nullopt: not base64; nothing is skipped, line feeds neither.
inline std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes(text.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  if (size < 0) {
    erase(bytes);
    return std::nullopt;
  }
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  bytes.resize(static_cast<std::size_t>(size) - padding);
  // One text for each value: OpenSSL skips blanks and takes stray padding and bits.
  if (SecretBytes(base64(bytes)).text() == text) return bytes;
  erase(bytes);
  return std::nullopt;
}

}  // namespace osm::inline v1
