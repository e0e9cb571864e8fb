// The endpoints of one namespace's Services, and what changed in them. Plain data; not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/maps.hpp"
#include "osm/object.hpp"
#include "osm/values/endpoint.hpp"

namespace osm::inline v1::endpoint {

// Effects of the changes of a namespace.
struct TableChanges {
  std::vector<ServiceName> services;    // services with changed endpoints
  std::vector<WorkloadName> workloads;  // added, changed or removed
  std::size_t recomputed = 0;           // number of Services whose endpoints were recomputed
  bool problems = false;                // there are other problems than before
};

struct ServiceState {
  std::vector<Endpoint> endpoints;
  std::vector<Problem> problems;
  bool served_outside = false;  // see EndpointsProvider

  friend bool operator==(const ServiceState&, const ServiceState&) = default;
};

class ServiceStates {
 public:
  explicit ServiceStates(std::string ns) : ns_(std::move(ns)) {}

  // Sets the recomputed state of a Service; nullopt: it is gone. Notes the effects in `changes`.
  void set(const std::string& name, std::optional<ServiceState> next, TableChanges& changes) {
    const ServiceState* known = find_in(states_, name);
    if (next) ++changes.recomputed;
    if (!known && !next) return;
    if (!known || !next || known->endpoints != next->endpoints ||
        known->served_outside != next->served_outside)
      changes.services.push_back({ns_, name});
    const std::vector<Problem> none;
    changes.problems |= (known ? known->problems : none) != (next ? next->problems : none);
    put_or_erase(states_, name, std::move(next));
  }

  // The Service's endpoints; nullopt: no such Service.
  std::optional<std::vector<Endpoint>> endpoints(const std::string& service) const {
    const ServiceState* state = find_in(states_, service);
    return state ? std::optional(state->endpoints) : std::nullopt;
  }

  bool served_outside(const std::string& service) const {
    const ServiceState* state = find_in(states_, service);
    return state && state->served_outside;
  }

  std::vector<ServiceName> services() const {
    std::vector<ServiceName> out;
    for (const auto& [name, state] : states_) out.push_back({ns_, name});
    return out;
  }

  void add_problems(std::vector<Problem>& out) const {
    for (const auto& [name, state] : states_)
      out.insert(out.end(), state.problems.begin(), state.problems.end());
  }

 private:
  std::string ns_;
  std::map<std::string, ServiceState> states_;
};

}  // namespace osm::inline v1::endpoint
