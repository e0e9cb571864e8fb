// A proxy accepts at a port that it no longer serves until clients know, for five seconds at most;
// everything else reaches the port at once.
#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

#include "ads/hub_rig.hpp"

using namespace osm;
using namespace osm::ads;
using namespace osm::ads_test;
using namespace std::chrono_literals;
using namespace osm::translate_test;

namespace {

const ServiceName kOther{"server", "other"};
const std::string kAddress = "10.1.0.1";  // of every workload of the rig
const std::string kChain = "inbound_server/server_14001_http";
const std::string kApexHost = "inbound_virtual-host|apex.server.svc.cluster.local";
const model::ProxyKey kServerKey{kServer.ns, kServerId};

model::ServiceEntry other_entry() {
  model::ServiceEntry entry = server_entry();
  entry.name = kOther;
  entry.cluster_ip = "10.96.10.8";
  entry.ports = {port(kOther, 80, 14002)};
  return entry;
}

// A client that sends to two endpoints of a Service. One is the server, which has another Service
// besides.
struct Fixture : HubRig {
  RigProxy client{*this, kClientId, kClient};
  RigProxy server = connect_server();

  Fixture() {
    mesh.put(other_entry());
    join();
    client.ask_for_all();
    client.settle();
    subscribe(server);
  }
  RigProxy connect_server() { return RigProxy(*this, kServerId, kServer, "10.0.0.2"); }
  static void subscribe(RigProxy& proxy) {
    proxy.ask(XdsType::kCluster);
    proxy.ask(XdsType::kSecret, kSecretNames);
    proxy.ask(XdsType::kListener);
    proxy.ask(XdsType::kRoute, {"rds-inbound.14001", "rds-inbound.14002"});
    proxy.settle();
  }

  void join() {
    mesh.put(workload(kServerId, kServer, {kOther, kServerService}));
    mesh.set_endpoints({kAddress, "10.1.0.9"});
    publish();
  }
  void publish_leaving() {
    mesh.put(workload(kServerId, kServer, {kOther}));
    mesh.set_endpoints({"10.1.0.9"});
    publish();
  }
  void leave() {
    publish_leaving();
    server.settle();
  }
  void wait(std::chrono::seconds time, RigProxy* reading = nullptr) {
    executor.run_for(time);
    (reading ? *reading : server).settle();
  }

  // True if a resource that the server was sent contains the text.
  bool holds(XdsType type, const std::string& text) const {
    const auto views = hub.find(kServerId.str());
    REQUIRE(views.size() == 1);
    for (const EncodedPtr& resource : views.front().sent[index_of(type)]->resources())
      if (resource->any.find(text) != std::string::npos) return true;
    return false;
  }
  bool accepts() const {
    return holds(XdsType::kListener, kChain) && holds(XdsType::kRoute, "virtual-host|server.");
  }
  std::uint64_t generation_of_server() const {
    const auto all = hub.progress({kServerKey});
    REQUIRE(all.size() == 1);
    return all.front().generation;
  }
};

}  // namespace

TEST_SUITE("ads::Hub leaving ports") {
  TEST_CASE_FIXTURE(Fixture, "a port stays until every proxy acknowledged endpoints without it") {
    REQUIRE(accepts());
    const std::size_t writes = server.stream().writes.size();
    leave();
    wait(2s);
    CHECK(accepts());
    CHECK(server.stream().writes.size() == writes);
    client.settle();
    wait(1s);
    CHECK(accepts());  // requests may be on their way
    wait(1s);
    CHECK_FALSE(accepts());
    CHECK(holds(XdsType::kListener, "inbound_server/other_14002_http"));
  }

  TEST_CASE_FIXTURE(Fixture, "a port stays five seconds for a client that does not answer") {
    leave();
    wait(4s);
    CHECK(accepts());
    wait(2s);
    CHECK_FALSE(accepts());
  }

  TEST_CASE_FIXTURE(Fixture, "a port stays five seconds for a client that is not connected here") {
    client.hang_up();
    leave();
    wait(4s);
    CHECK(accepts());
    wait(2s);
    CHECK_FALSE(accepts());
  }

  TEST_CASE_FIXTURE(Fixture, "a port stays for a client that refused its endpoints") {
    client.refuses = [](const Response& response) { return response.type == XdsType::kEndpoint; };
    leave();
    client.settle();
    wait(3s);
    CHECK(accepts());
  }

  // On Kubernetes a pod's labels come before the EndpointSlices that follow them.
  TEST_CASE_FIXTURE(Fixture, "a port stays while the endpoint is still among those of clients") {
    mesh.put(workload(kServerId, kServer, {kOther}));
    publish();
    server.settle();
    wait(2s);
    CHECK(accepts());
    mesh.set_endpoints({"10.1.0.9"});
    publish();
    client.settle();
    wait(1s);
    CHECK(accepts());
    wait(1s);
    CHECK_FALSE(accepts());
  }

  // An endpoint stays while the one that replaces it waits for its proxy.
  TEST_CASE_FIXTURE(Fixture, "a port stays five seconds after its last endpoint, ten at most") {
    client.hang_up();
    mesh.put(workload(kServerId, kServer, {kOther}));
    publish();
    server.settle();
    SUBCASE("after the endpoint") {
      wait(3s);
      mesh.set_endpoints({"10.1.0.9"});
      publish();
      wait(4s);
      CHECK(accepts());
      wait(2s);
    }
    SUBCASE("at most") {
      wait(9s);
      CHECK(accepts());
      wait(2s);
    }
    CHECK_FALSE(accepts());
  }

  TEST_CASE_FIXTURE(Fixture, "what else changes meanwhile reaches the port at once") {
    REQUIRE(holds(XdsType::kRoute, "/sa/client"));
    SUBCASE("a permission is withdrawn with it") {
      mesh.allow(false);
      leave();
      CHECK_FALSE(holds(XdsType::kRoute, "/sa/client"));
    }
    SUBCASE("a permission is withdrawn after it") {
      leave();
      CHECK(holds(XdsType::kRoute, "/sa/client"));
      mesh.allow(false);
      publish();
      server.settle();
      CHECK_FALSE(holds(XdsType::kRoute, "/sa/client"));
    }
    SUBCASE("a trust domain ends, twice") {
      leave();
      for (const char* domain : {"new.example", "newer.example"}) {
        mesh.set_domains({domain}, {domain});
        publish();
        server.settle();
        for (XdsType type : {XdsType::kListener, XdsType::kRoute}) {
          CHECK(holds(type, std::string("spiffe://") + domain));
          CHECK_FALSE(holds(type, "spiffe://cluster.local"));
        }
      }
    }
    CHECK(accepts());
  }

  TEST_CASE_FIXTURE(Fixture, "a port that comes back stays, and leaves anew the next time") {
    leave();
    wait(4s);
    join();
    server.settle();
    leave();
    wait(3s);
    CHECK(accepts());
    join();
    wait(10s);
    CHECK(accepts());
  }

  TEST_CASE_FIXTURE(Fixture, "a server that reconnects keeps the port, until its time is over") {
    leave();
    server.hang_up();
    RigProxy again = connect_server();
    subscribe(again);
    CHECK(accepts());
    wait(6s, &again);
    CHECK_FALSE(accepts());
  }

  // Its controller, and that of its clients, went just then.
  TEST_CASE_FIXTURE(Fixture, "a server that connects after it has left keeps the port likewise") {
    server.hang_up();
    publish_leaving();
    mesh.put(workload(kServerId, kServer, {kOther, ServiceName{"server", "third"}}));
    publish();
    RigProxy again = connect_server();
    subscribe(again);
    CHECK(accepts());
    CHECK(holds(XdsType::kListener, "inbound_server/other_14002_http"));
    wait(6s, &again);
    CHECK_FALSE(accepts());
  }

  TEST_CASE_FIXTURE(Fixture, "a port that has gone does not come back with another stream") {
    leave();
    client.settle();
    wait(3s);
    REQUIRE_FALSE(accepts());
    server.hang_up();
    RigProxy again = connect_server();
    subscribe(again);
    CHECK_FALSE(accepts());
  }

  TEST_CASE_FIXTURE(Fixture, "a server that connects ten seconds after it has left keeps nothing") {
    server.hang_up();
    publish_leaving();
    executor.run_for(10s);
    RigProxy again = connect_server();
    subscribe(again);
    CHECK_FALSE(accepts());
  }

  TEST_CASE_FIXTURE(Fixture, "a port that its own proxy refuses does not stay") {
    server.refuses = [](const Response& response) {
      return response.type == XdsType::kListener &&
             response.resources.front()->any.find(kChain) != std::string::npos;
    };
    mesh.set_domains({"new.example"}, {"new.example"});
    publish();
    server.settle();
    REQUIRE(holds(XdsType::kListener, kChain));
    leave();
    CHECK_FALSE(holds(XdsType::kListener, kChain));
  }

  TEST_CASE_FIXTURE(Fixture, "another protocol on the same port takes it over at once") {
    leave();
    model::ServiceEntry entry = other_entry();
    entry.ports = {port(kOther, 80, 14001, Protocol::kTcp)};
    mesh.put(entry);
    publish();
    server.settle();
    CHECK(holds(XdsType::kListener, "inbound_server/other_14001_tcp"));
    CHECK_FALSE(holds(XdsType::kListener, kChain));
  }

  TEST_CASE_FIXTURE(Fixture, "the apex of a split that ends is answered until clients know") {
    model::ServiceEntry entry = server_entry();
    entry.apexes = {{"server", "apex"}};
    mesh.put(entry);
    publish();
    client.settle();
    server.settle();
    REQUIRE(holds(XdsType::kRoute, kApexHost));
    mesh.put(server_entry());
    mesh.set_endpoints({kAddress});
    publish();
    wait(2s);
    CHECK(holds(XdsType::kRoute, kApexHost));
    client.settle();
    wait(2s);
    CHECK_FALSE(holds(XdsType::kRoute, kApexHost));
    CHECK(accepts());
  }

  TEST_CASE_FIXTURE(Fixture, "the ports of a deleted Service stay with its apexes") {
    model::ServiceEntry entry = server_entry();
    entry.apexes = {{"server", "apex"}};
    mesh.put(entry);
    publish();
    server.settle();
    mesh.remove_service(kServerService);
    publish();
    wait(4s);
    CHECK(accepts());
    CHECK(holds(XdsType::kRoute, kApexHost));
    wait(2s);
    CHECK_FALSE(holds(XdsType::kListener, kChain));
  }

  TEST_CASE_FIXTURE(Fixture, "the proxy counts as current meanwhile, and never goes back") {
    leave();
    const std::uint64_t left = generation_of_server();
    CHECK(left == 3);
    publish();
    CHECK(generation_of_server() == 4);
    executor.run_for(6s);
    CHECK(generation_of_server() == 4);
    server.settle();
    CHECK(generation_of_server() == 4);
    CHECK_FALSE(accepts());
  }
}
