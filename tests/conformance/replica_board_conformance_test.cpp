// The boards of this project pass every clause, and each defect of a board fails its clause.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/board_text.hpp"
#include "base/maps.hpp"
#include "base/stands.hpp"
#include "base/strand.hpp"
#include "conformance_run.hpp"
#include "etcd/client.hpp"
#include "etcd/fake_etcd.hpp"
#include "kubernetes/upkeep/upkeep_fixture.hpp"
#include "osm/etcd/backend.hpp"
#include "osm/kubernetes/upkeep.hpp"
#include "osm/notifier.hpp"
#include "osm/testing/replica_board_conformance.hpp"

using namespace osm;
using namespace osm::testing;

namespace {

using std::chrono::seconds;

void passes(const ReplicaBoardPlatformFactory& platform, std::size_t not_applicable = 0) {
  // A busy machine needs longer than a developer's, for whom the defaults are.
  const ConformanceReport report =
      check_replica_board(platform, {.clause_deadline = std::chrono::minutes(2)});
  judge(report, replica_board_clauses(), not_applicable);
}

// One controller, which is always alone.
class Alone final : public ReplicaBoardPlatform {
 public:
  ReplicaBoardTraits traits() const override { return {.several = false, .outages = false}; }
  std::unique_ptr<ReplicaBoard> join(const std::string& replica, const Runtime& runtime) override {
    return make_local_board(replica, runtime.executor);
  }
};

class BoardInEtcd final : public ReplicaBoardPlatform {
 public:
  explicit BoardInEtcd(std::string objects_key) : objects_key_(std::move(objects_key)) {}
  std::unique_ptr<ReplicaBoard> join(const std::string& replica, const Runtime& runtime) override {
    {
      const std::lock_guard lock(etcd_.keys().mutex);
      etcd_.keys().now = [&clock = runtime.clock] { return clock.steady_now(); };
    }
    const auto backend = etcd::make_backend({.etcd = client_.options,
                                             .objects_key = objects_key_,
                                             .objects = runtime,
                                             .board = runtime,
                                             .replica = replica});
    REQUIRE_MESSAGE(backend.ok(), backend.error().text());
    auto board = backend->join();
    REQUIRE_MESSAGE(board.ok(), board.error().text());
    return *std::move(board);
  }
  void set_reachable(bool reachable) override {
    std::optional<net::Response> fault;
    if (!reachable) fault = etcd_test::FakeEtcd::refusal(503, 14, "etcdserver: request timed out");
    etcd_.set_fault(std::move(fault));
  }

 private:
  const std::string objects_key_;
  etcd_test::FakeEtcd etcd_;
  etcd_test::ClientOptions client_{{etcd_.url()}};
};

class BoardOfLeases final : public ReplicaBoardPlatform {
 public:
  std::unique_ptr<ReplicaBoard> join(const std::string& replica, const Runtime& runtime) override {
    if (!cluster_) cluster_ = std::make_unique<kubernetes_test::MemoryApiCluster>(runtime.clock);
    auto board = kubernetes::make_replica_board(
        {.cluster = *cluster_, .runtime = runtime, .replica = replica});
    REQUIRE_MESSAGE(board.ok(), board.error().text());
    return *std::move(board);
  }
  void set_reachable(bool reachable) override {
    cluster_->memory.set_fault([reachable](const std::string&) -> Status {
      if (reachable) return {};
      return Error{ErrorCode::kUnavailable, "connection refused"};
    });
  }

 private:
  std::unique_ptr<kubernetes_test::MemoryApiCluster> cluster_;
};

enum class Defect {
  kNone,
  kForgetsItself,
  kReadsLate,
  kTakesLongTexts,
  kHidesOthers,
  kSilent,
  kCallsLate,
  kAlwaysLeads,
  kBeginsTwice,
  kResignsLate,
  kTwoLead,
  kNeverFollows,
  kStays,
  kLeadsFrozen,
  kKnowsInAnOutage,
};

// Boards in memory, like those of etcd. One thread calls them.
struct Boards {
  struct Member {
    std::map<std::string, std::string> topics{};
    SteadyTime renewed{};
    int standing = 0;  // 0: it does not stand; else the oldest leads
  };
  std::map<std::string, Member> members{};
  int stood = 0;
  bool away = false;
};

class MemoryBoard final : public ReplicaBoard {
 public:
  MemoryBoard(Boards& boards, std::string replica, const Runtime& runtime, Defect defect)
      : boards_(boards),
        replica_(std::move(replica)),
        clock_(runtime.clock),
        defect_(defect),
        strand_(runtime.executor),
        stands_(
            strand_, [this] { return leads(); },
            [this] { strand_.post([this] { take_turn(); }); }) {
    strand_.post([this] { take_turn(); });
  }
  ~MemoryBoard() override {
    strand_.stop();
    if (!boards_.away && defect_ != Defect::kStays) boards_.members.erase(replica_);
  }

  Status publish(const std::string& topic, std::string text) override {
    if (defect_ == Defect::kTakesLongTexts) {
      ours_[topic] = std::move(text);
      return {};
    }
    OSM_TRY(const bool differs, set_board_text(ours_, topic, std::move(text)));
    static_cast<void>(differs);
    return {};
  }
  Result<std::map<std::string, std::string>> read(const std::string& topic) const override {
    if (clock_.steady_now() >= known_until_ && defect_ != Defect::kKnowsInAnOutage)
      return Error{ErrorCode::kUnavailable, "memory: away"};
    std::map<std::string, std::string> all;
    if (defect_ != Defect::kHidesOthers)
      for (const auto& [replica, topics] : seen_) all[replica] = value_in(topics, topic);
    if (defect_ != Defect::kReadsLate) all[replica_] = value_in(ours_, topic);
    if (defect_ == Defect::kForgetsItself) all.erase(replica_);
    return all;
  }
  Subscription subscribe(std::function<void()> on_change) override {
    if (defect_ == Defect::kCallsLate) late_.push_back(on_change);
    return changed_.subscribe(std::move(on_change));
  }
  bool leads() const override {
    if (defect_ == Defect::kAlwaysLeads) return true;
    const bool known = clock_.steady_now() < known_until_ || defect_ == Defect::kLeadsFrozen;
    return (stands_.any() || defect_ == Defect::kResignsLate) && oldest_ && known;
  }
  Subscription stand(std::function<void()> on_begin) override {
    return stands_.add(std::move(on_begin));
  }

 private:
  void take_turn() {
    if (!boards_.away) look();
    const bool leading = leads();
    if (leading && (!begun_ || defect_ == Defect::kBeginsTwice)) stands_.begin();
    begun_ = leading;
    timer_ = strand_.post_after(seconds(1), [this] { take_turn(); });
  }
  void look() {
    const SteadyTime now = clock_.steady_now();
    Boards::Member& own = boards_.members[replica_];
    own.topics = ours_;
    own.renewed = now;
    if (!stands_.any() && defect_ != Defect::kNeverFollows)
      own.standing = 0;
    else if (stands_.any() && own.standing == 0)
      own.standing = ++boards_.stood;
    std::erase_if(boards_.members,
                  [&](const auto& entry) { return now - entry.second.renewed >= seconds(15); });
    oldest_ = own.standing != 0;
    std::map<std::string, std::map<std::string, std::string>> seen;
    for (const auto& [replica, member] : boards_.members) {
      seen[replica] = member.topics;
      if (member.standing != 0 && member.standing < own.standing && defect_ != Defect::kTwoLead)
        oldest_ = false;
    }
    known_until_ = now + seconds(10);
    if (std::exchange(seen_, seen) == seen) return;
    if (defect_ != Defect::kSilent) changed_.notify();
    for (const auto& callback : late_) callback();
  }

  Boards& boards_;
  const std::string replica_;
  const Clock& clock_;
  const Defect defect_;
  std::map<std::string, std::string> ours_;
  std::map<std::string, std::map<std::string, std::string>> seen_;
  SteadyTime known_until_{};
  bool oldest_ = false;
  bool begun_ = false;
  Notifier<> changed_;
  std::vector<std::function<void()>> late_;
  Strand strand_;
  Stands stands_;
  Subscription timer_;
};

class DefectPlatform final : public ReplicaBoardPlatform {
 public:
  explicit DefectPlatform(Defect defect) : defect_(defect) {}
  std::unique_ptr<ReplicaBoard> join(const std::string& replica, const Runtime& runtime) override {
    return std::make_unique<MemoryBoard>(boards_, replica, runtime, defect_);
  }
  void set_reachable(bool reachable) override { boards_.away = !reachable; }

 private:
  Boards boards_;
  const Defect defect_;
};

struct Case {
  Defect defect;
  const char* clause;
  const char* seen;  // a part of it
};
const std::vector<Case> kCases{
    {Defect::kForgetsItself, "itself", "nobody"},
    {Defect::kReadsLate, "itself", "a: ''"},
    {Defect::kTakesLongTexts, "limits", "100001 bytes was taken"},
    {Defect::kHidesOthers, "others", "b: ''"},
    {Defect::kSilent, "events", "nothing about its own text"},
    {Defect::kCallsLate, "events", "one was called"},
    {Defect::kAlwaysLeads, "stands", "it leads"},
    {Defect::kBeginsTwice, "stands", "calls"},
    {Defect::kResignsLate, "stands", "it leads"},
    {Defect::kTwoLead, "one-leader", "two led"},
    {Defect::kNeverFollows, "one-leader", "0 calls"},
    {Defect::kStays, "leaves", "b: ''"},
    {Defect::kLeadsFrozen, "frozen", "two led"},
    {Defect::kLeadsFrozen, "outage", "it leads"},
    {Defect::kKnowsInAnOutage, "outage", "a: ''"},
};

}  // namespace

TEST_SUITE("check_replica_board") {
  TEST_CASE("the board of a controller that is alone passes") {
    passes([] { return std::make_unique<Alone>(); }, 5);
  }

  TEST_CASE("the board in etcd passes, with a mesh in etcd and without") {
    for (const char* objects_key : {"/osm", ""})
      passes([=] { return std::make_unique<BoardInEtcd>(objects_key); });
  }

  TEST_CASE("the board of Leases passes") {
    passes([] { return std::make_unique<BoardOfLeases>(); });
  }

  TEST_CASE("a board without a defect passes") {
    passes([] { return std::make_unique<DefectPlatform>(Defect::kNone); });
  }

  TEST_CASE("a board with a defect fails the clause about it, and says what it saw") {
    check_defects<Case, Defect>(kCases, [](const std::string& clause, Defect defect) {
      return check_replica_board_clause(clause,
                                        [&] { return std::make_unique<DefectPlatform>(defect); });
    });
  }

  TEST_CASE("every clause has a board that fails it, and an unknown clause fails") {
    check_coverage(kCases, replica_board_clauses(), check_replica_board_clause("none", [] {
                     return std::make_unique<DefectPlatform>(Defect::kNone);
                   }));
  }
}
