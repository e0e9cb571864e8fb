// The next state of an informer for each event, in a table.
#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kubernetes/client/informer.hpp"
#include "kubernetes/client/read_only_api.hpp"
#include "kubernetes/client/resources.hpp"
#include "lib/run.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

using namespace osm;

namespace {

using kubernetes::ListPage;
using kubernetes::ListRequest;
using kubernetes::Resource;
using kubernetes::WatchEventType;
using kubernetes::WatchHandler;
using kubernetes::WatchRequest;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
namespace json = boost::json;

// Keeps the newest call, which the test answers.
class HeldApi final : public kubernetes_test::ReadOnlyApi {
 public:
  std::string kind;  // of the newest call
  std::size_t calls = 0;
  std::function<void(Result<ListPage>)> page;
  WatchHandler watcher;

  // The informer waits for the newest call.
  bool followed() const { return !handle_.expired(); }

  Subscription list(const ListRequest& request,
                    std::function<void(Result<ListPage>)> done) override {
    page = std::move(done);
    return begin(request.limit == 0 ? "a list in one piece" : "a list");
  }
  Subscription watch(const WatchRequest&, WatchHandler handler) override {
    watcher = std::move(handler);
    return begin("a watch");
  }

  Result<json::object> get(const Resource&, const std::string&, const std::string&,
                           const std::string&) override {
    return unused();
  }

 private:
  Subscription begin(std::string what) {
    kind = std::move(what);
    ++calls;
    std::shared_ptr<void> handle = std::make_shared<int>();
    handle_ = handle;
    return Subscription(std::move(handle));
  }

  std::weak_ptr<void> handle_;
};

struct Fixture {
  testing::ManualClock clock;
  testing::ManualExecutor executor{clock};
  RandomRng rng{testing::seed()};
  testing::CapturingLog log;
  testing::CapturingMetrics metrics;
  HeldApi api;
  kubernetes::Informer informer{{.api = api,
                                 .executor = executor,
                                 .runtime = {executor, executor, clock, rng, log, metrics},
                                 .server = "https://cluster",
                                 .resource = kubernetes::kServices,
                                 .on_change = [](const auto&) {}}};

  void list(const std::string& continue_token = {}) {
    const auto done = api.page;
    done(ListPage{.items = {}, .resource_version = "7", .continue_token = continue_token});
    executor.run_until_idle();
  }
  void open() {
    api.watcher.on_open();
    executor.run_until_idle();
  }
  void bookmark() {
    api.watcher.on_event(WatchEventType::kBookmark, {{"metadata", {{"resourceVersion", "8"}}}});
    executor.run_until_idle();
  }
  // Ends the newest call.
  void end(const Status& status) {
    if (api.kind == "a watch") {
      api.watcher.on_end(status);
    } else {
      const auto done = api.page;
      done(status.error());
    }
    executor.run_until_idle();
  }
  void fail(ErrorCode code) { end(Error{code, "a fault"}); }
  void pass_until_silent() {
    const auto silent = [&] {
      return metrics.value("osm_kubernetes_watch_restarts_total",
                           {{"kind", "Service"}, {"reason", "silent"}}) > 0;
    };
    // Shorter steps than the shortest back-off.
    for (int i = 0; i < 3000 && !silent(); ++i) executor.run_for(milliseconds(100));
    REQUIRE(silent());
  }

  // `calls`: those before the event. Lets a wait pass.
  std::string state(std::size_t calls) {
    if (!informer.started()) return api.followed() ? "stopped with a call" : "stopped";
    if (api.followed()) return (api.calls == calls ? "still " : "") + api.kind;
    calls = api.calls;
    executor.run_for(minutes(1));
    return api.calls == calls + 1 ? "waits for " + api.kind : "waits in vain";
  }
  std::string known() const {
    return informer.missing() ? "missing" : informer.has_synced() ? "listed" : "nothing";
  }
};

using Step = std::function<void(Fixture&)>;

const std::map<std::string, Step> kStates{
    {"stopped", [](Fixture&) {}},
    {"listing", [](Fixture& f) { f.informer.start(); }},
    {"listing in one piece",
     [](Fixture& f) {
       f.informer.start();
       f.fail(ErrorCode::kGone);
     }},
    {"watch asked",
     [](Fixture& f) {
       f.informer.start();
       f.list();
     }},
    {"watch asked again",  // no list since the last watch
     [](Fixture& f) {
       f.informer.start();
       f.list();
       f.open();
       f.bookmark();
       f.end({});
     }},
    {"watch opened",
     [](Fixture& f) {
       f.informer.start();
       f.list();
       f.open();
     }},
    {"watch progressed",
     [](Fixture& f) {
       f.informer.start();
       f.list();
       f.open();
       f.bookmark();
     }},
    {"waiting to list",
     [](Fixture& f) {
       f.informer.start();
       f.fail(ErrorCode::kUnavailable);
     }},
    {"waiting to watch",
     [](Fixture& f) {
       f.informer.start();
       f.list();
       f.open();
       f.fail(ErrorCode::kUnavailable);
     }},
};

const std::map<std::string, Step> kEvents{
    {"start", [](Fixture& f) { f.informer.start(); }},
    {"stop", [](Fixture& f) { f.informer.stop(); }},
    {"refresh", [](Fixture& f) { f.informer.refresh([](bool) {}); }},
    {"refresh, last page",
     [](Fixture& f) {
       f.informer.refresh([](bool) {});
       f.list();
     }},
    {"page", [](Fixture& f) { f.list("more"); }},
    {"last page", [](Fixture& f) { f.list(); }},
    {"open", [](Fixture& f) { f.open(); }},
    {"bookmark", [](Fixture& f) { f.bookmark(); }},
    {"end", [](Fixture& f) { f.end({}); }},
    {"end after 10 s",
     [](Fixture& f) {
       f.executor.run_for(seconds(10));
       f.end({});
     }},
    {"away", [](Fixture& f) { f.fail(ErrorCode::kUnavailable); }},
    {"away after 60 s",
     [](Fixture& f) {
       f.executor.run_for(seconds(60));
       f.fail(ErrorCode::kUnavailable);
     }},
    {"forbidden", [](Fixture& f) { f.fail(ErrorCode::kPermissionDenied); }},
    {"gone", [](Fixture& f) { f.fail(ErrorCode::kGone); }},
    {"not found", [](Fixture& f) { f.fail(ErrorCode::kNotFound); }},
    {"silence", [](Fixture& f) { f.pass_until_silent(); }},
};

struct Row {
  const char* state;
  const char* event;
  const char* next;
};

const std::vector<Row> kTable{
    {"stopped", "start", "a list"},
    {"stopped", "stop", "stopped"},
    {"stopped", "refresh", "stopped"},

    {"listing", "start", "still a list"},
    {"listing", "stop", "stopped"},
    {"listing", "refresh", "still a list"},
    {"listing", "refresh, last page", "a list"},
    {"listing", "page", "a list"},
    {"listing", "last page", "a watch"},
    {"listing", "away", "waits for a list"},
    {"listing", "forbidden", "waits for a list"},
    {"listing", "gone", "a list in one piece"},
    {"listing", "not found", "waits for a list"},

    {"listing in one piece", "stop", "stopped"},
    {"listing in one piece", "refresh", "still a list in one piece"},
    {"listing in one piece", "refresh, last page", "a list"},
    {"listing in one piece", "last page", "a watch"},
    {"listing in one piece", "away", "waits for a list"},
    {"listing in one piece", "gone", "waits for a list"},
    {"listing in one piece", "not found", "waits for a list"},

    {"watch asked", "start", "still a watch"},
    {"watch asked", "stop", "stopped"},
    {"watch asked", "refresh", "a list"},
    {"watch asked", "open", "still a watch"},
    {"watch asked", "end", "waits for a watch"},
    {"watch asked", "end after 10 s", "a watch"},
    {"watch asked", "away", "waits for a watch"},
    {"watch asked", "away after 60 s", "waits for a watch"},
    {"watch asked", "forbidden", "waits for a watch"},
    {"watch asked", "gone", "waits for a list"},
    {"watch asked", "not found", "waits for a list"},
    {"watch asked", "silence", "waits for a watch"},

    {"watch asked again", "end", "waits for a watch"},
    {"watch asked again", "end after 10 s", "a watch"},
    {"watch asked again", "away", "waits for a list"},
    {"watch asked again", "forbidden", "waits for a list"},
    {"watch asked again", "gone", "waits for a list"},
    {"watch asked again", "silence", "waits for a watch"},

    {"watch opened", "start", "still a watch"},
    {"watch opened", "stop", "stopped"},
    {"watch opened", "refresh", "a list"},
    {"watch opened", "bookmark", "still a watch"},
    {"watch opened", "end", "waits for a list"},
    {"watch opened", "end after 10 s", "a list"},
    {"watch opened", "away", "waits for a watch"},
    {"watch opened", "away after 60 s", "waits for a list"},
    {"watch opened", "gone", "waits for a list"},
    {"watch opened", "not found", "waits for a list"},
    {"watch opened", "silence", "waits for a list"},

    {"watch progressed", "stop", "stopped"},
    {"watch progressed", "refresh", "a list"},
    {"watch progressed", "bookmark", "still a watch"},
    {"watch progressed", "end", "a watch"},
    {"watch progressed", "end after 10 s", "a watch"},
    {"watch progressed", "away", "waits for a watch"},
    {"watch progressed", "away after 60 s", "waits for a watch"},
    {"watch progressed", "forbidden", "waits for a watch"},
    {"watch progressed", "gone", "waits for a list"},
    {"watch progressed", "not found", "waits for a list"},
    {"watch progressed", "silence", "waits for a watch"},

    {"waiting to list", "start", "waits for a list"},
    {"waiting to list", "stop", "stopped"},
    {"waiting to list", "refresh", "a list"},

    {"waiting to watch", "start", "waits for a watch"},
    {"waiting to watch", "stop", "stopped"},
    {"waiting to watch", "refresh", "a list"},
};

TEST_SUITE("kubernetes::Informer") {
  TEST_CASE("each event in each state leads to its next state") {
    for (const Row& row : kTable) {
      CAPTURE(row.state);
      CAPTURE(row.event);
      Fixture f;
      kStates.at(row.state)(f);
      const std::size_t calls = f.api.calls;
      kEvents.at(row.event)(f);
      CHECK(f.state(calls) == row.next);
    }
  }

  TEST_CASE("an answer to a call of an earlier state is not taken") {
    Fixture f;
    f.informer.start();
    const auto late = f.api.page;
    f.informer.stop();
    late(ListPage{.items = {}, .resource_version = "7", .continue_token = {}});
    f.executor.run_until_idle();
    CHECK_FALSE(f.informer.started());
    f.informer.start();
    late(Error{ErrorCode::kUnavailable, "away"});
    f.executor.run_until_idle();
    CHECK(f.state(f.api.calls) == "still a list");
    CHECK_FALSE(f.informer.has_synced());
  }

  TEST_CASE("nothing is known before the first list and after a stop") {
    Fixture f;
    CHECK(f.known() == "nothing");
    f.informer.start();
    f.list("more");
    CHECK(f.known() == "nothing");
    f.list();
    CHECK(f.known() == "listed");
    f.fail(ErrorCode::kUnavailable);
    CHECK(f.known() == "listed");
    f.informer.stop();
    CHECK(f.known() == "nothing");
    f.informer.start();
    f.fail(ErrorCode::kNotFound);
    CHECK(f.known() == "missing");
    f.executor.run_for(minutes(1));
    f.list();
    CHECK(f.known() == "listed");
  }
}

}  // namespace
