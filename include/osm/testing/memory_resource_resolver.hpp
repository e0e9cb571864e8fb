// A ResourceResolver in memory, for tests of its readers. It starts without answers, synced and
// healthy. Setters notify subscribers in the caller's thread before they return; a setter that
// changes nothing does nothing.
//
// For all calls: Thread: any, but setters one at a time. Blocking: no, except for the subscribers'
// callbacks.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/providers/resource_resolver.hpp"

namespace osm::inline v1::testing {

class OSM_API MemoryResourceResolver final : public ResourceResolver {
 public:
  explicit MemoryResourceResolver(std::string id = "memory");
  ~MemoryResourceResolver() override;

  // Sets the answer for a resource, followed or not; nullopt: there is none.
  void set(const std::string& id, std::optional<Resolution> resolution);
  // Set the result of has_synced() / healthy() / list_problems().
  void set_synced(bool synced);
  void set_healthy(bool healthy);
  void set_problems(std::vector<ResourceProblem> problems);
  // The ids of the last follow().
  std::set<std::string> followed() const;

  std::string id() const override;
  void follow(std::set<std::string> ids) override;
  std::optional<Resolution> find(const std::string& id) const override;
  bool has_synced() const override;
  bool healthy() const override;
  std::vector<ResourceProblem> list_problems() const override;
  Subscription subscribe(std::function<void(const std::set<std::string>& ids)> on_change) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace osm::inline v1::testing
