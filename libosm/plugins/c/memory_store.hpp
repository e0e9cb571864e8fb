// Objects in memory that the host applies and deletes: a store, and its writer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "osm/notifier.hpp"
#include "osm/object_store.hpp"
#include "osm/spec/object_writer.hpp"

namespace osm::inline v1::c {

// Synced from the start. Its versions are numbers.
// Thread: any. A write notifies subscribers in its own thread before it returns.
class MemoryStore final : public ObjectStore, public spec::ObjectWriter {
 public:
  std::vector<std::shared_ptr<const Object>> list(const GroupKind& kind) const override;
  std::shared_ptr<const Object> get(const ObjectKey& key) const override;
  bool has_synced() const override { return true; }
  std::vector<Problem> list_problems() const override { return {}; }
  Subscription subscribe(
      std::function<void(const std::vector<ObjectKey>& changed)> on_change) override;

  Result<spec::StoredObject> read(const ObjectKey& key) override;
  // Failure: kConflict.
  Result<std::string> write(const Object& object, const std::string& expected) override;
  Status remove(const ObjectKey& key, const std::string& expected) override;

 private:
  // Puts `object`, or removes what is there if it is null.
  Status replace(const ObjectKey& key, const std::string& expected,
                 std::shared_ptr<const Object> object);

  std::mutex writing_;  // one write with its notifications at a time
  mutable std::mutex mutex_;
  std::map<ObjectKey, std::shared_ptr<const Object>> objects_;
  std::uint64_t versions_ = 0;  // under writing_
  Notifier<const std::vector<ObjectKey>&> changed_;
};

}  // namespace osm::inline v1::c
