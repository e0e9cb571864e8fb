// Text that must not stay in memory: a key, a token, a password, or a message that holds one.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "osm/detail/api.hpp"

namespace osm::inline v1 {

// Overwrites everything that `text` has room for, and empties it. Thread: any.
OSM_API void erase(std::string& text) noexcept;

// A text that erases itself when it is destroyed, moved from or assigned to. Each copy does so too.
// Thread: as a std::string.
class OSM_API SecretBytes {
 public:
  SecretBytes() = default;
  // Leaves nothing of the secret in `text`. A copy that the caller made is the caller's to erase.
  explicit SecretBytes(std::string text) noexcept : text_(std::move(text)) { erase(text); }
  SecretBytes(SecretBytes&& other) noexcept : text_(std::move(other.text_)) { erase(other.text_); }
  SecretBytes(const SecretBytes&) = default;
  SecretBytes& operator=(SecretBytes other) noexcept;
  ~SecretBytes() { erase(text_); }

  const std::string& text() const noexcept { return text_; }  // lives as long as this object
  bool empty() const noexcept { return text_.empty(); }       // true: there is no secret

  // Leaves no copy behind when the text needs more room.
  SecretBytes& append(std::string_view more);

  friend bool operator==(const SecretBytes&, const SecretBytes&) = default;

 private:
  std::string text_;
};

// Erases a text that belongs to something else when it goes out of scope.
// Lifetime: `text` outlives it.
class EraseOnExit {
 public:
  explicit EraseOnExit(std::string& text) noexcept : text_(text) {}
  ~EraseOnExit() { erase(text_); }
  EraseOnExit(const EraseOnExit&) = delete;
  EraseOnExit& operator=(const EraseOnExit&) = delete;

 private:
  std::string& text_;
};

}  // namespace osm::inline v1
