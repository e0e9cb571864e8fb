#include "endpoint/service_states.hpp"

#include "base/maps.hpp"

namespace osm::inline v1::endpoint {

void ServiceStates::set(const std::string& name, std::optional<ServiceState> next,
                        TableChanges& changes) {
  const ServiceState* known = find_in(states_, name);
  if (next) ++changes.recomputed;
  if (!known && !next) return;
  if (!known || !next || known->endpoints != next->endpoints)
    changes.services.push_back({ns_, name});
  const std::vector<Problem> none;
  changes.problems |= (known ? known->problems : none) != (next ? next->problems : none);
  put_or_erase(states_, name, std::move(next));
}

std::optional<std::vector<Endpoint>> ServiceStates::endpoints(const std::string& service) const {
  const ServiceState* state = find_in(states_, service);
  return state ? std::optional(state->endpoints) : std::nullopt;
}

std::vector<ServiceName> ServiceStates::services() const {
  std::vector<ServiceName> out;
  for (const auto& [name, state] : states_) out.push_back({ns_, name});
  return out;
}

void ServiceStates::add_problems(std::vector<Problem>& out) const {
  for (const auto& [name, state] : states_)
    out.insert(out.end(), state.problems.begin(), state.problems.end());
}

}  // namespace osm::inline v1::endpoint
