// Keeps a FirstSeen in a TextRecord, which may be slow or away: everything that waits for it runs
// on the blocking executor.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "base/strand.hpp"
#include "osm/log.hpp"
#include "osm/object.hpp"
#include "osm/result.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/runtime/text_record.hpp"
#include "osm/subscription.hpp"
#include "spec/first_seen.hpp"

namespace osm::inline v1::spec {

// For all calls: Thread: any. Blocking: no, unless noted.
class FirstSeenRecord {
 public:
  // `on_news` is called when problem() has changed, by a task of runtime.blocking. Lifetime:
  // `record` and all of `runtime` outlive this.
  FirstSeenRecord(TextRecord& record, const Runtime& runtime, std::function<void()> on_news);

  // Calls `loaded` once the record could be read, by a task of runtime.blocking. A damaged record
  // is logged and counts as empty.
  void load(std::function<void(const FirstSeen& seen)> loaded);
  // Writes the text soon, and again after a failure. A newer text takes the place of one that
  // waits.
  void save(std::string text);
  // No task runs or follows. Blocking: until a running call of the record returns.
  void stop() { strand_.stop(); }

  // The fault of the last call; nullopt: there was none.
  std::optional<Problem> problem() const;

 private:
  void write();
  void report(const Status& done);

  TextRecord& record_;
  LogSink& log_;
  const std::function<void()> on_news_;
  mutable std::mutex mutex_;
  std::optional<Problem> problem_;  // guarded by mutex_
  std::string recorded_;            // this and the rest: of the strand
  std::string unsaved_;
  Strand strand_;
  Subscription timer_;
};

}  // namespace osm::inline v1::spec
