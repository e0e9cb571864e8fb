// An ObjectStore in memory, for tests of its readers. It starts empty and synced. Setters notify
// subscribers in the caller's thread before they return; a setter that changes nothing does
// nothing.
//
// For all calls: Thread: any, but setters one at a time. Blocking: no, except for the subscribers'
// callbacks.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/object_store.hpp"
#include "osm/result.hpp"
#include "osm/spec/kinds.hpp"

namespace osm::inline v1::testing {

class OSM_API MemoryObjectStore final : public ObjectStore {
 public:
  explicit MemoryObjectStore(spec::Kinds kinds = spec::mesh_kinds());
  ~MemoryObjectStore() override;

  // Adds the objects of a YAML or JSON text (`---` separates documents), or replaces those with
  // equal keys. It sends one notification for all. Their source is `path`.
  // Failure: the text of the first problem; no object is put then.
  Status put_yaml(std::string_view text, std::string_view path = "memory.yaml");
  // Adds or replaces one object, which needs no document / removes one if it exists.
  void put(Object object);
  void remove(const ObjectKey& key);

  // Set the result of has_synced() / list_problems().
  void set_synced(bool synced);
  void set_problems(std::vector<Problem> problems);

  std::vector<std::shared_ptr<const Object>> list(const GroupKind& kind) const override;
  std::shared_ptr<const Object> get(const ObjectKey& key) const override;
  bool has_synced() const override;
  std::vector<Problem> list_problems() const override;
  Subscription subscribe(
      std::function<void(const std::vector<ObjectKey>& changed)> on_change) override;

 private:
  struct State;
  void put_all(std::vector<std::shared_ptr<const Object>> objects);
  std::unique_ptr<State> state_;
};

}  // namespace osm::inline v1::testing
