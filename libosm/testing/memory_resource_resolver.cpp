#include "osm/testing/memory_resource_resolver.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "base/maps.hpp"
#include "osm/notifier.hpp"

namespace osm::inline v1::testing {

struct MemoryResourceResolver::State {
  mutable std::mutex mutex;
  std::string id;
  std::set<std::string> followed;
  std::map<std::string, Resolution> answers;
  std::vector<ResourceProblem> problems;
  bool synced = true;
  bool healthy = true;
  Notifier<const std::set<std::string>&> changed;

  void set(bool& member, bool value) {
    {
      const std::lock_guard lock(mutex);
      if (std::exchange(member, value) == value) return;
    }
    changed.notify({});
  }
};

MemoryResourceResolver::MemoryResourceResolver(std::string id) : state_(std::make_unique<State>()) {
  state_->id = std::move(id);
}
MemoryResourceResolver::~MemoryResourceResolver() = default;

void MemoryResourceResolver::set(const std::string& id, std::optional<Resolution> resolution) {
  {
    const std::lock_guard lock(state_->mutex);
    if (!put_or_erase(state_->answers, id, std::move(resolution)) || !state_->followed.contains(id))
      return;
  }
  state_->changed.notify({id});
}

void MemoryResourceResolver::set_synced(bool synced) { state_->set(state_->synced, synced); }
void MemoryResourceResolver::set_healthy(bool healthy) { state_->set(state_->healthy, healthy); }

void MemoryResourceResolver::set_problems(std::vector<ResourceProblem> problems) {
  std::set<std::string> ids;
  {
    const std::lock_guard lock(state_->mutex);
    if (problems == state_->problems) return;
    for (const ResourceProblem& problem : problems) ids.insert(problem.id);
    for (const ResourceProblem& problem : state_->problems) ids.insert(problem.id);
    ids.erase("");
    state_->problems = std::move(problems);
  }
  state_->changed.notify(ids);
}

std::set<std::string> MemoryResourceResolver::followed() const {
  const std::lock_guard lock(state_->mutex);
  return state_->followed;
}

std::string MemoryResourceResolver::id() const { return state_->id; }

void MemoryResourceResolver::follow(std::set<std::string> ids) {
  const std::lock_guard lock(state_->mutex);
  state_->followed = std::move(ids);
}

std::optional<Resolution> MemoryResourceResolver::find(const std::string& id) const {
  const std::lock_guard lock(state_->mutex);
  const Resolution* answer = state_->followed.contains(id) ? find_in(state_->answers, id) : nullptr;
  return answer ? std::optional(*answer) : std::nullopt;
}

bool MemoryResourceResolver::has_synced() const {
  const std::lock_guard lock(state_->mutex);
  return state_->synced;
}

bool MemoryResourceResolver::healthy() const {
  const std::lock_guard lock(state_->mutex);
  return state_->healthy;
}

std::vector<ResourceProblem> MemoryResourceResolver::list_problems() const {
  const std::lock_guard lock(state_->mutex);
  return state_->problems;
}

Subscription MemoryResourceResolver::subscribe(
    std::function<void(const std::set<std::string>& ids)> on_change) {
  return state_->changed.subscribe(std::move(on_change));
}

}  // namespace osm::inline v1::testing
