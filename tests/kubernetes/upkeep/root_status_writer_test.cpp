// MeshRootCertificates show the progress of a rotation.
#include "kubernetes/upkeep/root_status_writer.hpp"

#include <doctest/doctest.h>

#include <optional>

#include "kubernetes/source/pods_yaml.hpp"
#include "kubernetes/upkeep/upkeep_fixture.hpp"

using namespace osm;
using namespace osm::kubernetes;
using namespace osm::kubernetes_test;
using namespace std::chrono_literals;

namespace {

struct Fixture : UpkeepFixture {
  Fixture() {
    for (const char* name : {"first", "second"}) put_root(name);
    roots = {
        {.name = kOwnRoot, .state = "inactive", .role = "inactive", .since = {}, .waiting_for = {}},
        root("first", "signing"),
        root("second", "validating", "2 of 3 proxies")};
    writer.emplace(UpkeepOptions{.cluster = cluster,
                                 .runtime = runtime,
                                 .replica = "a",
                                 .roots = RootsUpkeep{[this] { return roots; }, store}},
                   [this] { return leads; });
  }
  void put_root(const std::string& name) {
    const json::object root =
        put(kMeshRootCertificates, {{"metadata", {{"name", name}, {"namespace", "osm-system"}}},
                                    {"spec", {{"role", "active"}}}});
    store.put(testing::object_of(root));
  }
  static RootStatus root(const std::string& name, const std::string& state,
                         const std::string& waiting = "") {
    return {.name = name, .state = state, .role = "active", .since = {}, .waiting_for = waiting};
  }
  json::value status(const std::string& name) {
    const json::object held = api.at(kMeshRootCertificates, "osm-system", name);
    const json::value* status = held.if_contains("status");
    return status == nullptr ? json::value() : *status;
  }
  static json::value said(const std::string& state, const std::string& message) {
    return json::object{{"state", state}, {"message", message}};
  }

  bool leads = true;
  std::vector<RootStatus> roots;
  std::optional<RootStatusWriter> writer;
};

}  // namespace

TEST_SUITE("kubernetes::RootStatusWriter") {
  TEST_CASE_FIXTURE(Fixture, "each object says how far it is and what it waits for") {
    executor.run_for(1s);
    CHECK(status("first") == said("signing", ""));
    CHECK(status("second") == said("validating", "2 of 3 proxies"));
    roots = {root("first", "trusted"), root("second", "signing")};
    executor.run_for(1s);
    CHECK(status("first") == said("trusted", ""));
    CHECK(status("second") == said("signing", ""));
  }

  TEST_CASE_FIXTURE(Fixture, "a status names the proxies that the rotation went on without") {
    roots[2].waiting_for.clear();
    roots[2].left_behind = "1 proxies (shop/box)";
    executor.run_for(2s);
    CHECK(status("second") == said(roots[2].state, "went on without 1 proxies (shop/box)"));
  }

  TEST_CASE_FIXTURE(Fixture, "a long message is cut between two characters") {
    std::string whole;
    while (whole.size() < 10'000) whole += "\u00e9";  // two bytes each
    roots[2].waiting_for = "x" + whole;
    executor.run_for(2s);
    const std::string written = text_at(status("second"), "message");
    CHECK(written.size() > 1000);
    CHECK(written.size() % 2 == 1);
    CHECK(roots[2].waiting_for.starts_with(written));
  }

  TEST_CASE_FIXTURE(Fixture, "unchanged statuses are not written, changed ones once a second") {
    executor.run_for(1s);
    api.forget_writes();
    executor.run_for(1h);
    CHECK(api.writes().empty());
    for (int i = 0; i < 100; ++i) {
      roots[1].waiting_for = std::to_string(i) + " proxies";
      executor.run_for(100ms);
    }
    CHECK(api.writes().size() >= 9);
    CHECK(api.writes().size() <= 11);
  }

  TEST_CASE_FIXTURE(Fixture, "only the holder of the Lease writes, and a new holder writes all") {
    executor.run_for(1s);
    leads = false;
    executor.run_for(1s);
    roots[1].state = "draining";
    executor.run_for(1min);
    CHECK(status("first") == said("signing", ""));
    // Another replica's write in between.
    REQUIRE(api.patch(kMeshRootCertificates, "osm-system", "second",
                      {.body = R"({"status":{"state":"trusted"}})", .subresource = "status"})
                .ok());
    leads = true;
    executor.run_for(1s);
    CHECK(status("first") == said("draining", ""));
    CHECK(status("second") == said("validating", "2 of 3 proxies"));
  }

  TEST_CASE_FIXTURE(Fixture, "an object that was made anew gets its status again") {
    executor.run_for(1s);
    REQUIRE(api.remove(kMeshRootCertificates, "osm-system", "first", {}).ok());
    put_root("first");
    executor.run_for(1s);
    CHECK(status("first") == said("signing", ""));
  }

  TEST_CASE_FIXTURE(Fixture, "an object that is gone is not asked for") {
    roots[1].role = "";
    executor.run_for(1min);
    CHECK(status("first").is_null());
    CHECK(api.writes() == std::vector<std::string>{"patch meshrootcertificates osm-system/second"});
  }

  TEST_CASE_FIXTURE(Fixture, "a server that refuses is asked again, and the log says so once") {
    api.set_fault([](const std::string& call) {
      return call.starts_with("patch") ? Status(Error{ErrorCode::kPermissionDenied, "forbidden"})
                                       : Status();
    });
    executor.run_for(1min);
    CHECK(log.lines_with("cannot be written").size() == 1);
    api.set_fault({});
    executor.run_for(3s);
    CHECK(status("first") == said("signing", ""));
    CHECK(status("second") == said("validating", "2 of 3 proxies"));
  }
}
