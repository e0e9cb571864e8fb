// The next root of a mesh, as `osm certificate rotate` declares it.
#pragma once

#include <string>
#include <vector>

#include "mesh/object_place.hpp"

namespace osm::cli {

// A root as the controller tells it.
struct Root {
  std::string name;
  std::string state;
  std::string role;
  std::string waiting_for;
  std::string trust_domain;
};
Result<std::vector<Root>> list_roots(const AdminClient& client);

struct NextRoot {
  std::string name;
  std::string trust_domain;  // empty: that of the root that signs now
};

// Declares the next root as active, and makes the active ones of before inactive. Does the rest if
// a part is there. Failure: nothing is written if a root that is active cannot be changed.
Status declare_root(const Flags& flags, const ObjectPlace& place, const NextRoot& wanted,
                    std::vector<Root> roots);

}  // namespace osm::cli
