// Objects in etcd are listed, watched and kept over outages, compactions, lagging members and
// restores.
#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "etcd/client.hpp"
#include "etcd/fake_etcd.hpp"
#include "osm/ids.hpp"
#include "osm/spec/etcd_store.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

using namespace osm;

namespace {

using etcd_test::contains;
using etcd_test::FakeEtcd;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Names = std::vector<std::string>;

struct SmallestRng final : Rng {
  std::uint64_t next() override { return 0; }
};

std::string route(const std::string& name, const std::string& path = "/") {
  return R"({"apiVersion":"specs.smi-spec.io/v1alpha4","kind":"HTTPRouteGroup","metadata":{"name":")" +
         name + R"(","namespace":"shop"},"spec":{"matches":[{"name":"all","pathRegex":")" + path +
         R"("}]}})";
}

const std::string kBelow = "/osm/objects/specs.smi-spec.io/HTTPRouteGroup/shop/";

// Two members of one etcd, and a store over both. Time stands still, but for what is asked to pass.
struct Fixture {
  explicit Fixture(std::vector<std::string> endpoints = {}) {
    client.options.endpoints = endpoints.empty() ? Names{a.url(), b.url()} : std::move(endpoints);
    client.options.key = "/osm";
    client.options.deadline = seconds(20);
  }
  void start() {
    auto made = etcd::make_object_store(
        {.etcd = client.options, .runtime = {executor, executor, clock, rng, log, metrics}});
    REQUIRE_MESSAGE(made.ok(), made.error().text());
    store = *std::move(made);
    told_by = store->subscribe([this](const auto& changed) {
      ++calls;
      for (const ObjectKey& key : changed) {
        told.push_back(key.name);
        // A key is announced after its state can be read.
        seen.push_back(store->get(key) ? "there" : "gone");
      }
    });
  }
  void start_synced() {
    start();
    wait("it syncs", [&] { return store->has_synced() && opened() > 0; });
    told.clear();
    seen.clear();
  }
  int opened() const { return a.watches_opened() + b.watches_opened(); }
  // The tasks run until `condition`, and time stands still.
  void wait(const char* what, const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + seconds(20);
    while (!condition()) {
      REQUIRE_MESSAGE(std::chrono::steady_clock::now() < end, std::string(what));
      executor.run_until_idle();
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  // The same, and time passes.
  void pass_until(const char* what, const std::function<bool()>& condition) {
    wait(what, [&] {
      clock.advance(milliseconds(50));
      return condition();
    });
  }
  void put(const std::string& name, const std::string& text) {
    const std::lock_guard lock(keys->mutex);
    keys->put(kBelow + name, base64(text), "");
  }
  void put(const std::string& name) { put(name, route(name)); }
  void remove(const std::string& name) {
    const std::lock_guard lock(keys->mutex);
    keys->remove(kBelow + name);
  }
  Names names() const {
    Names out;
    for (const auto& object : store->list(kinds::kHttpRouteGroup)) out.push_back(object->key.name);
    return out;
  }
  bool lists(const Names& expected) { return names() == expected; }
  double restarts(const char* reason) const {
    return metrics.value("osm_etcd_watch_restarts_total", {{"reason", reason}});
  }
  double listed() const { return metrics.value("osm_etcd_watch_lists_total"); }
  bool catch_up(const std::string& name, milliseconds timeout) {
    auto done = std::async(std::launch::async, [&] {
      return store->catch_up({kinds::kHttpRouteGroup, "shop", name}, timeout);
    });
    while (done.wait_for(milliseconds(1)) != std::future_status::ready) executor.run_until_idle();
    return done.get();
  }

  std::shared_ptr<etcd_test::Keys> keys = std::make_shared<etcd_test::Keys>();
  FakeEtcd a{keys};
  FakeEtcd b{keys};
  testing::ManualClock clock;
  testing::ManualExecutor executor{clock};
  SmallestRng rng;
  testing::CapturingLog log;
  testing::CapturingMetrics metrics;
  etcd_test::ClientOptions client{{}};
  std::unique_ptr<ObjectStore> store;
  int calls = 0;
  Names told;
  Names seen;
  Subscription told_by;
};

TEST_SUITE("etcd::make_object_store") {
  TEST_CASE("objects are listed by kind, namespace and name, and announced when they change") {
    Fixture f;
    f.put("b");
    f.put("a");
    f.start_synced();
    CHECK(f.lists({"a", "b"}));
    const auto kept = f.store->get({kinds::kHttpRouteGroup, "shop", "a"});
    REQUIRE(kept);
    CHECK(kept->resource_version == "3");
    CHECK(kept->source.path == "etcd:" + kBelow + "a");
    f.put("c");
    f.put("a");  // the same content again
    f.remove("b");
    f.wait("the changes", [&] { return f.lists({"a", "c"}); });
    CHECK(f.told == Names{"c", "b"});
    CHECK(f.seen == Names{"there", "gone"});
    CHECK(f.store->get(kept->key) == kept);
    CHECK(f.listed() == 1);
    CHECK(f.store->list_problems().empty());
  }

  TEST_CASE("an object's age is its create revision, which an edit keeps and a removal does not") {
    Fixture f;
    f.put("b");
    f.put("a");
    f.start_synced();
    const auto created = [&](const char* name) {
      return f.store->get({kinds::kHttpRouteGroup, "shop", name})->created.order;
    };
    CHECK(created("b") == 2);
    CHECK(created("a") == 3);
    f.put("b", route("b", "/other"));
    f.put("c");
    f.wait("an edit", [&] { return f.lists({"a", "b", "c"}); });
    CHECK(created("b") == 2);
    f.remove("a");
    f.put("a");  // the same content
    f.wait("the new object", [&] { return f.lists({"a", "b", "c"}) && created("a") == 7; });
  }

  TEST_CASE("more objects than a page holds are read at one revision") {
    Fixture f;
    Names all;
    for (int i = 0; i < 1203; ++i) all.push_back("r" + std::to_string(10000 + i));
    for (const std::string& name : all) f.put(name);
    f.start_synced();
    CHECK(f.lists(all));
  }

  TEST_CASE("a value that cannot be parsed keeps the last good content") {
    Fixture f;
    f.put("a");
    f.start_synced();
    f.put("a", "{not: [closed");
    f.wait("the problem", [&] { return f.store->list_problems().size() == 1; });
    const Problem problem = f.store->list_problems().front();
    CHECK(problem.code == ErrorCode::kInvalidSyntax);
    CHECK(problem.path == "etcd:" + kBelow + "a");
    CHECK_FALSE(contains(problem.cause, "etcd:"));
    CHECK(f.lists({"a"}));
    CHECK(f.store->has_synced());
    f.put("a", route("a", "/new"));
    f.wait("it is repaired", [&] { return f.store->list_problems().empty(); });
    CHECK(f.told == Names{"a"});
  }

  TEST_CASE("a store does not sync before it could read every value") {
    Fixture f;
    f.put("a", "{not: [closed");
    f.put("b");
    f.start();
    f.wait("the list", [&] { return f.lists({"b"}); });
    CHECK_FALSE(f.store->has_synced());
    f.wait("the watch", [&] { return f.opened() > 0; });
    f.put("a");
    f.wait("it syncs", [&] { return f.store->has_synced(); });
    CHECK(f.lists({"a", "b"}));
  }

  TEST_CASE("a value that is no object of its key is left out, and the rest is not") {
    Fixture f;
    f.put("a");
    f.put("b", route("other"));
    f.put("c", R"({"apiVersion":"v1","kind":"Secret","metadata":{"name":"c","namespace":"shop"}})");
    f.put("d", route("d") + "\n---\n" + route("e"));
    f.put("nested/name");
    f.start_synced();
    CHECK(f.lists({"a"}));
    std::string codes;
    for (const Problem& problem : f.store->list_problems())
      codes.append(error_code_text(problem.code)).append(" ");
    CHECK(codes == "invalid-field unknown-kind invalid-field invalid-field ");
    f.remove("b");
    f.remove("c");
    f.remove("d");
    f.remove("nested/name");
    f.wait("no problem", [&] { return f.store->list_problems().empty(); });
  }

  TEST_CASE("a watch that ends is resumed at another member, without a list") {
    Fixture f;
    f.put("a");
    f.start_synced();
    const bool at_a = f.a.watches_opened() == 1;
    f.a.cut_watches();
    f.b.cut_watches();
    f.put("b");
    f.wait("the change", [&] { return f.lists({"a", "b"}); });
    CHECK((at_a ? f.b : f.a).watches_opened() == 1);
    CHECK(f.restarts("broken") == 1);
    CHECK(f.listed() == 1);
    CHECK(f.store->list_problems().empty());
  }

  TEST_CASE("a compacted revision leads to a list that announces the differences only") {
    Fixture f;
    for (const char* name : {"a", "b", "c"}) f.put(name);
    f.start_synced();
    const auto kept = f.store->get({kinds::kHttpRouteGroup, "shop", "a"});
    f.a.set_telling(false);
    f.b.set_telling(false);
    f.remove("b");
    f.put("c", route("c", "/new"));
    f.put("d");
    {
      const std::lock_guard lock(f.keys->mutex);
      f.keys->compact(f.keys->revision);
    }
    f.a.cut_watches();
    f.b.cut_watches();
    f.a.set_telling(true);
    f.b.set_telling(true);
    f.pass_until("the differences", [&] { return f.lists({"a", "c", "d"}); });
    CHECK(f.told == Names{"b", "c", "d"});
    CHECK(f.restarts("compacted") == 1);
    CHECK(f.listed() == 2);
    CHECK(f.store->get(kept->key) == kept);
  }

  TEST_CASE("a watch whose progress was told survives a compaction without a list") {
    Fixture f;
    f.put("a");
    f.start_synced();
    {
      const std::lock_guard lock(f.keys->mutex);
      for (const char* key : {"/another/1", "/another/2", "/another/3"})
        f.keys->put(key, base64("x"), "");
    }
    f.a.tell_progress();
    f.b.tell_progress();
    f.wait("the progress", [&] { return f.a.progress_told() + f.b.progress_told() == 1; });
    {
      const std::lock_guard lock(f.keys->mutex);
      f.keys->compact(f.keys->revision);
    }
    f.a.cut_watches();
    f.b.cut_watches();
    f.put("b");
    f.wait("the change", [&] { return f.lists({"a", "b"}); });
    CHECK(f.restarts("broken") == 1);
    CHECK(f.restarts("compacted") == 0);
    CHECK(f.listed() == 1);
  }

  TEST_CASE("while etcd is away all objects stay, and after five seconds it is a problem") {
    Fixture f;
    f.put("a");
    f.start_synced();
    const auto away = FakeEtcd::refusal(503, 14, "etcdserver: no leader");
    for (FakeEtcd* member : {&f.a, &f.b}) {
      member->set_fault(away);
      member->cut_watches();
    }
    f.wait("it is noticed", [&] { return f.restarts("broken") > 0; });
    CHECK(f.store->list_problems().empty());
    f.pass_until("the problem", [&] { return !f.store->list_problems().empty(); });
    const Problem problem = f.store->list_problems().front();
    CHECK(problem.code == ErrorCode::kUnavailable);
    CHECK(contains(problem.cause, "etcdserver: no leader"));
    CHECK(contains(problem.cause, "what was last read stays in force"));
    CHECK(f.lists({"a"}));
    CHECK(f.store->has_synced());
    CHECK(f.told.empty());
    f.put("b");
    for (FakeEtcd* member : {&f.a, &f.b}) member->set_fault({});
    f.pass_until("it is back", [&] { return f.lists({"a", "b"}); });
    f.pass_until("no problem", [&] { return f.store->list_problems().empty(); });
    CHECK(f.told == Names{"b"});
    CHECK(f.log.count("the mesh's objects in etcd cannot be read") == 1);
    CHECK(f.log.count("the mesh's objects in etcd are read again") == 1);
  }

  TEST_CASE("a member that does not answer in time is left, though its watch is open") {
    Fixture f;
    f.start_synced();
    const bool at_a = f.a.watches_opened() == 1;
    FakeEtcd& watched = at_a ? f.a : f.b;
    FakeEtcd& other = at_a ? f.b : f.a;
    watched.set_telling(false);
    watched.set_fault(FakeEtcd::refusal(503, 14, "etcdserver: request timed out"));
    f.put("a");
    f.pass_until("the change", [&] { return f.lists({"a"}); });
    CHECK(other.watches_opened() == 1);
    CHECK(f.listed() == 1);
  }

  TEST_CASE("a store that was restored from a backup is listed again") {
    Fixture f;
    for (const char* name : {"a", "b", "c"}) f.put(name);
    f.start_synced();
    {
      const std::lock_guard lock(f.keys->mutex);
      f.keys->values.clear();
      f.keys->history.clear();
      f.keys->revision = 1;
      f.keys->put(kBelow + "a", base64(route("a")), "");
    }
    f.pass_until("the backup", [&] { return f.lists({"a"}); });
    CHECK(f.restarts("restored") == 1);
    CHECK(f.told == Names{"b", "c"});
  }

  TEST_CASE("catching up waits until the watch has told of the object, and lists nothing") {
    Fixture f;
    f.put("old");
    f.start_synced();
    CHECK(f.catch_up("old", seconds(10)));
    CHECK(f.catch_up("none", seconds(10)));
    CHECK(f.catch_up("No such name", seconds(10)));
    for (FakeEtcd* member : {&f.a, &f.b}) member->set_telling(false);
    f.put("new");
    f.remove("old");
    CHECK_FALSE(f.catch_up("new", milliseconds(20)));
    CHECK_FALSE(f.catch_up("old", milliseconds(20)));
    for (FakeEtcd* member : {&f.a, &f.b}) member->set_telling(true);
    CHECK(f.catch_up("new", seconds(20)));
    CHECK(f.catch_up("old", seconds(20)));
    CHECK(f.lists({"new"}));
    CHECK(f.listed() == 1);
    for (FakeEtcd* member : {&f.a, &f.b})
      member->set_fault(FakeEtcd::refusal(503, 14, "etcdserver: no leader"));
    CHECK_FALSE(f.catch_up("new", seconds(10)));
  }

  TEST_CASE("a user logs in, and again when its token has ended") {
    Fixture f;
    f.client.options.user = "mesh";
    f.client.options.password_file = f.client.file("password", "hsem\n");
    for (FakeEtcd* member : {&f.a, &f.b}) member->require("mesh", "hsem", "/osm/objects/");
    f.put("a");
    f.start_synced();
    for (FakeEtcd* member : {&f.a, &f.b}) {
      member->forget_tokens();
      member->cut_watches();
    }
    f.put("b");
    f.pass_until("the change", [&] { return f.lists({"a", "b"}); });
  }

  TEST_CASE("a fault of the options is told at once, with the remedy") {
    Fixture f({"http://10.0.0.1:2379"});
    const auto made = etcd::make_object_store(
        {.etcd = f.client.options,
         .runtime = {f.executor, f.executor, f.clock, f.rng, f.log, f.metrics}});
    REQUIRE_FALSE(made.ok());
    CHECK(made.error().code == ErrorCode::kInvalidArgument);
    CHECK(contains(made.error().message, "write https://"));
  }
}

}  // namespace
