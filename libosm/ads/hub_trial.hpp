// The hub's part of a trial: what is remembered of a proxy that is given another mesh than its
// class. The functions are the hub's own, in hub_trial.cpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "ads/class_table.hpp"
#include "ads/session.hpp"
#include "ads/trial.hpp"

namespace osm::inline v1::ads {

struct Trial {
  // How long a proxy may take to answer. Envoy acknowledges clusters once they are warm.
  static constexpr std::chrono::seconds kBound{10};

  std::uint64_t number = 0;          // tells the build of an overtaken trial
  std::optional<ResourceSets> sets;  // none: those of its class
  bool building = false;
  std::function<void(const TrialResult&)> done;  // null: it has been told
  SteadyTime deadline{};
  std::optional<std::uint64_t> ends_with;  // the generation with which the trial ends
};

// Whether the proxy has been sent, and acknowledged, everything that what it holds names: it asks
// for listeners after clusters, and for routes after listeners.
bool holds_what_it_names(const Session& session);

// The parts that those of `whole` play which `part` does not hold the same, for one type: routes
// and listeners inbound or outbound, clusters and endpoints each their own.
std::set<std::string> roles_missing(const ResourceSetPtr& whole, const ResourceSetPtr& part);

}  // namespace osm::inline v1::ads
