// A proxy on trial gets another mesh and returns to its own.
#include <doctest/doctest.h>

#include "ads/hub_rig.hpp"

using namespace osm;
using namespace osm::ads_test;
using namespace std::chrono_literals;
using ads::Response;
using ads::TrialResult;
using translate_test::kClient;
using translate_test::kServer;
using Outcome = ads::TrialResult::Outcome;

namespace {

const model::ProxyKey kServerKey{kServer.ns, kServerId};
const model::ProxyKey kClientKey{kClient.ns, kClientId};

void ask_as_server(RigProxy& proxy) {
  proxy.ask(XdsType::kCluster);
  proxy.ask(XdsType::kSecret, kSecretNames);
  proxy.ask(XdsType::kListener);
  proxy.ask(XdsType::kRoute, {"rds-inbound.14001"});
}

// A server that may be called in the mesh, and a mesh in which it may not: other routes.
struct TrialRig : HubRig {
  TrialRig() {
    ask_as_server(server);
    server.settle();
    refusals =
        hub.subscribe_refusals([this](const ads::Refusal& refusal) { told.push_back(refusal); });
    TestMesh closed;
    closed.allow(false);
    other = closed.next();
  }
  void try_on(const model::ProxyKey& proxy, ads::MeshPtr tried, ads::MeshPtr without = nullptr) {
    hub.trials().try_on(proxy, {std::move(tried), std::move(without)},
                        [this](const TrialResult& result) { results.push_back(result); });
    executor.run_until_idle();
  }
  // The mesh of all, as it was published first.
  ads::MeshPtr hub_mesh() const { return TestMesh().next(); }
  std::string routes() const {  // that the server acknowledged
    const auto set = hub.find("server-vm").at(0).acknowledged[ads::index_of(XdsType::kRoute)];
    return set ? set->version() : "";
  }

  RigProxy server{*this, kServerId, kServer};
  std::vector<ads::Refusal> told;
  Subscription refusals;
  ads::MeshPtr other;
  std::vector<TrialResult> results;
};

}  // namespace

TEST_SUITE("ads::Hub trials") {
  TEST_CASE("a proxy on trial holds another mesh than its class, and goes back to it") {
    TrialRig rig;
    const std::string before = rig.routes();
    RigProxy client(rig, kClientId, kClient);
    client.ask_for_all();
    client.settle();

    rig.try_on(kServerKey, rig.other);
    CHECK(rig.results.empty());
    const auto received = rig.server.settle();
    REQUIRE(received.size() == 1);
    CHECK(received.front().type == XdsType::kRoute);
    REQUIRE(rig.results.size() == 1);
    CHECK(rig.results.front().outcome == Outcome::kAccepted);
    CHECK(rig.results.front().applied_generation == 1);
    CHECK(rig.routes() != before);
    CHECK(client.settle().empty());

    rig.hub.trials().end_trial(kServerKey, false);
    rig.server.settle();
    CHECK(rig.routes() == before);
    CHECK(rig.results.size() == 1);
  }

  TEST_CASE("a refusal in a trial is reported to the trial's caller only") {
    TrialRig rig;
    const std::string before = rig.routes();
    rig.server.refuses = [](const Response& r) { return r.type == XdsType::kRoute; };
    rig.try_on(kServerKey, rig.other);
    rig.server.settle();
    REQUIRE(rig.results.size() == 1);
    CHECK(rig.results.front().outcome == Outcome::kRefused);
    CHECK(rig.results.front().type == XdsType::kRoute);
    CHECK(rig.results.front().detail == "not to my taste");
    CHECK(rig.told.empty());
    CHECK(rig.metrics.sum("osm_nack_total") == 0);

    rig.server.refuses = nullptr;
    rig.hub.trials().end_trial(kServerKey, false);
    rig.server.settle();
    CHECK(rig.routes() == before);
  }

  TEST_CASE("a refusal of the real mesh is told, and looked at again where the proxy stands") {
    TrialRig rig;
    // The replacement is accepted.
    rig.server.refuses = [refused = 0](const Response& r) mutable {
      return r.type == XdsType::kRoute && refused++ == 0;
    };
    rig.mesh.allow(false);
    rig.publish();
    rig.server.settle();
    REQUIRE(rig.told.size() == 1);
    CHECK(rig.told.front().proxy == kServerKey);
    CHECK(rig.told.front().detail == "not to my taste");
    CHECK(rig.metrics.value("osm_nack_total", {{"type", "RDS"}, {"object_kind", "unknown"}}) == 1);
    rig.try_on(kServerKey, nullptr);
    REQUIRE(rig.results.size() == 1);
    CHECK(rig.results.front().outcome == Outcome::kRefused);
    CHECK(rig.results.front().applied_generation == 1);
    rig.hub.trials().end_trial(kServerKey, false);

    // The mesh as it was before is accepted.
    rig.server.refuses = nullptr;
    rig.mesh.allow(true);
    rig.publish();
    rig.server.settle();
    rig.try_on(kServerKey, nullptr);
    REQUIRE(rig.results.size() == 2);
    CHECK(rig.results.back().outcome == Outcome::kAccepted);
    CHECK(rig.results.back().applied_generation == 3);
  }

  TEST_CASE("a proxy that goes, or is not there, ends its trial") {
    TrialRig rig;
    rig.try_on(kServerKey, rig.other);
    rig.server.hang_up();
    REQUIRE(rig.results.size() == 1);
    CHECK(rig.results.front().outcome == Outcome::kGone);
    rig.try_on(kServerKey, rig.other);
    REQUIRE(rig.results.size() == 2);
    CHECK(rig.results.back().outcome == Outcome::kGone);
    RigProxy again(rig, kServerId, kServer);
    again.ask(XdsType::kCluster);
    CHECK(again.settle().size() == 1);
  }

  TEST_CASE("a proxy that does not answer is waited for ten seconds") {
    TrialRig rig;
    rig.try_on(kServerKey, rig.other);
    rig.server.finish_write();
    rig.executor.run_for(9s);
    CHECK(rig.results.empty());
    rig.executor.run_for(2s);
    REQUIRE(rig.results.size() == 1);
    CHECK(rig.results.front().outcome == Outcome::kTimedOut);
  }

  TEST_CASE("a proxy with a mesh of its own follows that one, and returns to the mesh of all") {
    TrialRig rig;
    const std::string open = rig.routes();
    RigProxy client(rig, kClientId, kClient);
    client.ask_for_all();
    client.settle();
    rig.hub.update_mesh({7, {rig.other, nullptr}, rig.other->changes, 1, "all"});
    rig.hub.assign_mesh(kServerKey, 7);
    rig.executor.run_until_idle();
    CHECK(rig.server.settle().size() == 1);
    const std::string closed = rig.routes();
    CHECK(closed != open);
    CHECK(client.settle().empty());
    CHECK(rig.hub.progress({kServerKey}).front().generation == 1);

    SUBCASE("a change of the mesh of all does not reach it before its own mesh changes") {
      rig.mesh.allow(false);
      rig.publish();
      CHECK(rig.server.settle().empty());
      CHECK(rig.hub.progress({kServerKey}).front().generation == 1);
      model::Changes none;
      rig.hub.update_mesh({7, {rig.other, nullptr}, none, 2, "all"});
      rig.executor.run_until_idle();
      CHECK(rig.server.settle().empty());
      CHECK(rig.hub.progress({kServerKey}).front().generation == 2);
    }
    SUBCASE("after it reconnects") {
      rig.server.hang_up();
      RigProxy again(rig, kServerId, kServer);
      ask_as_server(again);
      again.settle();
      CHECK(rig.routes() == closed);
    }
    SUBCASE("a trial of it ends in its own mesh") {
      rig.try_on(kServerKey, rig.hub_mesh());
      rig.server.settle();
      CHECK(rig.routes() == open);
      rig.hub.trials().end_trial(kServerKey, false);
      rig.server.settle();
      CHECK(rig.routes() == closed);
    }
    SUBCASE("back in the mesh of all") {
      rig.hub.assign_mesh(kServerKey, ads::kMeshOfAll);
      rig.hub.drop_mesh(7);
      rig.executor.run_until_idle();
      rig.server.settle();
      CHECK(rig.routes() == open);
    }
  }

  TEST_CASE("of a frozen resource a proxy keeps what it has, and one without it is not sent it") {
    TrialRig rig;
    const std::string before = rig.routes();
    rig.try_on(kServerKey, rig.other, rig.hub_mesh());  // the routes differ
    CHECK(rig.server.settle().empty());
    CHECK(rig.routes() == before);
    REQUIRE(rig.results.size() == 1);
    CHECK(rig.results.front().outcome == Outcome::kAccepted);
    rig.hub.trials().end_trial(kServerKey, false);

    rig.hub.update_mesh({7, {rig.other, rig.hub_mesh()}, rig.other->changes, 1, "all"});
    rig.hub.assign_mesh(kServerKey, 7);
    rig.server.hang_up();
    RigProxy again(rig, kServerId, kServer);
    ask_as_server(again);
    for (const Response& response : again.settle()) CHECK(response.type != XdsType::kRoute);
    CHECK(again.open());

    std::vector<ads::ResourceNames> differing;
    rig.hub.trials().compare(kServerKey, {{rig.other, rig.hub_mesh()}, {rig.other, rig.other}},
                             [&](const auto& names) { differing = names; });
    rig.executor.run_until_idle();
    CHECK(differing ==
          std::vector<ads::ResourceNames>{{{XdsType::kRoute, "rds-inbound.14001"}}, {}});
  }

  TEST_CASE("a trial without anything left of a kind closes no stream") {
    TrialRig rig;
    RigProxy client(rig, kClientId, kClient);
    client.ask_for_all();
    client.settle();
    rig.try_on(kClientKey, rig.other);
    client.settle();
    CHECK(client.open());
    rig.executor.run_for(11s);
    REQUIRE(rig.results.size() == 1);
    CHECK(rig.results.front().outcome == Outcome::kAccepted);
    rig.hub.trials().end_trial(kClientKey, false);
    client.settle();
    CHECK(client.open());
  }
}
