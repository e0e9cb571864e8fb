// The answers to a watch: JSON objects, one a line, as etcd's gateway streams them.
// https://etcd.io/docs/v3.4/learning/api/#watch-streams
#pragma once

#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "osm/result.hpp"

namespace osm::inline v1::etcd {

// A key and its value at a revision.
struct Pair {
  std::string key{};
  std::string value{};
  std::int64_t revision = 0;  // mod_revision
  std::int64_t created = 0;   // create_revision; 0: of a deletion

  friend bool operator==(const Pair&, const Pair&) = default;
};

struct WatchEvent {
  Pair pair;  // of a deletion: without a value
  bool deleted = false;
};

struct WatchAnswer {
  std::int64_t revision = 0;  // etcd's, when it answered
  bool created = false;
  bool canceled = false;
  bool fragment = false;              // more events of the same answer follow
  std::int64_t compact_revision = 0;  // not 0: the start was older than this revision
  std::string reason{};               // of `canceled`
  std::vector<WatchEvent> events{};

  // No event, but news that the watch has told everything up to `revision`.
  bool is_progress() const { return events.empty() && !created && !canceled && !fragment; }
};

// etcd writes 64-bit numbers as text, and leaves out 0.
std::int64_t revision_at(const boost::json::value& map, std::string_view name);
std::int64_t revision_at(const boost::json::object& map, std::string_view name);

// A pair of an answer. Failure: it is not from etcd.
Result<Pair> read_pair(const boost::json::value& pair);

class WatchReader {
 public:
  // An answer in fragments has less than 2 MB, unless etcd's --max-request-bytes says otherwise.
  static constexpr std::size_t kMaxLine = 16 * 1024 * 1024;

  // Reads the next bytes. Result: the answers that end in them.
  // Failure: kInvalidSyntax (not from etcd), kTooLarge. The reader is not used any more then.
  Result<std::vector<WatchAnswer>> read(std::string_view data);

 private:
  std::string line_;  // begun, and not ended yet
};

}  // namespace osm::inline v1::etcd
