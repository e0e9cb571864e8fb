#include "osm/certificate/secret_bytes.hpp"

#include <openssl/crypto.h>

#include <algorithm>

namespace osm::inline v1 {

// Beyond size() too: a short string lives inside the object and stays there when moved from.
void erase(std::string& text) noexcept {
  text.resize(text.capacity());
  OPENSSL_cleanse(text.data(), text.size());
  text.clear();
}

SecretBytes& SecretBytes::operator=(SecretBytes other) noexcept {
  erase(text_);  // first: the move may hand our buffer to `other`
  text_ = std::move(other.text_);
  return *this;
}

SecretBytes& SecretBytes::append(std::string_view more) {
  if (more.size() > text_.capacity() - text_.size()) {
    std::string larger;
    larger.reserve(std::max(2 * text_.size(), text_.size() + more.size()));
    larger += text_;
    larger += more;
    erase(text_);
    text_ = std::move(larger);
    erase(larger);
  } else {
    text_ += more;
  }
  return *this;
}

}  // namespace osm::inline v1
