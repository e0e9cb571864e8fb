// An ObjectStore in memory, for tests of what reads one. Starts empty and synced. Setters notify
// subscribers in the caller's thread before they return, and do nothing when they change nothing.
//
// All calls: Thread: any, but setters one at a time. Blocking: no (but for the subscribers').
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/object_store.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::testing {

class OSM_API MemoryObjectStore final : public ObjectStore {
 public:
  MemoryObjectStore();
  ~MemoryObjectStore() override;

  // Adds the objects of a YAML or JSON text (several documents are separated by `---`), or puts
  // them in place of those with their keys: one notification for all. Their source is `path`.
  // Failure: the text of the first problem; nothing is put then.
  Status put_yaml(std::string_view text, std::string_view path = "memory.yaml");
  // Adds one object / takes it away, if it is there.
  void put(Object object);
  void remove(const ObjectKey& key);

  // All: what has_synced() and list_problems() say from now on.
  void set_synced(bool synced);
  void set_problems(std::vector<Problem> problems);

  std::vector<std::shared_ptr<const Object>> list(std::string_view kind) const override;
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
