// The stores of this project pass every clause, and each defect of a store fails its clause.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <boost/json/value.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "conformance_run.hpp"
#include "lib/growing_time.hpp"
#include "osm/notifier.hpp"
#include "store_platforms.hpp"

using namespace osm;
using namespace osm::testing;

namespace {

void passes(const StorePlatformFactory& platform, std::size_t not_applicable = 0) {
  const auto begun = std::chrono::steady_clock::now();
  // A busy machine needs longer than a developer's, for whom the defaults are.
  const ConformanceReport report = check_store(
      platform, {.deadline = std::chrono::seconds(20), .call_limit = std::chrono::seconds(10)});
  const auto took = std::chrono::steady_clock::now() - begun;
  judge(report, store_clauses(), not_applicable);
  MESSAGE(std::chrono::duration_cast<std::chrono::milliseconds>(took).count() << " ms\n"
                                                                              << report.text());
}

enum class Defect {
  kNone,
  kNeverSyncs,
  kSyncsEarly,
  kUnordered,
  kTwoPointers,
  kSilent,
  kAnnouncesFirst,
  kNewPointers,
  kEdits,
  kNeverCatchesUp,
  kCallsLate,
  kForgets,
  kQuietOutage,
  kBlocks,
  kDropsBroken,
};

// A store in memory with a defect: its platform is the part that writes.
class MemoryStore final : public ObjectStore {
 public:
  MemoryStore(Defect defect, std::chrono::milliseconds blocked)
      : defect_(defect), blocked_(blocked) {}

  std::vector<std::shared_ptr<const Object>> list(const GroupKind& kind) const override {
    if (defect_ == Defect::kBlocks && away_) std::this_thread::sleep_for(blocked_);
    std::vector<std::shared_ptr<const Object>> out;
    const std::lock_guard lock(mutex_);
    for (const auto& [key, object] : shown_)
      if (key.is(kind)) out.push_back(object);
    if (defect_ == Defect::kUnordered) std::ranges::reverse(out);
    return out;
  }
  std::shared_ptr<const Object> get(const ObjectKey& key) const override {
    const std::lock_guard lock(mutex_);
    const auto at = shown_.find(key);
    if (at == shown_.end()) return nullptr;
    if (defect_ == Defect::kTwoPointers) return std::make_shared<Object>(*at->second);
    return at->second;
  }
  bool has_synced() const override {
    return defect_ != Defect::kNeverSyncs && (synced_ || defect_ == Defect::kSyncsEarly);
  }
  bool catch_up(const ObjectKey&, std::chrono::milliseconds timeout) override {
    if (defect_ == Defect::kNeverCatchesUp) return true;
    if (away_) return false;
    const auto done = std::make_shared<std::promise<void>>();
    executor_->post([this, done] {
      look();
      done->set_value();
    });
    return done->get_future().wait_for(timeout) == std::future_status::ready;
  }
  std::vector<Problem> list_problems() const override {
    const std::lock_guard lock(mutex_);
    std::vector<Problem> problems;
    if (away_ && defect_ != Defect::kQuietOutage)
      problems.push_back({.code = ErrorCode::kUnavailable,
                          .object = {},
                          .path = "memory",
                          .field = {},
                          .cause = "away"});
    for (const ObjectKey& key : broken_)
      problems.push_back({.code = ErrorCode::kInvalidSyntax,
                          .object = {},
                          .path = key.name,
                          .field = {},
                          .cause = "no object"});
    return problems;
  }
  Subscription subscribe(std::function<void(const std::vector<ObjectKey>&)> on_change) override {
    if (defect_ == Defect::kCallsLate) late_.push_back(on_change);
    return notifier_.subscribe(std::move(on_change));
  }

  // The source, and a look at it.
  std::map<ObjectKey, Object> source;
  std::set<ObjectKey> broken_in_source;
  void start(Executor& executor) { executor_ = &executor; }
  void set_away(bool away) { away_ = away; }
  void look() {
    if (away_) {
      if (defect_ == Defect::kForgets) show({});
      return;
    }
    auto next = source;
    if (defect_ != Defect::kDropsBroken)
      for (const ObjectKey& key : broken_in_source)
        if (const auto known = get(key)) next[key] = *known;
    {
      const std::lock_guard lock(mutex_);
      broken_ = broken_in_source;
    }
    const bool syncs = !synced_ && (broken_in_source.empty() || defect_ == Defect::kDropsBroken);
    if (syncs && defect_ != Defect::kSyncsEarly) pending_sync_ = true;
    show(next);
    if (std::exchange(pending_sync_, false) || syncs) {
      synced_ = true;
      tell({});
    }
  }

 private:
  void show(const std::map<ObjectKey, Object>& next) {
    std::vector<ObjectKey> changed;
    std::map<ObjectKey, std::shared_ptr<const Object>> shown;
    for (const auto& [key, object] : next) {
      const auto at = shown_.find(key);
      const bool same = at != shown_.end() && *at->second->document == *object.document;
      if (!same) changed.push_back(key);
      if (same && defect_ != Defect::kNewPointers)
        shown[key] = at->second;
      else if (!same && at != shown_.end() && defect_ == Defect::kEdits)
        *std::const_pointer_cast<Object>(shown[key] = at->second) = object;
      else
        shown[key] = std::make_shared<Object>(object);
    }
    for (const auto& [key, object] : shown_)
      if (!next.contains(key)) changed.push_back(key);
    if (changed.empty() && defect_ != Defect::kNewPointers) return;
    std::ranges::sort(changed);
    if (defect_ == Defect::kAnnouncesFirst) tell(changed);
    {
      const std::lock_guard lock(mutex_);
      shown_ = std::move(shown);
    }
    if (defect_ != Defect::kAnnouncesFirst && defect_ != Defect::kSilent && !changed.empty())
      tell(changed);
  }
  void tell(const std::vector<ObjectKey>& keys) {
    notifier_.notify(keys);
    for (const auto& callback : late_) callback(keys);
  }

  const Defect defect_;
  const std::chrono::milliseconds blocked_;
  Executor* executor_ = nullptr;
  std::atomic<bool> away_{false};
  std::atomic<bool> synced_{false};
  bool pending_sync_ = false;
  mutable std::mutex mutex_;
  std::map<ObjectKey, std::shared_ptr<const Object>> shown_;
  std::set<ObjectKey> broken_;
  Notifier<const std::vector<ObjectKey>&> notifier_;
  std::vector<std::function<void(const std::vector<ObjectKey>&)>> late_;
};

class DefectPlatform final : public StorePlatform {
 public:
  explicit DefectPlatform(Defect defect, std::chrono::milliseconds blocked = {})
      : store_(std::make_unique<MemoryStore>(defect, blocked)) {
    memory_ = store_.get();
  }
  std::unique_ptr<ObjectStore> start(const Runtime& runtime) override {
    executor_ = &runtime.executor;
    memory_->start(runtime.executor);
    return std::move(store_);
  }
  void put(const Object& object) override {
    Object placed = object;
    placed.source.path = "memory";
    memory_->source[object.key] = std::move(placed);
    memory_->broken_in_source.erase(object.key);
  }
  void put_broken(const ObjectKey& key) override {
    memory_->source.erase(key);
    memory_->broken_in_source.insert(key);
  }
  void remove(const ObjectKey& key) override { memory_->source.erase(key); }
  void set_reachable(bool reachable) override { memory_->set_away(!reachable); }
  void pump() override {
    if (executor_) executor_->post([this] { memory_->look(); });
  }

 private:
  std::unique_ptr<MemoryStore> store_;
  MemoryStore* memory_ = nullptr;
  Executor* executor_ = nullptr;
};

struct Case {
  Defect defect;
  const char* clause;
  const char* seen;  // a part of it
};
const std::vector<Case> kCases{
    {Defect::kNeverSyncs, "synced", "it was false until the deadline"},
    {Defect::kSyncsEarly, "synced", "it was true with nothing"},
    {Defect::kUnordered, "order", "shop/c shop/b"},
    {Defect::kTwoPointers, "get-is-list", "two pointers"},
    {Defect::kSilent, "events", "nothing"},
    {Defect::kAnnouncesFirst, "events", "a subscriber read the state before"},
    {Defect::kNewPointers, "same-pointer", "another pointer"},
    {Defect::kEdits, "immutable", "it shows /new"},
    {Defect::kNeverCatchesUp, "catch-up", ""},  // an old version, or one that is gone
    {Defect::kCallsLate, "unsubscribe", "one was called"},
    {Defect::kForgets, "lost", "0 objects are left"},
    {Defect::kQuietOutage, "lost", "no problem until the deadline"},
    {Defect::kNeverCatchesUp, "catch-up-fails", "it was true"},
    {Defect::kBlocks, "never-blocks", "did not return in time"},
    {Defect::kDropsBroken, "broken", "it is gone"},
    {Defect::kDropsBroken, "broken-at-start", "has_synced() is true"},
    {Defect::kSyncsEarly, "not-synced", "has_synced() is true"},
    {Defect::kNewPointers, "recovers", "another pointer"},
    {Defect::kNeverSyncs, "empty", "it was false until the deadline"},
};

}  // namespace

TEST_SUITE("check_store") {
  TEST_CASE("the directory store passes") {
    passes([] { return std::make_unique<store_platform::Directory>(); });
  }

  TEST_CASE("the Kubernetes store passes") {
    passes([] { return std::make_unique<store_platform::Kubernetes>(); }, 2);
  }

  TEST_CASE("the etcd store passes") {
    passes([] { return std::make_unique<store_platform::Etcd>(); });
  }

  TEST_CASE("a store without a defect passes") {
    passes([] { return std::make_unique<DefectPlatform>(Defect::kNone); });
  }

  TEST_CASE("a store with a defect fails the clause about it, and says what it saw") {
    for (const Case& each : kCases) {
      CAPTURE(each.clause);
      ConformanceResult result;
      const bool failed =
          with_growing_time(std::chrono::milliseconds(200), [&](std::chrono::milliseconds time) {
            const StoreConformanceOptions quick{.deadline = time, .call_limit = time};
            result = check_store_clause(
                each.clause,
                [&] { return std::make_unique<DefectPlatform>(each.defect, 3 * time); }, quick);
            return result.outcome == ConformanceOutcome::kFailed &&
                   result.seen.find(each.seen) != std::string::npos;
          });
      CHECK_MESSAGE(failed, result.seen);
    }
  }

  TEST_CASE("every clause has a store that fails it, and an unknown clause fails") {
    check_coverage(kCases, store_clauses(), check_store_clause("none", [] {
                     return std::make_unique<DefectPlatform>(Defect::kNone);
                   }));
  }
}
