// State of a proxy between its streams: doubts about its content, and its addresses.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "ads/session.hpp"
#include "model/mesh_snapshot.hpp"

namespace osm::inline v1::ads {

class ProxyMemory {
 public:
  // Two holders of one key connect in turn: this number of address changes within kFlapWindow
  // counts as an alarm.
  static constexpr int kFlaps = 3;
  static constexpr std::chrono::seconds kFlapWindow{60};

  struct Arrival {
    bool again = false;     // it was connected before
    bool flapping = false;  // it alternates between addresses: raise the alarm
    std::string previous_host;
  };
  Arrival arrived(const model::ProxyKey& key, std::string_view host, SteadyTime now) {
    Entry& entry = entries_[key];
    Arrival arrival{entry.connected, false, entry.host};
    if (entry.connected && entry.host != host) {
      if (now - entry.window_start > kFlapWindow) {
        entry.window_start = now;
        entry.moves = 0;
      }
      arrival.flapping = ++entry.moves == kFlaps;
    }
    entry.connected = true;
    entry.host = host;
    return arrival;
  }

  // Names beyond those of its class that a proxy may send at once, and in each second later on. A
  // proxy that reconnects names what it had. Its class may have far less since, or may not be built
  // yet, and a controller that has just started does not know what the proxy had. A pause would
  // delay listeners that take a right away.
  static constexpr std::size_t kSpareBurst = kMaxNames;
  static constexpr std::size_t kSpareNamesPerSecond = 1000;

  // Counts such names of a request. Result: the pause until the proxy's next request is read; not
  // positive: none.
  std::chrono::nanoseconds charge(const model::ProxyKey& key, std::size_t names, SteadyTime now) {
    constexpr std::chrono::nanoseconds kPerName =
        std::chrono::nanoseconds(std::chrono::seconds(1)) / kSpareNamesPerSecond;
    const auto time_for = [&](std::size_t count) {
      return kPerName * static_cast<std::int64_t>(count);
    };
    const SteadyTime earliest = now - time_for(kSpareBurst);
    Entry& entry = entries_[key];
    entry.paid_until = std::max(entry.paid_until, earliest) + time_for(names);
    return entry.paid_until - now;
  }
  // The pause of the certificate, for another stream of it; zero: none.
  std::chrono::nanoseconds pause(const model::ProxyKey& key, SteadyTime now) const {
    const auto entry = entries_.find(key);
    if (entry == entries_.end() || entry->second.paid_until <= now) return {};
    return entry->second.paid_until - now;
  }

  const Doubts& doubts(const model::ProxyKey& key) { return entries_[key].doubts; }
  void left(const model::ProxyKey& key, const Doubts& doubts, SteadyTime now) {
    entries_[key].doubts = doubts;
    entries_[key].left_at = now;
  }
  // End of its last stream; min() if it had none here.
  SteadyTime left_at(const model::ProxyKey& key) const {
    const auto entry = entries_.find(key);
    return entry == entries_.end() ? SteadyTime::min() : entry->second.left_at;
  }
  void erase(const model::ProxyKey& key) { entries_.erase(key); }

 private:
  struct Entry {
    Doubts doubts{};
    SteadyTime left_at = SteadyTime::min();
    bool connected = false;
    std::string host;
    SteadyTime window_start{};
    int moves = 0;
    SteadyTime paid_until = SteadyTime::min();
  };
  std::map<model::ProxyKey, Entry> entries_;
};

}  // namespace osm::inline v1::ads
