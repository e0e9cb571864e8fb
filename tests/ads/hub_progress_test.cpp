// A proxy's generation advances when it has acknowledged everything, and lagging proxies are
// counted.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ads/hub_rig.hpp"

using namespace osm;
using namespace osm::ads;
using namespace osm::ads_test;
using namespace std::chrono_literals;
using translate_test::kClient;
using translate_test::kServer;

namespace {

const model::ProxyKey kClientKey{kClient.ns, kClientId};

// The certificates that the client holds now, with other trust domains.
model::CertificateGoal goal_of(HubRig& rig, const std::vector<std::string>& accepted,
                               const std::vector<std::string>& allowed) {
  const CertificatePtr leaf = rig.secrets.certificate_for(kClient);
  model::CertificateGoal goal{leaf->issuer_id, {}, rig.secrets.trust_bundle_pem(), kDomain};
  goal.trust_domains.accepted = std::vector<TrustDomain>(accepted.begin(), accepted.end());
  goal.trust_domains.allowed = std::vector<TrustDomain>(allowed.begin(), allowed.end());
  return goal;
}

// A client that holds everything of generation 1, and who was told to have moved.
struct Fixture : HubRig {
  RigProxy client{*this, kClientId, kClient};
  std::multiset<model::ProxyKey> moved;
  int anybody = 0;
  Subscription subscription =
      hub.subscribe_progress([this](const model::ProxyKey* key) { key ? add(*key) : any(); });

  void add(const model::ProxyKey& key) { moved.insert(key); }
  void any() { ++anybody; }

  ProxyProgress of_client() {
    const std::vector<ProxyProgress> all = hub.progress({kClientKey});
    REQUIRE(all.size() == 1);
    return all.front();
  }
  std::uint64_t generation() { return of_client().generation; }
  model::CertificateGoal goal(const std::vector<std::string>& accepted,
                              const std::vector<std::string>& allowed) {
    return goal_of(*this, accepted, allowed);
  }
};

}  // namespace

TEST_SUITE("ads::Hub progress") {
  TEST_CASE_FIXTURE(Fixture, "a new stream has no generation before it has answered everything") {
    CHECK(generation() == 0);
    client.ask(XdsType::kCluster);
    client.ask(XdsType::kSecret, kSecretNames);
    client.settle();
    CHECK(generation() == 0);  // it has not asked for what its clusters name, nor for listeners
    client.ask(XdsType::kEndpoint, kAssignmentNames);
    client.settle();
    client.ask(XdsType::kListener);
    client.settle();
    CHECK(generation() == 0);
    CHECK(moved.empty());
    client.ask(XdsType::kRoute, kRouteNames);
    CHECK(generation() == 0);
    client.settle();
    CHECK(generation() == 1);
    CHECK(moved.count(kClientKey) == 1);
    CHECK(hub.progress({{kClient.ns, kServerId}}).empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a generation without changes for a proxy counts without a response") {
    client.ask_for_all();
    client.settle();
    const std::size_t writes = client.stream().writes.size();
    publish();
    CHECK(generation() == 2);
    CHECK(anybody == 1);
    SUBCASE("also when its class had to be looked at") {
      mesh.allow(true);  // as it was
      publish();
      CHECK(generation() == 3);
      CHECK(moved.count(kClientKey) == 2);
    }
    CHECK(client.stream().writes.size() == writes);
  }

  TEST_CASE_FIXTURE(Fixture,
                    "progress stays until the proxy has answered, whatever comes meanwhile") {
    client.ask_for_all();
    client.settle();
    publish();
    publish();
    CHECK(generation() == 3);
    mesh.set_endpoints({"10.0.0.8"});
    publish();
    CHECK(generation() == 3);
    publish();  // not its concern
    CHECK(generation() == 3);
    client.settle();
    CHECK(generation() == 5);
  }

  // Endpoints change each 100 ms, and each response is acknowledged 150 ms after it was sent.
  TEST_CASE("a proxy that is slower than the changes progresses with each ACK") {
    HubRig rig;
    RigProxy proxy(rig, kClientId, kClient);
    proxy.ask_for_all();
    proxy.settle();
    std::deque<std::pair<SteadyTime, Response>> unanswered;
    std::size_t most = 0;
    for (int i = 0; i < 600; ++i) {
      if (i % 2 == 0) {
        rig.mesh.set_endpoints({"10.1.0." + std::to_string(2 + i % 200)});
        rig.publish();
      }
      if (proxy.stream().writing) {
        unanswered.emplace_back(rig.clock.steady_now() + 150ms, *proxy.stream().writing);
        proxy.finish_write();
      }
      rig.clock.advance(50ms);
      rig.executor.run_until_idle();
      most = std::max(most, unanswered.size());
      while (!unanswered.empty() && unanswered.front().first <= rig.clock.steady_now()) {
        proxy.acknowledge(unanswered.front().second);
        unanswered.pop_front();
      }
      const std::uint64_t newest = 1 + static_cast<std::uint64_t>(i / 2 + 1);
      const std::uint64_t reached = rig.hub.progress({kClientKey}).front().generation;
      REQUIRE(reached <= newest - unanswered.size());
      REQUIRE(reached + 4 >= newest);
    }
    CHECK(most > 1);
    CHECK(rig.metrics.observations("osm_propagation_seconds").size() > 100);
    for (double took : rig.metrics.observations("osm_propagation_seconds")) REQUIRE(took < 1);
  }

  TEST_CASE_FIXTURE(Fixture, "a proxy that moves to another class is no further than it was") {
    client.ask_for_all();
    client.settle();
    mesh.put(workload(kClientId, kClient, {translate_test::kServerService}));
    publish();
    CHECK(generation() == 1);
    client.settle();
    CHECK(generation() == 1);  // it has not asked for its inbound routes yet
  }

  TEST_CASE_FIXTURE(Fixture, "new secrets hold it back until it has them, and not in time") {
    client.ask_for_all();
    client.settle();
    secrets.rotate(kClient);
    executor.run_until_idle();
    CHECK(generation() == 1);
    publish();
    CHECK(generation() == 1);
    client.settle();
    CHECK(generation() == 2);
  }

  TEST_CASE_FIXTURE(Fixture, "a proxy that owes an answer for over ten seconds counts as lagging") {
    client.ask_for_all();
    client.settle();
    mesh.set_endpoints({"10.0.0.8"});
    publish();
    executor.run_for(9s);
    CHECK(metrics.value("osm_proxies_behind") == 0);
    executor.run_for(3s);
    CHECK(metrics.value("osm_proxies_behind") == 1);
    client.settle();
    executor.run_for(2s);
    CHECK(metrics.value("osm_proxies_behind") == 0);
  }

  TEST_CASE_FIXTURE(Fixture, "a disconnect is announced, and the proxy is gone") {
    client.ask_for_all();
    client.settle();
    moved.clear();
    client.hang_up();
    CHECK(moved.count(kClientKey) == 1);
    CHECK(hub.progress({kClientKey}).empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a proxy lags until it holds all trust domains") {
    const std::vector<std::string> both{"cluster.local", "new.example"};
    const auto lag = [&](const std::vector<std::string>& accepted,
                         const std::vector<std::string>& allowed) {
      const model::CertificateProgress now = hub.certificate_progress(goal(accepted, allowed));
      return now.bundle_lag();
    };
    client.ask_for_all();
    client.settle();
    CHECK(lag({"cluster.local"}, {"cluster.local"}) == 0);
    CHECK(lag(both, both) == 1);  // what is published is of before

    mesh.set_domains(both, both);
    publish();
    CHECK(lag(both, both) == 1);
    client.settle();
    CHECK(lag(both, both) == 0);
    mesh.set_endpoints({"10.0.0.8"});
    publish();
    CHECK(lag(both, both) == 0);  // behind, but not in this
    client.settle();

    mesh.set_domains({"new.example"}, both);
    publish();
    CHECK(lag({"new.example"}, both) == 1);
    client.settle();
    CHECK(lag({"new.example"}, both) == 0);
    client.refuses = [](const Response& response) { return response.type == XdsType::kCluster; };
    mesh.set_domains(both, both);
    publish();
    client.settle();
    CHECK(lag(both, both) == 1);  // it refused
  }

  TEST_CASE("a replica that starts during a domain migration waits for the proxies' state") {
    HubRig rig;
    rig.mesh.set_domains({"cluster.local", "new.example"}, {"cluster.local", "new.example"});
    Hub hub({}, {rig.runtime, rig.executor, rig.secrets, rig.registry});
    CHECK_FALSE(hub.certificate_progress({}).known);
    rig.publish();
    RigProxy proxy(rig, kClientId, kClient);
    proxy.ask(XdsType::kSecret, kSecretNames);
    proxy.settle();
    const model::CertificateGoal of_both =
        goal_of(rig, {"cluster.local", "new.example"}, {"cluster.local", "new.example"});
    CHECK(rig.hub.certificate_progress(of_both).bundle_lag() == 1);
    proxy.ask_for_all();
    proxy.settle();
    CHECK(rig.hub.certificate_progress(of_both).bundle_lag() == 0);
  }

  TEST_CASE("a leaf or a proxy certificate of another trust domain than signs now lags") {
    HubRig rig;
    RigProxy old(rig, kClientId, kClient);
    old.ask_for_all();
    old.settle();
    model::CertificateGoal of_now = goal_of(rig, {"cluster.local"}, {"cluster.local"});
    CHECK(rig.hub.certificate_progress(of_now).leaf_lag() == 0);
    of_now.trust_domains.signing = TrustDomain("new.example");
    CHECK(rig.hub.certificate_progress(of_now).leaf_lag() == 1);
    // The workload's leaf alone is not enough, nor the proxy's certificate.
    RigProxy renewed(rig, kClientId, kClient, "10.0.0.1", 24h, TrustDomain("new.example"));
    renewed.ask_for_all();
    renewed.settle();
    CHECK(rig.hub.certificate_progress(of_now).leaf_lag() == 1);
    rig.secrets.domain = TrustDomain("new.example");
    rig.secrets.rotate(kClient);
    rig.executor.run_until_idle();
    renewed.settle();
    CHECK(rig.hub.certificate_progress(of_now).leaf_lag() == 0);
  }

  TEST_CASE("a proxy of a trust domain that is none of the mesh's any more is not kept") {
    HubRig rig;
    RigProxy old(rig, kClientId, kClient);
    RigProxy other(rig, kServerId, kServer, "10.0.0.2", 24h, TrustDomain("new.example"));
    rig.hub.admission().accept({kDomain, TrustDomain("new.example")});
    CHECK(old.open());
    rig.hub.admission().accept({TrustDomain("new.example")});
    CHECK_FALSE(old.open());
    CHECK(old.stream().closed->code == CloseCode::kPermissionDenied);
    CHECK(other.open());
  }

  TEST_CASE("a proxy that was told to reconnect counts as lagging for ten seconds") {
    HubRig rig;
    RigProxy proxy(rig, kServerId, kServer);
    proxy.ask(XdsType::kListener);
    REQUIRE(proxy.settle().size() == 1);
    rig.mesh.put(workload(kServerId, kServer, {}));
    rig.publish();
    rig.executor.run_for(6s);  // its port has left
    // Nothing is left to listen for: its stream is ended, to be told so.
    const model::ProxyKey key{kServer.ns, kServerId};
    REQUIRE(rig.hub.progress({key}).size() == 1);
    CHECK(rig.hub.progress({key}).front().generation == 0);
    SUBCASE("it comes back") {
      RigProxy again(rig, kServerId, kServer);
      again.ask_for_all();
      again.settle();
      CHECK(rig.hub.progress({key}).front().generation == 2);
    }
    SUBCASE("it does not") {
      rig.executor.run_for(12s);
      CHECK(rig.hub.progress({key}).empty());
    }
  }
}
