// How far objects have come, as replicas tell each other on their board: a line for each object.
//
//   1 complete
//   a1b2c3d4e5f6 3 applied 2 2     (digest of the object's key, generation, phase, proxies)
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "osm/object.hpp"
#include "osm/values/object_status.hpp"

namespace osm::inline v1::kubernetes {

inline constexpr const char* kStatusTopic = "status";

// What one replica knows of an object.
struct Share {
  std::int64_t generation = 0;  // of the object, as the API server counts
  ObjectPhase phase = ObjectPhase::kPending;
  std::size_t applied = 0;
  std::size_t concerned = 0;

  friend bool operator==(const Share&, const Share&) = default;
};

// By the digest of an object's key.
struct Shares {
  std::map<std::string, Share, std::less<>> objects{};
  bool complete = true;  // an object that is not here is not known to the replica
};

std::string share_id(const ObjectKey& key);

// At most `max_bytes`: what does not fit is left out, and the first line says so.
std::string text_of(const std::map<std::string, Share, std::less<>>& shares, std::size_t max_bytes);
// What another version of this program wrote reads as nothing, incomplete.
Shares parse_shares(std::string_view text);

// What all replicas know of an object.
struct ShareSum {
  Share share;             // applied and concerned of all
  std::size_t behind = 0;  // replicas that have not read this generation of it
  std::size_t mute = 0;    // replicas that have more objects than they can tell of, this among them
};
ShareSum sum_of(const std::string& id, const Share& ours, const std::vector<const Shares*>& others);

}  // namespace osm::inline v1::kubernetes
