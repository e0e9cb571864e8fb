// A hub that may not admit refuses new streams only; responses name the replica and the mesh that
// they were made from.
#include <doctest/doctest.h>

#include "ads/hub_rig.hpp"

using namespace osm;
using namespace osm::ads;
using namespace osm::ads_test;
using namespace std::chrono_literals;
using translate_test::kClient;

TEST_SUITE("ads::Hub of a stale replica") {
  TEST_CASE("new streams are refused with the cause, and present ones go on") {
    HubRig rig;
    RigProxy old(rig, kClientId, kClient);
    old.ask_for_all();
    old.settle();
    rig.admits = Error{ErrorCode::kUnavailable, "stale: replica b is not"};
    RigProxy again(rig, kClientId, kClient);
    REQUIRE(again.stream().closed);
    CHECK(again.stream().closed->code == CloseCode::kUnavailable);
    CHECK(again.stream().closed->text.find("stale: replica b is not") != std::string::npos);
    CHECK(old.open());  // the refused stream does not supersede it
    CHECK(rig.metrics.sum("osm_streams_refused_total") == 1);
    rig.admits = {};
    RigProxy later(rig, kClientId, kClient);
    CHECK(later.open());
    CHECK_FALSE(old.open());
  }

  TEST_CASE("responses name the replica, and the generation and hash of its mesh") {
    HubRig rig({.replica = "replica-a"});
    RigProxy proxy(rig, kClientId, kClient);
    proxy.ask(XdsType::kCluster);
    REQUIRE(proxy.stream().writing);
    CHECK(proxy.stream().writing->control_plane == "replica-a/1/");  // the fixture has no hash
    rig.publish();
    proxy.settle();
    proxy.ask(XdsType::kListener);
    REQUIRE(proxy.stream().writing);
    CHECK(proxy.stream().writing->control_plane == "replica-a/2/");
  }

  TEST_CASE("a response from before the newest mesh was translated names the mesh that it holds") {
    HubRig rig({.replica = "replica-a"});
    RigProxy proxy(rig, kClientId, kClient);
    proxy.ask(XdsType::kCluster);
    proxy.settle();
    rig.mesh.set_endpoints({"10.1.0.7"});
    const auto snapshot = rig.mesh.next();
    rig.hub.on_snapshot(snapshot, snapshot->changes);  // nothing translates it yet
    proxy.ask(XdsType::kEndpoint, kAssignmentNames);
    const std::vector<Response> received = proxy.settle();
    REQUIRE(received.size() == 2);
    CHECK(received.front().control_plane == "replica-a/1/");
    CHECK(received.back().control_plane == "replica-a/2/");
  }
}
