#include "osm/spec/published_spec.hpp"

#include <algorithm>
#include <utility>

#include "base/snapshot_cell.hpp"
#include "model/spec_tables.hpp"
#include "osm/notifier.hpp"

namespace osm::inline v1::spec {
namespace {

// `after` with the pointers of `before` for equal values; `before` if all are equal.
template <class T>
Table<T> sharing(const Table<T>& before, const Table<T>& after) {
  SharedList<T> list = after.list();
  auto old = before.begin();
  for (auto& entry : list) {
    while (old != before.end() && *old != entry && key_in_table(**old) < key_in_table(*entry))
      ++old;
    if (old == before.end()) break;
    if (*old != entry && **old == *entry) entry = *old;
  }
  return list == before.list() ? before : Table<T>::sorted(std::move(list));
}

}  // namespace

struct PublishedSpec::State {
  SnapshotCell<SpecSnapshot> snapshot;
  SnapshotCell<std::vector<Problem>> problems;
  Notifier<const SpecChange&> changed;
};

PublishedSpec::PublishedSpec() : state_(std::make_unique<State>()) {
  state_->snapshot.publish(std::make_shared<const SpecSnapshot>());
  state_->problems.publish(std::make_shared<const std::vector<Problem>>());
}

PublishedSpec::~PublishedSpec() = default;

void PublishedSpec::publish(SpecSnapshot next, std::vector<Problem> problems) {
  const auto before = snapshot();
  std::sort(next.namespaces.begin(), next.namespaces.end());
  next.namespaces.erase(std::unique(next.namespaces.begin(), next.namespaces.end()),
                        next.namespaces.end());
  model::for_each_table([&](auto table) {
    if (&(next.*table).list() != &((*before).*table).list())
      next.*table = sharing((*before).*table, next.*table);
  });
  if (model::same(before->config, next.config)) next.config = before->config;
  SpecChange change{std::make_shared<const SpecSnapshot>(std::move(next)), {}, false};
  change.keys = model::differing(*before, *change.snapshot);
  change.problems = *state_->problems.load() != problems;
  if (change.keys.empty() && !change.problems && before->synced == change.snapshot->synced) return;
  // First: who sees a state finds its problems at least as new.
  state_->problems.publish(std::make_shared<const std::vector<Problem>>(std::move(problems)));
  state_->snapshot.publish(change.snapshot);
  state_->changed.notify(change);
}

std::shared_ptr<const SpecSnapshot> PublishedSpec::snapshot() const {
  return state_->snapshot.load();
}

std::vector<Problem> PublishedSpec::list_problems() const {
  const auto problems = state_->problems.load();
  return *problems;
}

Subscription PublishedSpec::subscribe(std::function<void(const SpecChange& change)> on_change) {
  return state_->changed.subscribe(std::move(on_change));
}

}  // namespace osm::inline v1::spec
