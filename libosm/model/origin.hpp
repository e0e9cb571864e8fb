// Origins of values of the mesh: objects, and endpoints providers.
#pragma once

#include <string>
#include <vector>

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

// Ids of the endpoints providers that list values, in the order of the values.
struct ProviderNames {
  std::vector<std::string> of_each;

  friend bool operator==(const ProviderNames&, const ProviderNames&) = default;
};

// An input or any other digest with one of them does not compile. The walk of catalog/mesh_hash.cpp
// alone skips them, with a builder of its own.
void feed(DigestBuilder&, const Origin&) = delete;
void feed(DigestBuilder&, const ProviderNames&) = delete;

}  // namespace osm::inline v1::model
