// A new Service is sent to the machines that ask for names, and to no others.
#include <doctest/doctest.h>

#include "ads/hub_rig.hpp"

using namespace osm;
using namespace osm::ads_test;
using translate_test::kClient;
using translate_test::kServer;

TEST_SUITE("ads::Hub names") {
  TEST_CASE("a Service that nobody may call is sent to the machines that ask for names alone") {
    HubRig rig;
    model::WorkloadEntry asking = workload(kClientId, kClient, {});
    asking.dns = true;
    rig.mesh.put(asking);
    rig.publish();
    RigProxy client(rig, kClientId, kClient);
    RigProxy server(rig, kServerId, kServer);
    for (RigProxy* proxy : {&client, &server}) {
      proxy->ask_for_all();
      proxy->settle();
    }
    model::ServiceEntry later;
    later.name = {"later", "later"};
    later.cluster_ip = "10.96.77.1";
    rig.mesh.put(later);
    rig.publish();
    CHECK(client.received(XdsType::kListener) == 1);
    CHECK(server.settle().empty());
    later.identities = {kServer};  // no name and no address
    rig.mesh.put(later);
    rig.publish();
    CHECK(client.received(XdsType::kListener) == 0);
  }
}
