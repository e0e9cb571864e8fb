// In base, because every room that may hold a Certificate must be able to destroy one.
#include <openssl/crypto.h>

#include <utility>

#include "osm/certificate/manager.hpp"

namespace osm::inline v1::certificate {
namespace {

// Beyond size() too: a short string lives inside the object and stays there when moved from.
void wipe(std::string& text) noexcept {
  text.resize(text.capacity());
  OPENSSL_cleanse(text.data(), text.size());
  text.clear();
}

}  // namespace

PrivateKey::PrivateKey(std::string pem) noexcept : pem_(std::move(pem)) { wipe(pem); }

PrivateKey::PrivateKey(PrivateKey&& other) noexcept : pem_(std::move(other.pem_)) {
  wipe(other.pem_);
}

PrivateKey& PrivateKey::operator=(PrivateKey&& other) noexcept {
  if (this == &other) return *this;
  wipe(pem_);  // first: the move may hand our buffer to `other`
  pem_ = std::move(other.pem_);
  wipe(other.pem_);
  return *this;
}

PrivateKey::~PrivateKey() { wipe(pem_); }

}  // namespace osm::inline v1::certificate
