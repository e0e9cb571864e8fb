// One replica at a time holds a Lease, whatever the clocks show.
#include "kubernetes/upkeep/lease.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <regex>

#include "kubernetes/upkeep/upkeep_fixture.hpp"

using namespace osm;
using namespace osm::kubernetes;
using namespace osm::kubernetes_test;
using namespace std::chrono_literals;

namespace {

struct Fixture : UpkeepFixture {
  // A replica's Lease, and its only handle.
  struct Standing {
    explicit Standing(const ReplicaBoardOptions& options) : lease(options) {}
    bool held() const { return lease.leads(); }
    void stop() { lease.stop(); }

    Lease lease;
    Subscription handle;
  };
  std::unique_ptr<Standing> replica(const std::string& name) {
    auto made = std::make_unique<Standing>(
        ReplicaBoardOptions{.cluster = cluster, .runtime = runtime, .replica = name});
    made->handle = made->lease.stand([this, name] { acquired.push_back(name); });
    return made;
  }
  json::object spec() {
    return api.at(kLeases, "osm-system", "osm-controller-osm").at("spec").as_object();
  }
  // Somebody else's renewal, as another clock writes it.
  void renew_as(const std::string& holder) {
    api.edit(kLeases, "osm-system", "osm-controller-osm", [&](json::object& lease) {
      lease["spec"].as_object()["holderIdentity"] = holder;
      lease["spec"].as_object()["renewTime"] =
          "1999-01-01T00:00:00.00000" + std::to_string(++renewals % 10) + "Z";
    });
  }

  std::vector<std::string> acquired;
  int renewals = 0;
};

}  // namespace

TEST_SUITE("kubernetes::Lease") {
  TEST_CASE_FIXTURE(Fixture, "the first replica makes it and holds it; the second waits") {
    auto first = replica("a");
    executor.run_until_idle();
    auto second = replica("b");
    executor.run_for(1h);
    CHECK(first->held());
    CHECK_FALSE(second->held());
    CHECK(acquired == std::vector<std::string>{"a"});
    CHECK(spec().at("holderIdentity") == "a");
    CHECK(spec().at("leaseDurationSeconds") == 15);
    // metav1.MicroTime takes nothing else.
    CHECK(std::regex_match(std::string(spec().at("renewTime").as_string()),
                           std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)")));
  }

  TEST_CASE_FIXTURE(Fixture, "a holder that goes gives it up, and the other need not wait") {
    auto first = replica("a");
    auto second = replica("b");
    executor.run_for(10s);
    REQUIRE(first->held());
    first.reset();
    executor.run_for(9s);
    CHECK(second->held());
    CHECK(spec().at("leaseTransitions") == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "a replica without a handle asks for nothing") {
    Lease lease({.cluster = cluster, .runtime = runtime, .replica = "a"});
    executor.run_for(1h);
    CHECK(api.count(kLeases) == 0);
    Subscription handle = lease.stand({});
    executor.run_until_idle();
    CHECK(lease.leads());
    CHECK(metrics.value("osm_lease_held") == 1);
    handle.reset();
    CHECK_FALSE(lease.leads());
    executor.run_until_idle();
    CHECK(spec().at("holderIdentity") == "");
    CHECK(metrics.value("osm_lease_held") == 0);
    api.forget_writes();
    std::size_t calls = 0;
    api.set_fault([&](const std::string&) {
      ++calls;
      return Status();
    });
    executor.run_for(1h);
    CHECK(calls == 0);
    api.set_fault({});
  }

  TEST_CASE_FIXTURE(Fixture, "a holder that resigned takes nothing back from the next one") {
    auto first = replica("a");
    executor.run_until_idle();
    auto second = replica("b");
    first->handle.reset();
    for (int i = 0; i < 20; ++i) {
      executor.run_for(500ms);
      CHECK(first->held() + second->held() <= 1);
    }
    CHECK(second->held());
    first->handle = first->lease.stand([this] { acquired.push_back("a"); });
    for (int i = 0; i < 60; ++i) {
      executor.run_for(500ms);
      CHECK_FALSE(first->held());
      CHECK(second->held());
    }
    CHECK(acquired == std::vector<std::string>{"a", "b"});
  }

  TEST_CASE_FIXTURE(Fixture, "a holder that fell silent is followed after the Lease's duration") {
    auto first = replica("a");
    executor.run_until_idle();
    first->stop();  // it has crashed: it neither renews nor gives up
    auto second = replica("b");
    executor.run_for(14s);
    CHECK_FALSE(second->held());
    executor.run_for(6s);
    CHECK(second->held());
    CHECK_FALSE(first->held());
  }

  TEST_CASE_FIXTURE(Fixture, "a holder that renews keeps the Lease, whatever its clock") {
    auto lease = replica("b");
    executor.run_until_idle();
    REQUIRE(lease->held());
    renew_as("a");
    for (int i = 0; i < 20; ++i) {
      executor.run_for(9s);
      renew_as("a");
      CHECK_FALSE(lease->held());
    }
    executor.run_for(20s);  // and now it has stopped
    CHECK(lease->held());
  }

  TEST_CASE_FIXTURE(Fixture, "a holder that cannot renew stops before anybody else may begin") {
    auto first = replica("a");
    executor.run_for(20s);
    REQUIRE(first->held());
    api.set_fault([](const std::string&) {
      return Status(Error{ErrorCode::kUnavailable, "away"});
    });
    executor.run_for(4s);
    const bool late = first->held();  // it does not stop at the first hitch
    executor.run_for(10s);
    CHECK_FALSE(first->held());
    CHECK(late);
    CHECK(log.lines_with("cannot be read").size() == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "of two replicas that take the Lease at once one gets it") {
    auto first = replica("a");
    executor.run_until_idle();
    first->stop();
    auto second = replica("b");
    auto third = replica("c");
    for (int i = 0; i < 60; ++i) {
      executor.run_for(500ms);
      CHECK_FALSE((second->held() && third->held()));
    }
    CHECK(second->held() != third->held());
  }

  TEST_CASE_FIXTURE(Fixture,
                    "the holder renews by one request, and reads a Lease that was changed") {
    std::size_t gets = 0;  // outlives the replica, which releases its Lease at its end
    auto first = replica("a");
    executor.run_until_idle();
    api.set_fault([&](const std::string& call) {
      gets += call.starts_with("get");
      return Status();
    });
    api.forget_writes();
    executor.run_for(1min);
    CHECK(first->held());
    CHECK(gets == 0);
    CHECK(api.writes().size() <= 10);
    api.edit(kLeases, "osm-system", "osm-controller-osm", [](json::object& lease) {
      lease["metadata"].as_object()["labels"] = {{"a", "b"}};
    });
    executor.run_for(9s);
    CHECK(gets == 1);
    executor.run_for(1min);
    CHECK(gets == 1);
    CHECK(first->held());
    CHECK(acquired.size() == 1);
    CHECK(api.at(kLeases, "osm-system", "osm-controller-osm")
              .at("metadata")
              .at("labels")
              .as_object()
              .contains("a"));
  }

  TEST_CASE_FIXTURE(Fixture, "a calendar that jumps changes nothing") {
    auto first = replica("a");
    auto second = replica("b");
    executor.run_for(5s);
    clock.set_wall(clock.wall_now() + 24h);
    executor.run_for(5s);
    clock.set_wall(clock.wall_now() - 48h);
    executor.run_for(5s);
    CHECK(first->held());
    CHECK_FALSE(second->held());
    CHECK(acquired.size() == 1);
  }
}
