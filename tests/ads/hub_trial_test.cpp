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

// A server that may be called in the mesh, and a mesh in which it may not: other routes.
struct TrialRig : HubRig {
  TrialRig() {
    server.ask(XdsType::kCluster);
    server.ask(XdsType::kSecret, kSecretNames);
    server.ask(XdsType::kListener);
    server.ask(XdsType::kRoute, {"rds-inbound.14001"});
    server.settle();
    refusals =
        hub.subscribe_refusals([this](const ads::Refusal& refusal) { told.push_back(refusal); });
    TestMesh closed;
    closed.allow(false);
    other = closed.next();
  }
  void try_on(const model::ProxyKey& proxy, ads::TrialHost::MeshPtr tried) {
    hub.try_on(proxy, std::move(tried),
               [this](const TrialResult& result) { results.push_back(result); });
    executor.run_until_idle();
  }
  std::string routes() const {  // that the server acknowledged
    const auto set = hub.find("server-vm").at(0).acknowledged[ads::index_of(XdsType::kRoute)];
    return set ? set->version() : "";
  }

  RigProxy server{*this, kServerId, kServer};
  std::vector<ads::Refusal> told;
  Subscription refusals;
  ads::TrialHost::MeshPtr other;
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

    rig.hub.end_trial(kServerKey, 0);
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
    rig.hub.end_trial(kServerKey, 0);
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
    rig.hub.end_trial(kServerKey, 0);

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

  TEST_CASE("a proxy stays on trial until its class comes from the generation that was named") {
    TrialRig rig;
    rig.try_on(kServerKey, rig.other);
    rig.server.settle();
    const std::string tried = rig.routes();
    rig.hub.end_trial(kServerKey, 2);
    rig.executor.run_for(3s);
    CHECK(rig.server.settle().empty());
    CHECK(rig.routes() == tried);
    // It holds the mesh's present content already: nothing is sent.
    rig.mesh.allow(false);
    rig.publish();
    rig.executor.run_for(3s);
    CHECK(rig.server.settle().empty());
    rig.mesh.allow(true);
    rig.publish();
    CHECK(rig.server.settle().size() == 1);
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
    rig.hub.end_trial(kClientKey, 0);
    client.settle();
    CHECK(client.open());
  }

  TEST_CASE("parts played: listeners of dialled addresses are one part") {
    const auto set = [](const std::string& bytes) {
      std::vector<ads::EncodedPtr> listeners;
      for (const char* name :
           {"outbound-listener", "outbound_10.96.0.1_80", "outbound_10.1.0.9_80"})
        listeners.push_back(std::make_shared<const ads::EncodedResource>(
            ads::EncodedResource{XdsType::kListener, name, bytes, digest_of(bytes), {}}));
      return ads::ResourceSet::make(std::move(listeners));
    };
    CHECK(ads::roles_missing(set("a"), set("b")) ==
          std::set<std::string>{"outbound", "outbound-listener"});
  }

  TEST_CASE("parts played: routes by their direction, everything else by its name") {
    const auto set = [](const std::string& routes) {
      return ads::ResourceSet::make(
          {std::make_shared<const ads::EncodedResource>(ads::EncodedResource{
               XdsType::kRoute, "rds-inbound.80", routes, digest_of(routes), {}}),
           std::make_shared<const ads::EncodedResource>(ads::EncodedResource{
               XdsType::kRoute, "rds-outbound.80", "same", digest_of("same"), {}})});
    };
    CHECK(ads::roles_missing(set("a"), set("a")).empty());
    CHECK(ads::roles_missing(set("a"), set("b")) == std::set<std::string>{"rds-inbound"});
    CHECK(ads::roles_missing(nullptr, set("b")).empty());
    CHECK(ads::roles_missing(set("a"), nullptr) ==
          std::set<std::string>{"rds-inbound", "rds-outbound"});
  }
}
