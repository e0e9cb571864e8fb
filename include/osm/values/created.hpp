// The age of an object. Of two objects that claim one address, the older one has it.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace osm::inline v1 {

// Place of an object in the order in which its store got its objects. All replicas that read one
// store know the same.
struct Created {
  // Kubernetes: the second of creationTimestamp. etcd: the create revision. A directory: the look
  // that saw it first. Lower is older. 0: the store does not tell.
  std::uint64_t order = 0;
  // An API server's id of the object: two objects of one second are ordered by it. Empty elsewhere.
  std::string uid{};

  friend bool operator==(const Created&, const Created&) = default;
  friend std::strong_ordering operator<=>(const Created&, const Created&) = default;
};

}  // namespace osm::inline v1
