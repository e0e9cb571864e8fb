// State of a proxy between its streams: doubts about its content, and its addresses.
#pragma once

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

  const Doubts& doubts(const model::ProxyKey& key) { return entries_[key].doubts; }
  void left(const model::ProxyKey& key, const Doubts& doubts) { entries_[key].doubts = doubts; }
  void erase(const model::ProxyKey& key) { entries_.erase(key); }

 private:
  struct Entry {
    Doubts doubts{};
    bool connected = false;
    std::string host;
    SteadyTime window_start{};
    int moves = 0;
  };
  std::map<model::ProxyKey, Entry> entries_;
};

}  // namespace osm::inline v1::ads
