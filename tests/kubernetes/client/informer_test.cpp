// Lists and watches miss no change through expiry, compaction and lost connections.
#include "kubernetes/client/informer.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kubernetes/client/resources.hpp"
#include "kubernetes/client/watch_server.hpp"
#include "lib/run.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

using namespace osm;

namespace {

using kubernetes::Informer;
using kubernetes::kServices;
using kubernetes_test::WatchServer;
using std::chrono::minutes;
using std::chrono::seconds;
namespace json = boost::json;

json::object labelled(const std::string& value) {
  return {{"metadata", {{"labels", {{"app", value}}}}}, {"spec", {{"value", value}}}};
}

struct Fixture {
  explicit Fixture(std::uint64_t seed = testing::seed()) : rng(seed) {}

  testing::ManualClock clock;
  testing::ManualExecutor executor{clock};
  RandomRng rng;
  testing::CapturingLog log;
  testing::CapturingMetrics metrics;
  WatchServer server{executor};
  std::vector<std::vector<std::string>> told;
  Informer informer{options()};

  kubernetes::InformerOptions options() {
    return {.api = server,
            .executor = executor,
            .runtime = {executor, executor, clock, rng, log, metrics},
            .server = "https://cluster",
            .resource = kServices,
            .on_change = [this](const auto& keys) {
              std::vector<std::string>& names = told.emplace_back();
              for (const ObjectKey& key : keys) names.push_back(key.ns + '/' + key.name);
            }};
  }

  void put(const std::string& name, const std::string& value) {
    server.put(kServices, "shop", name, labelled(value));
  }
  void remove(const std::string& name) { server.remove(kServices, "shop", name); }
  void start() {
    informer.start();
    executor.run_until_idle();
    told.clear();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& object : informer.objects().list()) out.push_back(object->key.name);
    return out;
  }
  // All that was told since, without what was not about objects.
  std::multiset<std::string> all_told() const {
    std::multiset<std::string> out;
    for (const auto& names : told) out.insert(names.begin(), names.end());
    return out;
  }
  double restarts(std::string_view reason) const {
    return metrics.value("osm_kubernetes_watch_restarts_total",
                         {{"kind", "Service"}, {"reason", reason}});
  }
  // The same content, whatever the versions.
  bool equals_server() {
    std::map<std::string, std::string> here;
    std::map<std::string, std::string> there;
    for (const auto& object : informer.objects().list())
      here[object->key.ns + '/' + object->key.name] = object->labels.at("app");
    for (const auto& [key, object] : server.objects(kServices))
      there[key] = object.at("metadata").at("labels").at("app").get_string();
    return here == there;
  }
};

using Names = std::vector<std::string>;
using Told = std::multiset<std::string>;

TEST_SUITE("kubernetes::Informer") {
  TEST_CASE("lists page by page, is synced then, and follows what happens") {
    Fixture f;
    for (const char* name : {"a", "b", "c", "d", "e"}) f.put(name, "1");
    f.server.page_size = 2;
    f.informer.start();
    CHECK_FALSE(f.informer.has_synced());
    f.executor.run_until_idle();
    CHECK(f.informer.has_synced());
    CHECK(f.names() == Names{"a", "b", "c", "d", "e"});
    CHECK(f.all_told().size() == 5);
    f.told.clear();

    f.put("f", "1");
    f.put("a", "2");
    f.remove("b");
    f.executor.run_until_idle();
    CHECK(f.names() == Names{"a", "c", "d", "e", "f"});
    CHECK(f.all_told() == Told{"shop/a", "shop/b", "shop/f"});
    CHECK(f.server.lists() == 1);
  }

  TEST_CASE("the first list may be of a cache that is behind, and no later one") {
    Fixture f;
    f.put("a", "1");
    f.put("b", "1");
    f.server.keep_cache();
    f.put("a", "2");
    f.remove("b");
    f.put("c", "1");
    f.start();
    CHECK(f.server.cached_lists() == 1);
    CHECK(f.equals_server());  // by the watch
    CHECK(f.server.lists() == 1);

    f.put("d", "1");
    f.executor.run_until_idle();
    f.server.compact();
    f.server.end_watches();
    f.executor.run_for(seconds(10));
    CHECK(f.server.lists() == 2);
    bool refreshed = false;
    f.informer.refresh([&](bool ok) { refreshed = ok; });
    f.executor.run_until_idle();
    CHECK(refreshed);
    f.informer.stop();
    f.informer.start();
    f.executor.run_until_idle();
    CHECK(f.server.lists() == 4);
    CHECK(f.server.cached_lists() == 1);
    CHECK(f.equals_server());
  }

  TEST_CASE("whoever asks for a new list before the first one gets none of a cache") {
    Fixture f;
    f.put("a", "1");
    f.server.keep_cache();
    f.put("a", "2");
    f.server.set_list_fault(Error{ErrorCode::kUnavailable, "away"});
    f.start();
    f.server.set_list_fault({});
    std::string seen;
    f.informer.refresh([&](bool) { seen = f.informer.objects().list().at(0)->labels.at("app"); });
    f.executor.run_until_idle();
    CHECK(seen == "2");
    CHECK(f.server.cached_lists() == 0);
  }

  TEST_CASE("changes between the pages of a list are not lost") {
    Fixture f;
    for (const char* name : {"a", "b", "c"}) f.put(name, "1");
    f.server.page_size = 1;
    f.server.between_pages = [&f, first = true]() mutable {
      if (!std::exchange(first, false)) return;
      f.put("aa", "1");
      f.remove("c");
    };
    f.start();
    CHECK(f.names() == Names{"a", "aa", "b"});
  }

  TEST_CASE("finds an object by its namespace and name, and knows its place") {
    Fixture f;
    f.put("a", "x");
    f.put("b", "x");
    f.server.put(kServices, "other", "c", labelled("y"));
    f.start();
    CHECK(f.informer.objects().list().size() == 3);
    CHECK(f.informer.objects().get("sho", "a") == nullptr);
    CHECK(f.informer.objects().get("other", "a") == nullptr);
    f.put("a", "y");
    f.executor.run_until_idle();
    REQUIRE(f.informer.objects().get("shop", "a") != nullptr);
    CHECK(f.informer.objects().get("shop", "a")->labels.at("app") == "y");
    f.remove("a");
    f.executor.run_until_idle();
    CHECK(f.informer.objects().get("shop", "a") == nullptr);
    REQUIRE(f.informer.objects().get("other", "c") != nullptr);
    CHECK(f.informer.objects().get("other", "c")->source.path ==
          "https://cluster/api/v1/namespaces/other/services/c");
  }

  TEST_CASE("irrelevant and repeated changes are not announced") {
    Fixture f;
    f.put("a", "1");
    f.start();
    // Written again as it is: another version of the same.
    f.put("a", "1");
    auto touched = labelled("1");
    touched["status"] = json::object{{"loadBalancer", json::object()}};
    f.server.put(kServices, "shop", "a", touched);
    f.executor.run_until_idle();
    CHECK(f.told.empty());
    f.server.tell_twice(true);
    f.put("a", "2");
    f.remove("a");
    f.executor.run_until_idle();
    CHECK(f.names().empty());
    CHECK(f.all_told() == Told{"shop/a"});
  }

  TEST_CASE("a watch that ended is taken up where it was, without another list") {
    Fixture f;
    f.put("a", "1");
    f.start();
    f.server.bookmark();
    f.executor.run_until_idle();
    f.server.end_watches();
    f.put("b", "1");  // nobody watches
    f.executor.run_for(seconds(1));
    CHECK(f.names() == Names{"a", "b"});
    CHECK(f.server.lists() == 1);
    CHECK(f.restarts("ended") == 1);
  }

  TEST_CASE("a bookmark saves a list: what was compacted behind it is not missed") {
    Fixture f;
    f.put("a", "1");
    f.start();
    f.server.compact();
    f.server.bookmark();
    f.executor.run_until_idle();
    f.server.end_watches();
    f.executor.run_for(seconds(1));
    CHECK(f.server.watches() == 1);
    CHECK(f.server.lists() == 1);
  }

  TEST_CASE("a version that is gone leads to another list, which tells exactly what differs") {
    Fixture f;
    for (const char* name : {"a", "b", "c"}) f.put(name, "1");
    f.start();
    f.server.bookmark();
    f.executor.run_until_idle();
    f.server.end_watches();
    f.put("a", "2");
    f.remove("b");
    f.put("c", "1");
    f.put("d", "1");
    f.server.compact();
    f.executor.run_for(seconds(3));
    CHECK(f.names() == Names{"a", "c", "d"});
    CHECK(f.all_told() == Told{"shop/a", "shop/b", "shop/d"});
    CHECK(f.server.lists() == 2);
    CHECK(f.restarts("gone") == 1);
  }

  TEST_CASE("a list that expires between its pages is read in one piece") {
    Fixture f;
    for (const char* name : {"a", "b", "c"}) f.put(name, "1");
    f.server.page_size = 1;
    f.server.between_pages = [&] { f.server.compact(); };
    f.start();
    CHECK(f.names() == Names{"a", "b", "c"});
    CHECK(f.informer.has_synced());
    CHECK(f.server.lists() == 2);
  }

  TEST_CASE("a watch that is silently dead is noticed and made anew") {
    Fixture f;
    f.put("a", "1");
    f.start();
    f.server.deafen();
    f.put("b", "1");
    f.executor.run_for(seconds(60));
    CHECK(f.names() == Names{"a"});  // nobody can know yet
    f.executor.run_for(minutes(3));
    CHECK(f.names() == Names{"a", "b"});
    CHECK(f.restarts("silent") == 1);
    CHECK(f.server.lists() == 2);  // it may not have known the version
  }

  TEST_CASE("a server that was restored from a backup is listed anew when its silent watch ends") {
    Fixture f;
    for (const char* name : {"a", "b", "c"}) f.put(name, "1");
    f.start();
    f.server.bookmark();
    f.executor.run_until_idle();
    f.server.restore(1);
    f.executor.run_for(seconds(5));
    CHECK(f.server.watches() == 1);  // from a version that is still to come there
    f.remove("b");
    f.put("d", "1");
    f.executor.run_for(seconds(60));
    CHECK(f.names() == Names{"a", "b", "c"});
    SUBCASE("by itself") {
      f.server.time_out_watches();
      f.executor.run_for(seconds(1));
      CHECK(f.restarts("ended") == 1);
    }
    SUBCASE("by a broken connection") {
      f.server.end_watches(Error{ErrorCode::kUnavailable, "reset"});
      f.executor.run_for(seconds(4));
    }
    SUBCASE("by its timeout, which the server misses") {
      f.executor.run_for(minutes(3));
      CHECK(f.restarts("silent") == 1);
    }
    CHECK(f.names() == Names{"a", "c", "d"});
    CHECK(f.all_told() == Told{"shop/b", "shop/d"});
    CHECK(f.server.lists() == 2);
    f.put("e", "1");
    f.executor.run_until_idle();
    CHECK(f.names() == Names{"a", "c", "d", "e"});
  }

  TEST_CASE("the versions of a server that was restored from a backup are not taken for seen") {
    Fixture f;
    f.put("a", "1");
    f.start();
    for (const char* value : {"2", "3", "4"}) f.put("a", value);
    f.server.bookmark();
    f.executor.run_until_idle();
    const Error away{ErrorCode::kUnavailable, "connection refused"};
    bool resumed = false;
    SUBCASE("it is away") { f.server.set_watch_fault(away); }
    SUBCASE("its watch is open, and silent") { resumed = true; }
    f.server.restore(1);
    f.put("a", "5");  // its version is older than the known one
    f.executor.run_for(seconds(4));
    REQUIRE(f.server.watches() == (resumed ? 1 : 0));
    const ObjectKey key{kinds::kService, "shop", "a"};
    const auto caller = std::make_shared<std::promise<bool>>();
    auto answer = caller->get_future();
    const auto answered = [&] { return answer.wait_for(seconds(0)) == std::future_status::ready; };
    f.informer.when_seen(f.informer.sighting_of(key, &f.server.objects(kServices).at("shop/a")),
                         caller);
    f.executor.run_for(seconds(30));
    if (resumed) CHECK_FALSE(answered());
    f.server.set_watch_fault({});
    f.server.time_out_watches();
    for (int i = 0; i < 100 && !answered(); ++i) f.executor.run_for(std::chrono::milliseconds(100));
    REQUIRE(answered());
    CHECK(answer.get());
    CHECK(f.informer.objects().get("shop", "a")->labels.at("app") == "5");
  }

  TEST_CASE("a server that was away is listed anew: a restored one may have passed the version") {
    Fixture f;
    for (const char* name : {"a", "b", "c"}) f.put(name, "1");
    f.start();
    f.server.bookmark();
    f.executor.run_until_idle();
    const Error away{ErrorCode::kUnavailable, "connection refused"};
    f.server.set_watch_fault(away);
    f.server.set_list_fault(away);
    f.server.restore(1);
    f.remove("b");
    f.put("d", "1");
    f.executor.run_for(seconds(2));
    for (const char* value : {"1", "2", "3", "4", "5"}) f.put("e", value);
    f.server.set_watch_fault({});
    f.server.set_list_fault({});
    f.executor.run_for(seconds(4));
    CHECK(f.names() == Names{"a", "c", "d", "e"});
    CHECK(f.all_told() == Told{"shop/b", "shop/d", "shop/e"});
    f.put("f", "1");
    f.executor.run_until_idle();
    CHECK(f.names() == Names{"a", "c", "d", "e", "f"});
  }

  TEST_CASE("a server that answers lists and refuses watches is listed once") {
    Fixture f;
    f.put("a", "1");
    f.start();
    f.server.set_watch_fault(Error{ErrorCode::kUnavailable, "too many requests"});
    f.server.end_watches(Error{ErrorCode::kUnavailable, "reset"});
    f.executor.run_for(minutes(1));
    CHECK(f.server.lists() == 2);
    CHECK(f.informer.problem());
  }

  TEST_CASE("a lost connection to a server that answers costs no list") {
    Fixture f;
    f.put("a", "1");
    f.start();
    f.server.end_watches(Error{ErrorCode::kUnavailable, "reset"});
    f.put("b", "1");
    f.executor.run_for(seconds(4));
    CHECK(f.names() == Names{"a", "b"});
    CHECK(f.server.lists() == 1);
  }

  TEST_CASE("a metadata-only informer keeps no contents and reports each version") {
    Fixture f;
    f.put("a", "1");
    kubernetes::InformerOptions options = f.options();
    options.metadata_only = true;
    std::size_t changes = 0;
    options.on_change = [&](const std::vector<ObjectKey>& keys) { changes += keys.size(); };
    Informer informer(options);
    informer.start();
    f.executor.run_until_idle();
    f.put("b", "1");
    f.put("a", "1");  // another version of the same
    f.executor.run_until_idle();
    CHECK(changes == 3);
    for (const auto& object : informer.objects().list()) {
      const json::value& kept = *object->document;
      CHECK_FALSE(kept.as_object().contains("spec"));
      CHECK(object->labels.at("app") == "1");
      CHECK(kept.at("metadata").at("resourceVersion").as_string() == object->resource_version);
    }
  }

  TEST_CASE("a watch that speaks is not taken for dead") {
    Fixture f;
    f.put("a", "1");
    f.start();
    for (int i = 0; i < 30; ++i) {
      f.executor.run_for(minutes(1));
      f.server.bookmark();
    }
    CHECK(f.restarts("silent") == 0);
    CHECK(f.server.watches() == 1);
  }

  TEST_CASE("a server that is away shows after some seconds, and what it said stays") {
    Fixture f;
    f.put("a", "1");
    f.start();
    f.server.set_watch_fault(Error{ErrorCode::kUnavailable, "connection refused"});
    f.server.end_watches(Error{ErrorCode::kUnavailable, "reset"});
    f.executor.run_for(seconds(3));
    CHECK_FALSE(f.informer.problem());
    f.executor.run_for(seconds(30));
    REQUIRE(f.informer.problem());
    CHECK(f.informer.problem()->code == ErrorCode::kUnreadableSource);
    CHECK(f.informer.problem()->text() ==
          "https://cluster/api/v1/services: connection refused; what was last read stays in force "
          "[unreadable-source]");
    CHECK(f.names() == Names{"a"});
    CHECK(f.informer.has_synced());
    f.informer.report();
    CHECK(f.metrics.value("osm_kubernetes_watch_staleness_seconds", {{"kind", "Service"}}) > 30);
    CHECK(f.log.count("resource cannot be read") == 1);

    f.put("b", "1");
    f.server.set_watch_fault({});
    f.executor.run_for(seconds(31));
    CHECK_FALSE(f.informer.problem());
    CHECK(f.names() == Names{"a", "b"});
    f.informer.report();
    CHECK(f.metrics.value("osm_kubernetes_watch_staleness_seconds", {{"kind", "Service"}}) == 0);
    CHECK(f.log.count("resource cannot be read") == 1);
    CHECK(f.log.count("resource is read again") == 1);
  }

  TEST_CASE("an absent server is asked every few seconds, and found within four of its return") {
    Fixture f;
    f.server.set_list_fault(Error{ErrorCode::kUnavailable, "connection refused"});
    f.start();
    f.executor.run_for(minutes(10));
    CHECK(f.server.lists() >= 150);
    CHECK(f.server.lists() <= 305);  // 2 to 4 s apart, but for the first few
    CHECK_FALSE(f.informer.has_synced());
    f.put("a", "1");
    f.server.set_list_fault({});
    f.executor.run_for(seconds(4));
    CHECK(f.names() == Names{"a"});
  }

  TEST_CASE("retries against an absent server have jitter") {
    std::set<std::size_t> counts;
    for (std::uint64_t i = 0; i < 16; ++i) {
      Fixture f(testing::seed() + i);
      f.server.set_list_fault(Error{ErrorCode::kUnavailable, "connection refused"});
      f.start();
      f.executor.run_for(minutes(10));
      counts.insert(f.server.lists());
    }
    CHECK(counts.size() > 3);
  }

  TEST_CASE("a server that ends every watch at once is not hammered") {
    Fixture f;
    f.put("a", "1");
    f.start();
    for (int i = 0; i < 600; ++i) {
      f.server.end_watches();
      f.executor.run_for(std::chrono::milliseconds(100));
    }
    CHECK(f.restarts("ended") <= 35);
  }

  TEST_CASE("a forbidden resource is reported at once") {
    Fixture f;
    f.server.set_list_fault(Error{ErrorCode::kPermissionDenied, "services is forbidden"});
    f.start();
    REQUIRE(f.informer.problem());
    CHECK(f.informer.problem()->cause ==
          "services is forbidden; the mesh is not ready until it can be read");
  }

  TEST_CASE("a resource that the server lacks counts as empty and is looked for again") {
    Fixture f;
    f.server.set_missing(kServices, true);
    f.start();
    CHECK(f.informer.has_synced());
    CHECK(f.informer.missing());
    REQUIRE(f.informer.problem());
    CHECK(f.informer.problem()->code == ErrorCode::kNotFound);
    f.server.set_missing(kServices, false);
    f.put("a", "1");
    f.executor.run_for(minutes(1));
    CHECK(f.names() == Names{"a"});
    CHECK_FALSE(f.informer.missing());
    CHECK_FALSE(f.informer.problem());
  }

  TEST_CASE("objects are not given up for a server that does not know its resources yet") {
    Fixture f;
    f.put("a", "1");
    f.start();
    f.server.set_list_fault(Error{ErrorCode::kNotFound, "the server could not find it"});
    f.server.compact();
    f.server.end_watches();
    f.executor.run_for(seconds(8));
    CHECK(f.names() == Names{"a"});
    SUBCASE("it knows them a little later") {
      f.put("b", "1");
      f.server.set_list_fault({});
      f.executor.run_for(seconds(4));
      CHECK(f.names() == Names{"a", "b"});
      CHECK(f.all_told() == Told{"shop/b"});
    }
    SUBCASE("it went away again before it knew them") {
      f.server.set_list_fault(Error{ErrorCode::kUnavailable, "connection refused"});
      f.executor.run_for(seconds(30));
      f.server.set_list_fault(Error{ErrorCode::kNotFound, "the server could not find it"});
      f.executor.run_for(seconds(5));
      CHECK(f.names() == Names{"a"});
      CHECK(f.all_told().empty());
    }
    SUBCASE("the resource is really gone") {
      f.executor.run_for(seconds(20));
      CHECK(f.names().empty());
      CHECK(f.all_told() == Told{"shop/a"});
      CHECK(f.informer.missing());
    }
  }

  TEST_CASE("a resource without objects that was there is found again as soon") {
    Fixture f;
    f.start();
    f.server.set_list_fault(Error{ErrorCode::kNotFound, "the server could not find it"});
    f.server.compact();
    f.server.end_watches();
    f.executor.run_for(seconds(6));
    CHECK_FALSE(f.informer.missing());
    f.put("a", "1");
    f.server.set_list_fault({});
    f.executor.run_for(seconds(4));
    CHECK(f.names() == Names{"a"});
  }

  TEST_CASE("a refresh reads what was changed before it, also when a list is under way") {
    Fixture f;
    f.put("a", "1");
    f.start();
    f.server.deafen();
    f.put("b", "1");
    std::vector<bool> done;
    f.informer.refresh([&](bool ok) {
      CHECK(f.names() == Names{"a", "b"});
      CHECK(f.all_told() == Told{"shop/b"});
      done.push_back(ok);
    });
    f.executor.run_one();  // the list was answered
    f.put("c", "1");
    f.informer.refresh([&](bool ok) {
      CHECK(f.names() == Names{"a", "b", "c"});
      done.push_back(ok);
    });
    f.executor.run_until_idle();
    CHECK(done == std::vector<bool>{true, true});
    f.server.set_list_fault(Error{ErrorCode::kUnavailable, "away"});
    f.informer.refresh([&](bool ok) { done.push_back(ok); });
    f.executor.run_until_idle();
    CHECK(done == std::vector<bool>{true, true, false});
  }

  TEST_CASE("the end of a watch that was given up meanwhile does not end what came after it") {
    Fixture f;
    f.put("a", "1");
    f.start();
    f.server.end_watches(Error{ErrorCode::kUnavailable, "reset"});
    f.executor.run_one();  // it was told, and not taken up yet
    std::vector<bool> done;
    f.informer.refresh([&](bool ok) { done.push_back(ok); });
    f.executor.run_until_idle();
    CHECK(done == std::vector<bool>{true});
    CHECK(f.restarts("broken") == 0);
  }

  TEST_CASE("a stopped informer is empty and not synced") {
    Fixture f;
    f.put("a", "1");
    f.start();
    f.informer.stop();
    CHECK(f.names().empty());
    CHECK(f.all_told() == Told{"shop/a"});
    f.put("b", "1");
    f.executor.run_for(minutes(5));
    CHECK(f.names().empty());
    f.informer.start();
    f.executor.run_until_idle();
    CHECK(f.names() == Names{"a", "b"});
  }

  TEST_CASE("whatever goes wrong, it ends equal to the server") {
    auto random = osm::testing::seeded();
    const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    for (int round = 0; round < testing::steps(40, 1'000); ++round) {
      Fixture f;
      f.server.page_size = static_cast<std::size_t>(1 + pick(5));
      f.server.between_pages = [&] {
        if (pick(8) == 0) f.server.compact();
        if (pick(3) == 0) f.put("n" + std::to_string(pick(12)), std::to_string(pick(3)));
      };
      f.informer.start();
      for (int step = 0; step < 120; ++step) {
        switch (pick(14)) {
          case 0:
            f.server.compact();
            break;
          case 1:
            f.server.end_watches();
            break;
          case 2:
            f.server.end_watches(Error{ErrorCode::kUnavailable, "reset"});
            break;
          case 3:
            f.server.deafen();
            break;
          case 4:
            f.server.bookmark();
            break;
          case 5:
            f.server.tell_twice(pick(2) == 0);
            break;
          case 6:
            f.server.set_list_fault(pick(2) == 0 ? std::optional<Error>()
                                                 : Error{ErrorCode::kUnavailable, "away"});
            break;
          case 7:
            f.server.set_watch_fault(pick(2) == 0 ? std::optional<Error>()
                                                  : Error{ErrorCode::kUnavailable, "away"});
            break;
          case 8:
            f.remove("n" + std::to_string(pick(12)));
            break;
          case 9:
            f.executor.run_for(seconds(pick(40)));
            break;
          case 10:
            f.informer.refresh([](bool) {});
            break;
          default:
            f.put("n" + std::to_string(pick(12)), std::to_string(pick(3)));
        }
        for (int i = pick(4); i > 0; --i) f.executor.run_one();
      }
      f.server.set_list_fault({});
      f.server.set_watch_fault({});
      f.server.tell_twice(false);
      f.server.between_pages = [] {};  // a list may still run at the end
      f.executor.run_for(minutes(6));  // backoff, and a watch that is dead
      REQUIRE(f.equals_server());
      f.told.clear();
      f.put("last", "1");
      f.executor.run_for(seconds(1));  // it may just be taking up a watch again
      CHECK(f.all_told() == Told{"shop/last"});
    }
  }
}

}  // namespace
