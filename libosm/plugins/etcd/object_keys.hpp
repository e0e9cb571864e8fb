// Keys of objects: <prefix>/objects/<group>/<kind>/<namespace>/<name>; "-": none.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "osm/object.hpp"

namespace osm::inline v1::etcd {

class ObjectKeys {
 public:
  // `prefix`: "/osm".
  explicit ObjectKeys(std::string_view prefix) : begin_(std::string(prefix) + "/objects/") {}

  // All keys of objects begin with begin() and are less than end().
  const std::string& begin() const { return begin_; }
  std::string end() const;

  // nullopt: the object cannot have a key: its namespace or name is no DNS name.
  std::optional<std::string> key_of(const ObjectKey& object) const;
  // nullopt: it is no key of an object.
  std::optional<ObjectKey> object_of(std::string_view key) const;

 private:
  const std::string begin_;
};

// The first key behind all those that begin with `prefix`, which ends with a '/'.
inline std::string end_of(std::string prefix) {
  ++prefix.back();
  return prefix;
}

}  // namespace osm::inline v1::etcd
