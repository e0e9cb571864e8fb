// Status of objects as replicas exchange it on their board: one line per object.
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

// Status of an object on one replica.
struct Share {
  std::int64_t generation = 0;  // the object's generation at the API server
  ObjectPhase phase = ObjectPhase::kPending;
  std::size_t applied = 0;
  std::size_t concerned = 0;

  friend bool operator==(const Share&, const Share&) = default;
};

// Statuses by the digest of an object's key.
struct Shares {
  std::map<std::string, Share, std::less<>> objects{};
  bool complete = true;  // false: the list was cut, so other objects may be known to the replica
};

std::string share_id(const ObjectKey& key);

// The text, at most `max_bytes`. Lines that do not fit are left out, and the first line says so.
std::string text_of(const std::map<std::string, Share, std::less<>>& shares, std::size_t max_bytes);
// Parses a text. The text of another version reads as empty and incomplete.
Shares parse_shares(std::string_view text);

// Status of an object over all replicas.
struct ShareSum {
  Share share;             // sums of applied and concerned proxies
  std::size_t behind = 0;  // replicas that have not read this generation of it
  std::size_t mute = 0;    // replicas with cut lists that lack this object
};
ShareSum sum_of(const std::string& id, const Share& ours, const std::vector<const Shares*>& others);

}  // namespace osm::inline v1::kubernetes
