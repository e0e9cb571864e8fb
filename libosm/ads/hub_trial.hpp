// State of a trial, kept by the hub for a proxy that is sent another mesh than its class. The
// functions are members of Hub, in hub_trial.cpp.
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
  // Time for a proxy to answer. Envoy acknowledges clusters once they are warm.
  static constexpr std::chrono::seconds kBound{10};

  std::uint64_t number = 0;          // a build for an earlier trial is dropped
  std::optional<ResourceSets> sets;  // none: the sets of the proxy's class
  bool building = false;
  std::function<void(const TrialResult&)> done;  // null: it has been called
  SteadyTime deadline{};
  std::optional<std::uint64_t> ends_with;  // the generation to wait for before the trial ends
};

// True if the proxy has acknowledged everything that its resources name. A proxy asks for listeners
// after clusters, and for routes after listeners.
bool holds_what_it_names(const Session& session);

// Roles of the resources of `whole` that `part` does not have, or has with other content; for one
// type. The role of a route configuration is its direction; other resources are each a role.
std::set<std::string> roles_missing(const ResourceSetPtr& whole, const ResourceSetPtr& part);

}  // namespace osm::inline v1::ads
