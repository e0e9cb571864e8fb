// A changed Telemetry is sent to the proxies that it is in effect for, and to no others.
#include <doctest/doctest.h>

#include "ads/hub_rig.hpp"

using namespace osm;
using namespace osm::ads_test;
using translate_test::kClient;
using translate_test::kServer;
using translate_test::kServerService;

TEST_SUITE("ads::Hub telemetry") {
  TEST_CASE("a changed Telemetry is sent to the proxies that it is in effect for, and no others") {
    const TelemetryName name{kServer.ns, "log"};
    const auto text = [&](const char* format) {
      return model::TelemetryEntry{.name = name, .format = {AccessLogFormat::Kind::kText, format}};
    };
    HubRig rig;
    RigProxy client(rig, kClientId, kClient);
    RigProxy server(rig, kServerId, kServer);
    for (RigProxy* proxy : {&client, &server}) {
      proxy->ask_for_all();
      proxy->settle();
    }
    rig.mesh.put(text("%DURATION%"));
    rig.publish();
    CHECK(server.received(XdsType::kListener) == 0);  // in effect for nobody
    model::WorkloadEntry selected = workload(kServerId, kServer, {kServerService});
    selected.telemetry = name;
    rig.mesh.put(selected);
    rig.publish();
    CHECK(server.received(XdsType::kListener) == 1);
    rig.mesh.put(text("%PROTOCOL%"));
    rig.publish();
    CHECK(server.received(XdsType::kListener) == 1);
    rig.mesh.put(text("%PROTOCOL%"));  // the same again
    rig.publish();
    CHECK(server.received(XdsType::kListener) == 0);
    CHECK(client.settle().empty());
  }
}
