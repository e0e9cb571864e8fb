// Reads operators' files: PEM, and a password.
#pragma once

#include <string>
#include <utility>

#include "osm/result.hpp"

namespace osm::inline v1::etcd {

// At most 1 MiB. Failure: kUnreadableSource, naming the file; never quoting it.
Result<std::string> read_file(const std::string& path);

// Zeroes its content on destruction.
struct Erased {
  std::string text;

  explicit Erased(std::string t) : text(std::move(t)) {}
  Erased(const Erased&) = delete;
  Erased& operator=(const Erased&) = delete;
  ~Erased();
};

}  // namespace osm::inline v1::etcd
