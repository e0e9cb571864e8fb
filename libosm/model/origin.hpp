// The object that made a value of the mesh.
#pragma once

#include <string>

#include "base/digest.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::model {

// Explanations and the status of objects read origins; no resource of a proxy depends on one.
struct Origin {
  ObjectKey object;      // empty: nothing made the value
  std::string field{};   // as the author wrote it: "spec.rules[1]"; empty: the whole object
  bool in_force = true;  // false: the entry keeps the value, which has no effect

  friend bool operator==(const Origin&, const Origin&) = default;
};

// An input or any other digest with an origin does not compile. The walk of catalog/mesh_hash.cpp
// alone skips origins, with a builder of its own.
void feed(DigestBuilder&, const Origin&) = delete;

}  // namespace osm::inline v1::model
