// The CA stores of this project pass every clause, and each defect of a store fails its clause.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/base64.hpp"
#include "conformance_run.hpp"
#include "etcd/client.hpp"
#include "etcd/fake_etcd.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/upkeep/upkeep_fixture.hpp"
#include "lib/temporary_directory.hpp"
#include "osm/certificate/directory_ca.hpp"
#include "osm/testing/ca_store_conformance.hpp"

using namespace osm;
using namespace osm::testing;

namespace {

using certificate::CaStore;
using certificate::PrivateKey;

void passes(const CaStorePlatformFactory& platform, std::size_t not_applicable = 0) {
  // A busy machine needs longer than a developer's, for whom the defaults are.
  const ConformanceReport report =
      check_ca_store(platform, {.clause_deadline = std::chrono::minutes(2)});
  judge(report, ca_store_clauses(), not_applicable);
}

// A disk is always there.
class CaDirectory final : public CaStorePlatform {
 public:
  CaStoreTraits traits() const override { return {.outages = false}; }
  std::unique_ptr<CaStore> open() override {
    auto store = certificate::open_directory_ca_store(directory());
    REQUIRE_MESSAGE(store.ok(), store.error().text());
    return *std::move(store);
  }
  void put_broken(const std::string& text) override {
    namespace fs = std::filesystem;
    fs::create_directory(directory());
    fs::permissions(directory(), fs::perms::owner_all);
    const std::string file = directory() + "/ca.pem";
    std::ofstream(file) << text;
    fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  }

 private:
  std::string directory() const { return folder_.file("ca"); }

  TemporaryDirectory folder_;
};

class CaInEtcd final : public CaStorePlatform {
 public:
  std::unique_ptr<CaStore> open() override {
    auto store = etcd::make_ca_store(client_.options);
    REQUIRE_MESSAGE(store.ok(), store.error().text());
    return *std::move(store);
  }
  void put_broken(const std::string& text) override {
    const std::lock_guard lock(etcd_.keys().mutex);
    etcd_.keys().put("/osm/ca", base64(text), "");
  }
  void set_reachable(bool reachable) override {
    std::optional<net::Response> fault;
    if (!reachable) fault = etcd_test::FakeEtcd::refusal(503, 14, "etcdserver: request timed out");
    etcd_.set_fault(std::move(fault));
  }

 private:
  etcd_test::FakeEtcd etcd_;
  etcd_test::ClientOptions client_{{etcd_.url()}};
};

class CaInSecret final : public CaStorePlatform {
 public:
  std::unique_ptr<CaStore> open() override {
    return kubernetes::make_ca_store(cluster_.cluster, "osm-system", "osm-ca-bundle");
  }
  void put_broken(const std::string& text) override {
    namespace json = boost::json;
    cluster_.put(kubernetes::kSecrets,
                 {{"metadata", {{"name", "osm-ca-bundle"}, {"namespace", "osm-system"}}},
                  {"data", {{"ca.crt", base64(text)}, {"private.key", base64(text)}}}});
  }
  void set_reachable(bool reachable) override {
    cluster_.api.set_fault([reachable](const std::string&) -> Status {
      if (reachable) return {};
      return Error{ErrorCode::kUnavailable, "connection refused"};
    });
  }

 private:
  kubernetes_test::UpkeepFixture cluster_;
};

enum class Defect {
  kNone,
  kFailsWhenEmpty,
  kKeepsTheKeyOnly,
  kRemembers,
  kReplaces,
  kRefusesTheSecond,
  kLooksFirst,
  kOneThread,
  kEmptyWhenAway,
  kStoresNothing,
  kReplacesBroken,
  kShowsTheKey,
};

// A place in memory.
struct Place {
  std::mutex mutex;
  std::string pem{};
  std::atomic<bool> away{false};
  std::atomic<int> loading{0};
  std::atomic<int> creating{0};
};

class MemoryCaStore final : public CaStore {
 public:
  MemoryCaStore(Place& place, Defect defect) : place_(place), defect_(defect) {
    if (defect == Defect::kRemembers) remembered_ = place.pem;
  }
  std::string name() const override { return "memory"; }
  Result<std::optional<PrivateKey>> load() override {
    if (place_.away) {
      if (defect_ == Defect::kEmptyWhenAway) return std::optional<PrivateKey>();
      return Error{ErrorCode::kUnavailable, "memory: away"};
    }
    std::string pem;
    {
      const std::lock_guard lock(place_.mutex);
      pem = remembered_.value_or(place_.pem);
    }
    if (defect_ == Defect::kOneThread) {
      const int loading = ++place_.loading;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (place_.loading-- > 1 || loading > 1)
        return Error{ErrorCode::kInternal, "memory: in use by another thread"};
    }
    const bool is_broken = !pem.empty() && pem.find("CERTIFICATE") == std::string::npos;
    if (is_broken && defect_ == Defect::kShowsTheKey)
      return Error{ErrorCode::kInvalidCertificate, "memory: no CA: " + pem};
    if (is_broken && defect_ == Defect::kReplacesBroken) return std::optional<PrivateKey>();
    if (pem.empty() && defect_ == Defect::kFailsWhenEmpty)
      return Error{ErrorCode::kStorage, "memory: there is no CA"};
    if (pem.empty()) return std::optional<PrivateKey>();
    return std::optional<PrivateKey>(PrivateKey(std::move(pem)));
  }
  Status create(const PrivateKey& pem) override {
    if (place_.away) {
      if (defect_ == Defect::kStoresNothing) return {};
      return Error{ErrorCode::kUnavailable, "memory: away"};
    }
    std::string text = pem.pem();
    if (defect_ == Defect::kKeepsTheKeyOnly) text.resize(text.find("-----BEGIN CERTIFICATE"));
    if (defect_ == Defect::kLooksFirst) {
      {
        const std::lock_guard lock(place_.mutex);
        if (!place_.pem.empty()) return {};
      }
      // One after the other, each before the next one loads.
      std::this_thread::sleep_for(std::chrono::milliseconds(20) * ++place_.creating);
    }
    const std::lock_guard lock(place_.mutex);
    const bool replaces = defect_ == Defect::kReplaces || defect_ == Defect::kLooksFirst ||
                          defect_ == Defect::kReplacesBroken;
    if (!place_.pem.empty() && defect_ == Defect::kRefusesTheSecond)
      return Error{ErrorCode::kAlreadyExists, "memory: there is a CA"};
    if (place_.pem.empty() || replaces) place_.pem = std::move(text);
    return {};
  }

 private:
  Place& place_;
  const Defect defect_;
  std::optional<std::string> remembered_;
};

class DefectPlatform final : public CaStorePlatform {
 public:
  explicit DefectPlatform(Defect defect) : defect_(defect) {}
  std::unique_ptr<CaStore> open() override {
    return std::make_unique<MemoryCaStore>(place_, defect_);
  }
  void put_broken(const std::string& text) override { place_.pem = text; }
  void set_reachable(bool reachable) override { place_.away = !reachable; }

 private:
  Place place_;
  const Defect defect_;
};

struct Case {
  Defect defect;
  const char* clause;
  const char* seen;  // a part of it
};
const std::vector<Case> kCases{
    {Defect::kFailsWhenEmpty, "stored", "memory: there is no CA"},
    {Defect::kKeepsTheKeyOnly, "stored", "the suite"},
    {Defect::kRemembers, "shared", "no CA"},
    {Defect::kReplaces, "once", "another CA is there"},
    {Defect::kRefusesTheSecond, "once", "there is a CA"},
    {Defect::kLooksFirst, "race", "answers"},
    {Defect::kOneThread, "concurrent", "in use by another thread"},
    {Defect::kEmptyWhenAway, "outage", "no CA"},
    {Defect::kStoresNothing, "outage-at-create", "success"},
    {Defect::kReplacesBroken, "broken", "was made"},
    {Defect::kShowsTheKey, "broken", "an error with the key"},
};

}  // namespace

TEST_SUITE("check_ca_store") {
  TEST_CASE("the CA store in a directory passes") {
    passes([] { return std::make_unique<CaDirectory>(); }, 2);
  }

  TEST_CASE("the CA store in etcd passes") {
    passes([] { return std::make_unique<CaInEtcd>(); });
  }

  TEST_CASE("the CA store in a Secret passes") {
    passes([] { return std::make_unique<CaInSecret>(); });
  }

  TEST_CASE("a CA store without a defect passes") {
    passes([] { return std::make_unique<DefectPlatform>(Defect::kNone); });
  }

  TEST_CASE("a CA store with a defect fails the clause about it, and says what it saw") {
    check_defects<Case, Defect>(kCases, [](const std::string& clause, Defect defect) {
      return check_ca_store_clause(clause,
                                   [&] { return std::make_unique<DefectPlatform>(defect); });
    });
  }

  TEST_CASE("every clause has a CA store that fails it, and an unknown clause fails") {
    check_coverage(kCases, ca_store_clauses(), check_ca_store_clause("none", [] {
                     return std::make_unique<DefectPlatform>(Defect::kNone);
                   }));
  }
}
