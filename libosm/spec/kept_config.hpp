// The last valid MeshConfig, for the time when there is none: in memory and, if there are options,
// in a record that the next start and the other replicas read.
//
// Each replica may write the record. Of two configurations the newer one wins: of an API server's
// objects, that with the later creation and then the higher generation. Otherwise a configuration
// that this process has read from its store and not recorded yet wins over the recorded one.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/round.hpp"
#include "base/strand.hpp"
#include "osm/object.hpp"
#include "osm/result.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "osm/values/mesh_config.hpp"

namespace osm::inline v1::spec {

// One MeshConfig that was valid.
struct LastConfig {
  std::shared_ptr<const MeshConfig> value;
  boost::json::value spec{};  // as its author wrote it; null: there was none
  // Metadata that an API server maintains; empty and 0 in a directory.
  std::string created{};
  std::int64_t generation = 0;
  std::string applied_at{};  // RFC 3339; empty: there is no clock
};

// For all calls: Thread: any. Blocking: no, unless noted.
class KeptConfig {
 public:
  // `cluster_domain`: of the recorded MeshConfig, as in MeshSpecOptions.
  KeptConfig(ObjectKey key, std::string cluster_domain,
             const std::optional<KeptConfigOptions>& options);
  // Blocking: until a running call of the record returns.
  ~KeptConfig();

  // Begins to read and write the record; keep() and follow() may come before. `changed` is called
  // when last(), is_read() or problems() may have changed, by a task of the blocking executor and
  // without a lock.
  void start(std::function<void()> changed);
  // No calls of `changed` run or follow. Blocking: as the destructor.
  void stop();

  // The store has this valid MeshConfig.
  void keep(const Object& object, std::shared_ptr<const MeshConfig> value);
  // The store has none: the record is followed until the next keep().
  void follow();

  // Null: none was ever valid.
  std::shared_ptr<const LastConfig> last() const;
  // True if last() is all that there is: the record was read, or there is none.
  bool is_read() const;
  // Names the MeshConfig that is gone, and the remedy.
  Problem gone() const;
  // Faults of the record.
  std::vector<Problem> problems() const;

 private:
  using Last = std::shared_ptr<const LastConfig>;
  struct Guarded {
    Last last;
    bool read = false;     // the record, and it was valid or empty
    bool unsaved = false;  // `last` comes from the store, and the record does not have it yet
    bool following = false;
    bool started = false;
    std::optional<Problem> problem;  // of the record
  };

  void look_soon();  // the caller holds mutex_
  Pause synchronize();
  void take(const Result<Last>& recorded);  // the caller holds mutex_
  Pause rest() const;                       // the caller holds mutex_
  Result<Last> parse(const std::string& text) const;
  std::string text_of(const LastConfig& config) const;

  const ObjectKey key_;
  const std::string cluster_domain_;
  const std::optional<KeptConfigOptions> options_;
  std::function<void()> changed_;
  mutable std::mutex mutex_;
  Guarded state_;  // guarded by mutex_
  std::optional<Strand> strand_;
  std::optional<Round> round_;
};

}  // namespace osm::inline v1::spec
