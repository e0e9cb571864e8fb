// Propagation is measured from the announcement of a change; lengths of queues and ends of streams
// are counted.
#include <doctest/doctest.h>

#include "ads/hub_rig.hpp"

using namespace osm;
using namespace osm::ads_test;
using namespace std::chrono_literals;
using translate_test::kClient;
using translate_test::kServer;

namespace {

const ProxyId kOtherId{"33333333-3333-4333-8333-333333333333"};

struct Fixture : HubRig {
  RigProxy client{*this, kClientId, kClient};

  Fixture() {
    client.ask_for_all();
    client.settle();
  }
  std::vector<double> propagation() const {
    return metrics.observations("osm_propagation_seconds");
  }
  std::vector<double> stage(std::string_view name) const {
    return metrics.observations("osm_push_stage_seconds", {{"stage", name}});
  }
};

}  // namespace

TEST_SUITE("ads::Hub metrics") {
  TEST_CASE_FIXTURE(Fixture, "propagation is measured from the announcement of the change") {
    CHECK(propagation().empty());  // a proxy's first configuration is no change
    mesh.set_endpoints({"10.1.0.20"});
    publish(3s);
    executor.run_for(2s);
    client.settle();
    CHECK(propagation() == std::vector<double>{5});
    publish(3s);  // a generation that changes nothing for it
    client.settle();
    CHECK(propagation().size() == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "changes that are acknowledged one by one count each") {
    mesh.set_endpoints({"10.1.0.20"});
    publish(4s);
    executor.run_for(1s);
    mesh.set_endpoints({"10.1.0.21"});
    publish(1s);
    client.settle();
    CHECK(propagation() == std::vector<double>{5, 1});
  }

  TEST_CASE_FIXTURE(Fixture, "a change that moves a proxy to another class counts") {
    mesh.put(workload(kClientId, kClient, {translate_test::kServerService}));
    publish(2s);
    client.settle();
    CHECK(propagation() == std::vector<double>{2});
  }

  TEST_CASE_FIXTURE(Fixture, "a change during the build of an older one keeps its own time") {
    const auto announce = [&](const char* address, std::chrono::seconds ago) {
      mesh.set_endpoints({address});
      const auto snapshot = mesh.next();
      hub.on_snapshot(snapshot, snapshot->changes, clock.steady_now() - ago);
    };
    announce("10.1.0.20", 7s);
    announce("10.1.0.21", 1s);  // the first build has not run
    executor.run_until_idle();
    client.settle();
    CHECK(propagation() == std::vector<double>{7, 1});
    CHECK(stage("class").size() >= 2);
  }

  TEST_CASE_FIXTURE(Fixture, "a proxy that returns after a change is not counted") {
    client.hang_up();
    mesh.set_endpoints({"10.1.0.20"});
    publish();
    executor.run_for(30s);  // its class is kept, and has missed the change
    RigProxy again(*this, kClientId, kClient);
    again.ask_for_all();
    CHECK_FALSE(again.settle().empty());
    CHECK(propagation().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a renewed certificate counts, a proxy's first one does not") {
    secrets.rotate(kClient);
    executor.run_until_idle();
    executor.run_for(2s);
    client.settle();
    CHECK(propagation() == std::vector<double>{2});
  }

  TEST_CASE("the wait of new resources for a write is a stage") {
    HubRig rig({.max_unfinished_bytes = 1});
    rig.mesh.put(workload(kOtherId, kClient, {}));
    rig.publish();
    RigProxy first(rig, kClientId, kClient);
    RigProxy second(rig, kOtherId, kClient);
    for (RigProxy* proxy : {&first, &second}) {
      proxy->ask_for_all();
      proxy->settle();
    }
    const auto waits = [&] {
      return rig.metrics.observations("osm_push_stage_seconds", {{"stage", "queue"}});
    };
    REQUIRE(waits().empty());
    rig.mesh.set_endpoints({"10.1.0.20"});
    rig.publish();
    CHECK(waits() == std::vector<double>{0});
    rig.executor.run_for(4s);
    CHECK(rig.metrics.value("osm_queue_length", {{"queue", "streams"}}) == 1);
    CHECK(rig.metrics.value("osm_unfinished_write_bytes") > 0);
    first.settle();
    second.settle();
    CHECK(waits() == std::vector<double>{0, 4});
    rig.executor.run_for(1s);
    CHECK(rig.metrics.value("osm_queue_length", {{"queue", "streams"}}) == 0);
    CHECK(rig.metrics.value("osm_unfinished_write_bytes") == 0);
  }

  TEST_CASE_FIXTURE(Fixture, "ends of streams are counted by a short code") {
    const auto ended = [&](std::string_view code) {
      return metrics.value("osm_streams_ended_total", {{"code", code}});
    };
    RigProxy newer(*this, kClientId, kClient);
    CHECK(ended("superseded") == 1);
    newer.hang_up();
    CHECK(ended("hung-up") == 1);
    RigProxy recalled(*this, kClientId, kClient);
    hub.endings().recall("another key");
    CHECK(ended("recalled") == 1);
    RigProxy other(*this, kClientId, kClient);
    hub.admission().accept({TrustDomain("new.example")});
    CHECK(ended("wrong-certificate-kind") == 1);
    hub.admission().accept({kDomain});
    RigProxy removed(*this, kClientId, kClient);
    mesh.remove_workload({kClient.ns, kClientId});
    publish();
    CHECK(ended("unknown-proxy") == 1);
    RigProxy last(*this, kServerId, kServer);
    hub.endings().close_all(ads::CloseCode::kUnavailable, "shutting-down");
    CHECK(ended("shutting-down") == 1);
    CHECK(metrics.sum("osm_streams_ended_total") == 6);
  }

  TEST_CASE_FIXTURE(Fixture, "lines about refusals are bounded for each proxy") {
    const std::string line = "the proxy refused its configuration";
    for (int i = 0; i < 1000; ++i) client.refuse(XdsType::kCluster, "no nonce of ours");
    CHECK(log.count(line) == 10);
    CHECK(metrics.sum("osm_nack_total") == 1000);
    // They hide neither another proxy's, nor another line about this one.
    RigProxy server(*this, kServerId, kServer);
    server.ask_for_all();
    server.settle();
    server.refuse(XdsType::kCluster, "no nonce of ours");
    CHECK(log.count(line) == 11);
    client.hang_up();
    CHECK(log.count("proxy disconnected") == 1);
    clock.advance(10s);
    RigProxy again(*this, kClientId, kClient);
    again.ask_for_all();
    again.settle();
    again.refuse(XdsType::kCluster, "no nonce of ours");
    const auto lines = log.lines_with(line);
    REQUIRE(lines.size() == 12);
    CHECK(lines.back().fields.at("left_out") == "990");
    CHECK(lines.back().fields.at("uuid") == kClientId.str());
  }

  TEST_CASE_FIXTURE(Fixture,
                    "lines about streams are bounded for a proxy that connects all the time") {
    for (int i = 0; i < 100; ++i) RigProxy(*this, kClientId, kClient).hang_up();
    CHECK(log.count("proxy connected") == 10);
    CHECK(log.count("proxy disconnected") <= 10);
    RigProxy server(*this, kServerId, kServer);
    CHECK(log.count("proxy connected") == 11);
  }

  TEST_CASE_FIXTURE(Fixture, "counters of alarms begin at 0") {
    for (XdsType type : kXdsTypes)
      CHECK(metrics.has("osm_nack_total",
                        {{"type", xds_type_text(type)}, {"object_kind", "unknown"}}));
    CHECK(metrics.has("osm_proxy_flapping_total"));
    CHECK(metrics.has("osm_proxy_max_connections_rejected"));
  }
}
