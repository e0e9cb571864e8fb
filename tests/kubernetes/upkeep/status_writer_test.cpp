// Conditions of policies follow the proxies, at a limited rate.
#include "kubernetes/upkeep/status_writer.hpp"

#include <doctest/doctest.h>

#include <optional>

#include "base/utf8.hpp"
#include "kubernetes/upkeep/server_statuses.hpp"
#include "kubernetes/upkeep/upkeep_fixture.hpp"

using namespace osm;
using namespace osm::kubernetes;
using namespace osm::kubernetes_test;
using namespace std::chrono_literals;

namespace {

const ObjectKey kTarget{kinds::kTrafficTarget, "shop", "web-api"};

ObjectStatus applied(std::size_t proxies) {
  ObjectStatus status;
  status.object = kTarget;
  status.phase = ObjectPhase::kApplied;
  status.concerned = status.applied = proxies;
  return status;
}

// Another replica has not read this version.
ObjectStatus behind(std::size_t applied_by, std::size_t proxies) {
  ObjectStatus status = applied(proxies);
  status.phase = ObjectPhase::kPending;
  status.applied = applied_by;
  status.replicas = 2;
  status.replicas_behind = {"controller-b"};
  return status;
}

ObjectStatus rejected(std::vector<Problem> problems) {
  ObjectStatus status;
  status.object = kTarget;
  status.removed = true;
  status.phase = ObjectPhase::kRejected;
  status.problems = std::move(problems);
  return status;
}

Problem problem(const std::string& cause = "must not be empty",
                ErrorCode code = ErrorCode::kInvalidField) {
  return {code, kTarget, "", 0, "spec.rules", cause};
}

struct Fixture : UpkeepFixture {
  Fixture() {
    put_namespace("osm");
    put_policy("web-api");
  }
  void put_namespace(const std::string& mesh) {
    Object ns;
    ns.key = {kinds::kNamespace, "", "shop"};
    ns.resource_version = mesh;
    ns.labels["openservicemesh.io/monitored-by"] = mesh;
    store.put(std::move(ns));
    if (writer) writer->on_objects({{kinds::kNamespace, "", "shop"}});
  }
  // In the server, and in the store as an informer has it: without its status.
  void put_policy(const std::string& name) {
    const json::object object =
        put(kTrafficTargets, {{"metadata", {{"name", name}, {"namespace", "shop"}}},
                              {"spec", {{"rules", json::array()}}}});
    Object stored;
    stored.key = {kinds::kTrafficTarget, "shop", name};
    stored.api_version = kTrafficTargets.api_version();
    stored.document = std::make_shared<const json::value>(object);
    store.put(std::move(stored));
  }
  void start(const std::string& replica = "controller-a") {
    writer.emplace(
        api, runtime,
        StatusWriterOptions{.store = store,
                            .stored = server_statuses ? &*server_statuses : nullptr,
                            .status_of = [this](const ObjectKey& key) { return status_of(key); },
                            .problems = [this] { return problems; },
                            .may_write = [this] { return leads; },
                            .replica = replica,
                            .kinds = kinds});
  }
  Result<ObjectStatus> status_of(const ObjectKey& key) {
    ++asked;
    const auto at = statuses.find(key);
    if (at == statuses.end()) return Error{ErrorCode::kNotFound, "no"};
    return at->second;
  }
  json::value condition(const std::string& type, const std::string& name = "web-api") {
    const json::object object = api.at(kTrafficTargets, "shop", name);
    for (const json::value& one : list_at(map_at(object, "status"), "conditions"))
      if (text_at(one, "type") == type) return one;
    return json::object();
  }
  std::size_t writes_of(const std::string& prefix) const {
    std::size_t count = 0;
    for (const std::string& write : api.writes()) count += write.rfind(prefix, 0) == 0;
    return count;
  }

  std::map<ObjectKey, ObjectStatus> statuses{{kTarget, applied(3)}};
  // Somebody else writes the status, or with null wipes it.
  void overwrite_status(json::value conditions) {
    json::object body = api.at(kTrafficTargets, "shop", "web-api");
    if (conditions.is_null()) {
      body.erase("status");
    } else {
      body["status"] = {{"conditions", std::move(conditions)}};
    }
    REQUIRE(api.update(kTrafficTargets, body, "status").ok());
    writer->on_statuses({kTarget});
    executor.run_for(2s);
  }

  std::optional<ServerStatuses> server_statuses;  // nullopt: the store has none
  std::vector<Problem> problems;
  spec::Kinds kinds = spec::mesh_kinds();
  bool leads = true;
  int asked = 0;
  std::optional<StatusWriter> writer;
};

// A writer that sees the statuses that others write.
struct StoredFixture : Fixture {
  StoredFixture() {
    server_statuses.emplace(api);
    start();
    executor.run_for(2s);
    REQUIRE(writes_of("patch") == 1);
  }
};

}  // namespace

TEST_SUITE("kubernetes::StatusWriter") {
  TEST_CASE_FIXTURE(Fixture, "a policy in use is Accepted, and Programmed on so many proxies") {
    start();
    executor.run_for(2s);
    CHECK(condition("Accepted").at("status") == "True");
    CHECK(condition("Programmed").at("status") == "True");
    CHECK(condition("Programmed").at("message") == "3/3 proxies");
    CHECK(condition("Programmed").at("observedGeneration") == 1);
    CHECK(condition("Programmed").at("lastTransitionTime") == "2024-01-01T00:00:01Z");
    CHECK(api.at(kTrafficTargets, "shop", "web-api").at("spec").as_object().size() == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "an embedder's kind has a status, in its own group") {
    kinds.push_back({.name = {"vendor.example", "TrafficTarget"},
                     .version = "v1",
                     .plural = "theirs",
                     .status = true});
    const Resource theirs = resource_of(kinds.back());
    const json::object object =
        put(theirs, {{"metadata", {{"name", "web-api"}, {"namespace", "shop"}}}});
    Object stored;
    stored.key = {kinds.back().name, "shop", "web-api"};
    stored.api_version = theirs.api_version();
    stored.document = std::make_shared<const json::value>(object);
    statuses[stored.key] = applied(2);
    store.put(std::move(stored));
    start();
    executor.run_for(2s);
    CHECK(condition("Programmed").at("message") == "3/3 proxies");
    const json::object written = api.at(theirs, "shop", "web-api");
    CHECK(list_at(map_at(written, "status"), "conditions").at(1).at("message") == "2/2 proxies");
  }

  TEST_CASE_FIXTURE(Fixture, "nothing is written again while nothing changes") {
    start();
    executor.run_for(2s);
    CHECK(api.writes().size() == 1);
    for (int i = 0; i < 100; ++i) {
      writer->on_mesh();
      executor.run_for(1min);
    }
    CHECK(api.writes().size() == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "a policy that is left out says why, with every fault") {
    statuses[kTarget] = rejected({problem(), problem("and another", ErrorCode::kCrossNamespace)});
    problems = statuses[kTarget].problems;
    start();
    executor.run_for(2s);
    CHECK(condition("Accepted").at("status") == "False");
    CHECK(condition("Accepted").at("reason") == "InvalidField");
    CHECK(condition("Accepted").at("message") ==
          "left out of the mesh: spec.rules: must not be empty; spec.rules: and another");
    CHECK(condition("Programmed").at("reason") == "NotAccepted");
    CHECK(api.count(kEvents) == 2);
  }

  TEST_CASE_FIXTURE(Fixture, "a policy without effect is not Accepted until it has one") {
    statuses[kTarget] = rejected({problem("is not there", ErrorCode::kDanglingReference)});
    statuses[kTarget].removed = false;
    problems = statuses[kTarget].problems;
    start();
    executor.run_for(2s);
    CHECK(condition("Accepted").at("status") == "False");
    CHECK(condition("Accepted").at("reason") == "DanglingReference");
    CHECK(condition("Accepted").at("message") == "without effect: spec.rules: is not there");
    CHECK(condition("Programmed").at("reason") == "NotAccepted");
    statuses[kTarget] = applied(1);
    problems.clear();
    writer->on_mesh();
    executor.run_for(1min);
    CHECK(condition("Accepted").at("status") == "True");
    CHECK(condition("Programmed").at("status") == "True");
  }

  TEST_CASE_FIXTURE(Fixture, "a change travels: pending with its share, then applied") {
    statuses[kTarget].phase = ObjectPhase::kPending;
    statuses[kTarget].applied = 1;
    start();
    executor.run_for(2s);
    CHECK(condition("Programmed").at("status") == "False");
    CHECK(condition("Programmed").at("reason") == "Pending");
    CHECK(condition("Programmed").at("message") == "1/3 proxies");
    const json::value since = condition("Accepted").at("lastTransitionTime");
    statuses[kTarget] = applied(3);
    executor.run_for(2s);  // nobody says so: what is unsettled is looked at again
    CHECK(condition("Programmed").at("status") == "True");
    CHECK(condition("Programmed").at("lastTransitionTime") != since);
    CHECK(condition("Accepted").at("lastTransitionTime") == since);  // it did not turn
  }

  TEST_CASE_FIXTURE(Fixture, "a proxy's refusal is quoted") {
    statuses[kTarget].phase = ObjectPhase::kRefused;
    statuses[kTarget].applied = 2;
    statuses[kTarget].lagging = {{ProxyId("u"), {"shop", "web-1"}, true, "regex is too large"}};
    start();
    executor.run_for(2s);
    CHECK(condition("Programmed").at("reason") == "RefusedByProxy");
    CHECK(condition("Programmed").at("message") ==
          "2/3 proxies; shop/web-1 refuses it: regex is too large");
  }

  TEST_CASE_FIXTURE(Fixture, "long texts are cut between characters, within the CRDs' limit") {
    std::string text;
    for (int i = 0; i < 20'000; ++i) text += "\u20ac";
    statuses[kTarget] = rejected({problem(text), problem(text)});
    statuses[kTarget].phase = ObjectPhase::kRefused;
    statuses[kTarget].lagging = {{ProxyId("u"), {"shop", "web-1"}, true, text}};
    problems = statuses[kTarget].problems;
    start();
    executor.run_for(2s);
    for (const char* type : {"Accepted", "Programmed"}) {
      const std::string message(condition(type).at("message").as_string());
      CHECK(message.size() < 5000);
      CHECK(is_utf8(message));
    }
  }

  TEST_CASE_FIXTURE(Fixture, "proxies that come and go change the count, but not at once") {
    start();
    executor.run_for(2s);
    for (int i = 0; i < 300; ++i) {  // five minutes of pods that come, one a second
      statuses[kTarget] = applied(4 + static_cast<std::size_t>(i));
      writer->on_mesh();
      executor.run_for(1s);
    }
    CHECK(writes_of("patch") <= 12);
    executor.run_for(1min);
    CHECK(condition("Programmed").at("message") == "303/303 proxies");
  }

  TEST_CASE_FIXTURE(Fixture,
                    "only the replica whose turn it is writes, and it goes on from there") {
    leads = false;
    start();
    executor.run_for(1min);
    CHECK(api.writes().empty());
    CHECK(asked == 0);
    leads = true;
    writer->on_mesh();
    executor.run_for(2s);
    CHECK(writes_of("patch") == 1);

    std::optional<StatusWriter> first = std::nullopt;
    leads = false;
    writer->on_mesh();
    executor.run_for(2s);
    writer.reset();
    leads = true;
    start("controller-b");
    executor.run_for(1min);
    CHECK(writes_of("patch") == 1);  // it says the same: nothing is written
    statuses[kTarget] = applied(5);
    writer->on_objects({kTarget});
    executor.run_for(2s);
    CHECK(writes_of("patch") == 2);
    CHECK(condition("Accepted").at("lastTransitionTime") == "2024-01-01T00:01:01Z");
  }

  TEST_CASE_FIXTURE(Fixture, "a thousand policies are written at a rate, and all of them") {
    for (int i = 0; i < 1000; ++i) {
      const std::string name = "p" + std::to_string(i);
      put_policy(name);
      statuses[{kinds::kTrafficTarget, "shop", name}] = applied(1);
    }
    start();
    executor.run_for(2s);
    const std::size_t first = writes_of("patch");
    CHECK(first >= 100);
    CHECK(first <= 120);
    executor.run_for(30s);
    CHECK(writes_of("patch") <= first + 300);
    executor.run_for(2min);
    CHECK(writes_of("patch") == 1001);
  }

  TEST_CASE_FIXTURE(Fixture, "policies that change all the time do not delay the others") {
    std::vector<ObjectKey> restless;
    for (int i = 0; i < 200; ++i) {
      const std::string name = "p" + std::to_string(i);
      put_policy(name);
      restless.push_back({kinds::kTrafficTarget, "shop", name});
      statuses[restless.back()] = applied(1);
    }
    start();
    for (int second = 0; second < 40; ++second) {
      for (const ObjectKey& key : restless) statuses[key] = applied(2 + second);
      writer->on_objects(restless);
      executor.run_for(1s);
    }
    CHECK(condition("Programmed").at("status") == "True");  // of "web-api", the last
  }

  TEST_CASE_FIXTURE(Fixture, "a status that the API server refuses for now is written later") {
    api.set_fault([](const std::string& call) {
      return call.rfind("patch", 0) == 0 ? Status(Error{ErrorCode::kConflict, "changed"})
                                         : Status();
    });
    start();
    executor.run_for(10s);
    CHECK(json::serialize(condition("Accepted")) == "{}");
    api.set_fault(nullptr);
    executor.run_for(2s);
    CHECK(condition("Accepted").at("status") == "True");
  }

  TEST_CASE_FIXTURE(Fixture, "an object that is gone, or outside of the mesh, gets no status") {
    statuses.clear();
    start();
    executor.run_for(1min);
    CHECK(api.writes().empty());
    statuses[kTarget] = applied(1);
    REQUIRE(api.remove(kTrafficTargets, "shop", "web-api", {}).ok());
    api.forget_writes();
    writer->on_objects({kTarget});
    executor.run_for(1min);
    CHECK(api.count(kTrafficTargets) == 0);  // above all it is not created again
  }

  TEST_CASE_FIXTURE(Fixture, "conditions of others stay") {
    api.edit(kTrafficTargets, "shop", "web-api", [](json::object&) {});
    const json::object body{
        {"apiVersion", kTrafficTargets.api_version()},
        {"kind", "TrafficTarget"},
        {"metadata", {{"name", "web-api"}, {"namespace", "shop"}}},
        {"status",
         {{"conditions", json::array{json::object{{"type", "Reviewed"}, {"status", "True"}}}}}}};
    REQUIRE(api.patch(kTrafficTargets, "shop", "web-api",
                      {.type = PatchType::kApply,
                       .body = json::serialize(body),
                       .subresource = "status",
                       .field_manager = "them"})
                .ok());
    start();
    executor.run_for(2s);
    CHECK(condition("Reviewed").at("status") == "True");
    CHECK(condition("Accepted").at("status") == "True");
  }
}

TEST_SUITE("kubernetes::StatusWriter, of lost statuses") {
  TEST_CASE_FIXTURE(StoredFixture, "a status that somebody wiped is written again") {
    overwrite_status(nullptr);
    CHECK(condition("Accepted").at("status") == "True");
    CHECK(condition("Programmed").at("message") == "3/3 proxies");
    CHECK(writes_of("patch") == 2);
  }

  TEST_CASE_FIXTURE(StoredFixture, "the late write of a former writer is corrected") {
    json::value late =
        list_at(map_at(api.at(kTrafficTargets, "shop", "web-api"), "status"), "conditions");
    late.at(1).as_object()["message"] = "1/3 proxies";
    late.at(1).as_object()["status"] = "False";
    overwrite_status(std::move(late));
    CHECK(condition("Programmed").at("message") == "3/3 proxies");
    CHECK(condition("Programmed").at("status") == "True");
    CHECK(writes_of("patch") == 2);
  }

  TEST_CASE_FIXTURE(StoredFixture, "an object that was replaced by force gets its status") {
    REQUIRE(api.remove(kTrafficTargets, "shop", "web-api", {}).ok());
    put_policy("web-api");
    writer->on_objects({kTarget});
    executor.run_for(2s);
    CHECK(condition("Accepted").at("status") == "True");
    CHECK(condition("Programmed").at("observedGeneration") == 1);
  }

  TEST_CASE_FIXTURE(StoredFixture, "a store that lags behind the own write repeats none") {
    server_statuses->lag(kTarget);
    statuses[kTarget] = applied(4);
    writer->on_objects({kTarget});
    executor.run_for(2s);
    for (int i = 0; i < 10; ++i) {
      writer->on_mesh();
      executor.run_for(1min);
    }
    CHECK(condition("Programmed").at("message") == "4/4 proxies");
    CHECK(writes_of("patch") == 2);
    server_statuses->lagging = false;
    writer->on_statuses({kTarget});
    executor.run_for(10s);
    CHECK(writes_of("patch") == 2);
  }

  TEST_CASE_FIXTURE(StoredFixture, "a status that a restored server took back is written again") {
    const StoredStatus backup = server_statuses->status_of(kTarget);
    statuses[kTarget] = applied(4);
    writer->on_objects({kTarget});
    executor.run_for(2s);
    writer->on_statuses({kTarget});  // the store has the own write
    executor.run_for(2s);
    REQUIRE(writes_of("patch") == 2);
    server_statuses->late = backup;
    server_statuses->lagging = true;
    writer->on_statuses({kTarget});
    executor.run_for(2s);
    CHECK(writes_of("patch") == 3);
    for (int i = 0; i < 10; ++i) {
      writer->on_mesh();
      executor.run_for(1min);
    }
    CHECK(writes_of("patch") == 3);
  }

  TEST_CASE_FIXTURE(StoredFixture, "the next writer lists nothing and writes what differs") {
    leads = false;
    writer->on_mesh();
    executor.run_for(2s);
    writer.reset();
    std::size_t lists = 0;
    api.set_fault([&](const std::string& call) {
      lists += call.rfind("list", 0) == 0;
      return Status();
    });
    leads = true;
    start("controller-b");
    executor.run_for(1min);
    CHECK(writes_of("patch") == 1);
    statuses.clear();  // it leaves the mesh
    writer->on_objects({kTarget});
    executor.run_for(2s);
    CHECK(json::serialize(condition("Accepted")) == "{}");
    CHECK(lists == 0);
  }
}

TEST_SUITE("kubernetes::StatusWriter, of several replicas") {
  TEST_CASE_FIXTURE(Fixture, "a replica that has not read a version is waited for, and said so") {
    statuses[kTarget] = behind(3, 4);
    start();
    executor.run_for(2s);
    CHECK(condition("Programmed").at("message") ==
          "3/4 proxies; 1 of 2 replicas of the control plane have not read it yet");
    CHECK(condition("Programmed").at("reason") == "Pending");
    statuses[kTarget] = applied(4);
    executor.run_for(2s);  // it is looked at again
    CHECK(condition("Programmed").at("message") == "4/4 proxies");
  }

  TEST_CASE_FIXTURE(Fixture, "a replica that has just come takes nothing back") {
    start();
    executor.run_for(2s);
    REQUIRE(condition("Programmed").at("message") == "3/3 proxies");
    statuses[kTarget] = behind(3, 3);
    writer->on_objects({kTarget});
    executor.run_for(10s);
    CHECK(writes_of("patch traffic") == 1);
    statuses[kTarget] = applied(4);
    executor.run_for(2s);
    CHECK(condition("Programmed").at("message") == "4/4 proxies");
  }

  TEST_CASE_FIXTURE(Fixture, "a proxy that lags takes back what was said") {
    start();
    executor.run_for(2s);
    statuses[kTarget].phase = ObjectPhase::kPending;
    statuses[kTarget].applied = 2;
    writer->on_objects({kTarget});
    executor.run_for(2s);
    CHECK(condition("Programmed").at("reason") == "Pending");
  }

  TEST_CASE_FIXTURE(Fixture, "a replica that cannot tell is named, not waited for") {
    statuses[kTarget].replicas = 2;
    statuses[kTarget].replicas_unknown = {"controller-b"};
    start();
    executor.run_for(2s);
    CHECK(condition("Programmed").at("message") ==
          "3/3 proxies; 1 of 2 replicas of the control plane cannot tell which proxies have it");
    CHECK(condition("Programmed").at("status") == "True");
  }

  TEST_CASE_FIXTURE(Fixture, "while nobody knows who lives nothing is claimed") {
    statuses[kTarget].phase = ObjectPhase::kPending;
    statuses[kTarget].replicas_known = false;
    start();
    executor.run_for(10s);
    CHECK(writes_of("patch") == 0);
    statuses[kTarget] = applied(3);
    executor.run_for(2s);  // it asks again by itself
    CHECK(condition("Programmed").at("message") == "3/3 proxies");
  }
}

TEST_SUITE("kubernetes::StatusWriter, outside of the mesh") {
  TEST_CASE_FIXTURE(Fixture, "conditions of objects that leave the mesh are removed once") {
    start();
    executor.run_for(2s);
    REQUIRE(condition("Accepted").at("status") == "True");
    put_namespace("other-mesh");
    executor.run_for(2s);
    CHECK(json::serialize(condition("Accepted")) == "{}");
    CHECK(json::serialize(condition("Programmed")) == "{}");
    CHECK(writes_of("patch") == 2);
    executor.run_for(10min);
    CHECK(writes_of("patch") == 2);
    put_namespace("osm");
    executor.run_for(2s);
    CHECK(condition("Programmed").at("message") == "3/3 proxies");
  }

  TEST_CASE_FIXTURE(Fixture, "objects that left without a writer are handled by the next one") {
    start();
    executor.run_for(2s);
    writer.reset();
    store.remove({kinds::kNamespace, "", "shop"});
    start("controller-b");
    executor.run_for(2s);
    CHECK(json::serialize(condition("Accepted")) == "{}");
    CHECK(writes_of("patch") == 2);
  }

  TEST_CASE_FIXTURE(Fixture, "nothing is taken back before the namespaces are known") {
    start();
    executor.run_for(2s);
    writer.reset();
    store.remove({kinds::kNamespace, "", "shop"});
    store.set_synced(false);
    start("controller-b");
    executor.run_for(1min);
    CHECK(writes_of("patch") == 1);
    put_namespace("osm");
    store.set_synced(true);
    executor.run_for(1min);
    CHECK(writes_of("patch") == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "objects outside the mesh are left alone") {
    put_namespace("other-mesh");
    statuses[kTarget] = rejected({problem()});
    problems = {problem()};
    start();
    executor.run_for(1min);
    CHECK(writes_of("patch") == 0);
  }

  TEST_CASE_FIXTURE(Fixture, "an object that is deleted and created again has a status again") {
    start();
    executor.run_for(2s);
    REQUIRE(api.remove(kTrafficTargets, "shop", "web-api", {}).ok());
    put_policy("web-api");
    REQUIRE(json::serialize(condition("Accepted")) == "{}");
    writer->on_objects({kTarget});
    executor.run_for(1min);
    CHECK(json::serialize(condition("Accepted")) != "{}");
  }

  TEST_CASE_FIXTURE(Fixture, "a deleted object is not written again") {
    start();
    executor.run_for(2s);
    REQUIRE(api.remove(kTrafficTargets, "shop", "web-api", {}).ok());
    store.remove(kTarget);
    statuses.clear();
    api.forget_writes();
    writer->on_objects({kTarget});
    executor.run_for(1min);
    CHECK(api.writes().empty());
  }
}

TEST_SUITE("kubernetes::EventWriter") {
  TEST_CASE_FIXTURE(Fixture, "a refusal is an Event on its object, once, whoever's turn it is") {
    const std::vector<Problem> wrong{problem()};
    EventWriter first(api, runtime, store, "controller-a");
    first.tell(wrong);
    first.tell(wrong);
    EventWriter second(api, runtime, store, "controller-b");
    second.tell(wrong);
    REQUIRE(api.count(kEvents) == 1);
    const auto page = [&] {
      json::object event;
      auto listed = api.list({.resource = kEvents, .ns = "shop"},
                             [&](Result<ListPage> answer) { event = answer->items.at(0); });
      return event;
    }();
    CHECK(page.at("reason") == "InvalidField");
    CHECK(page.at("note") == "spec.rules: must not be empty");
    CHECK(page.at("type") == "Warning");
    CHECK(page.at("regarding").at("name") == "web-api");
    CHECK(page.at("regarding").at("uid") == "uid-1");
    CHECK(page.at("eventTime") == "2024-01-01T00:00:00.000000Z");
  }

  TEST_CASE_FIXTURE(Fixture, "problems without an object or effect are no Events") {
    EventWriter events(api, runtime, store, "a");
    Problem unused = problem();
    unused.code = ErrorCode::kUnusedField;
    Problem gone = problem();
    gone.object.name = "gone";
    events.tell({unused, gone, {ErrorCode::kUnreadableSource, {}, "x", 0, "", "away"}});
    CHECK(api.count(kEvents) == 0);
    CHECK_FALSE(events.behind());
  }

  TEST_CASE_FIXTURE(Fixture, "a flood of refusals is told at a rate, and all of it") {
    std::vector<Problem> flood;
    for (int i = 0; i < 200; ++i) flood.push_back(problem("fault " + std::to_string(i)));
    EventWriter events(api, runtime, store, "a");
    events.tell(flood);
    CHECK(api.count(kEvents) == 25);
    CHECK(events.behind());
    for (int i = 0; i < 400; ++i) {
      clock.advance(1s);
      events.tell(flood);
    }
    CHECK(api.count(kEvents) == 200);
    CHECK_FALSE(events.behind());
  }

  TEST_CASE_FIXTURE(Fixture, "a note is cut where the API's bound is, between characters") {
    std::string longest;
    while (longest.size() < 2000) longest += "ä";
    EventWriter events(api, runtime, store, "a");
    events.tell({problem(longest)});
    json::object event;
    auto listed = api.list({.resource = kEvents},
                           [&](Result<ListPage> answer) { event = answer->items.at(0); });
    const std::string note(event.at("note").as_string());
    CHECK(note.size() <= 1024);
    CHECK(note.size() > 1000);
    CHECK(note.substr(note.size() - 2) == "ä");
  }
}
