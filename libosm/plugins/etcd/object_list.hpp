// All objects in etcd at one revision.
#pragma once

#include <cstdint>
#include <vector>

#include "etcd/gateway.hpp"
#include "etcd/object_keys.hpp"
#include "etcd/watch_answers.hpp"

namespace osm::inline v1::etcd {

struct ObjectList {
  std::int64_t revision = 0;
  std::vector<Pair> pairs{};  // in the order of their keys
};

// Reads page by page. Failure: as Gateway::post(); kTooLarge: more keys than any mesh has.
// Thread, blocking: as Gateway::post(), for each page.
Result<ObjectList> list_objects(const Gateway& gateway, const ObjectKeys& keys);

}  // namespace osm::inline v1::etcd
