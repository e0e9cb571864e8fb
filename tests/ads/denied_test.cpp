// The stream of a denied proxy ends, and neither it nor its renewals are admitted.
#include <doctest/doctest.h>

#include "ads/hub_rig.hpp"
#include "ads/renewals.hpp"

using namespace osm;
using namespace osm::ads_test;
using namespace std::chrono_literals;
using ads::CloseCode;
using translate_test::kClient;
using translate_test::kServer;

namespace {

constexpr const char* kWhy = "Denylist osm-system/a denies it (stolen)";

model::WorkloadEntry denied_client() {
  model::WorkloadEntry entry = workload(kClientId, kClient, {});
  entry.denied = kWhy;
  return entry;
}

void check_refused(const RigProxy& proxy) {
  REQUIRE(proxy.stream().closed);
  CHECK(proxy.stream().closed->code == CloseCode::kPermissionDenied);
  CHECK(proxy.stream().closed->text ==
        "permission-denied: client/client-vm may not be served: " + std::string(kWhy));
}

struct Call final : ads::UnaryCall {
  void finish(CloseCode finished, const std::string& said, const std::string&) override {
    code = finished;
    text = said;
  }
  std::optional<CloseCode> code;
  std::string text;
};

}  // namespace

TEST_SUITE("ads: denied proxies") {
  TEST_CASE("the stream of a denied proxy ends with the mesh's next generation, others stay") {
    HubRig rig;
    RigProxy client(rig, kClientId, kClient);
    client.ask_for_all();
    client.settle();
    RigProxy server(rig, kServerId, kServer);
    server.ask(XdsType::kCluster);
    server.settle();
    rig.mesh.put(denied_client());
    rig.publish();
    check_refused(client);
    CHECK(server.open());
    CHECK_FALSE(rig.registry.connected().contains(kClientId));
    rig.executor.run_for(120s);  // a class that nobody uses gives its secrets back
    CHECK(rig.secrets.released.contains(kClient));
  }

  TEST_CASE("a denied proxy is refused at once when it comes back, until it is admitted again") {
    HubRig rig;
    rig.mesh.put(denied_client());
    rig.publish();
    RigProxy refused(rig, kClientId, kClient);
    check_refused(refused);
    rig.mesh.put(workload(kClientId, kClient, {}));
    rig.publish();
    RigProxy admitted(rig, kClientId, kClient);
    CHECK(admitted.open());
  }

  TEST_CASE("a denied proxy gets no certificate") {
    HubRig rig;
    bool asked = false;
    const ads::RenewCertificate renew = [&](ads::RenewalQuestion, auto) { asked = true; };
    ads::Renewals renewals{rig.hub.admission(), rig.clock, rig.log, renew};
    rig.mesh.put(denied_client());
    rig.publish();
    const ads::Peer peer{{kClientId, {kClient.ns, kClient.name}},
                         CommonName("proxy"),
                         "ipv4:10.0.0.1:40000",
                         rig.clock.wall_now(),
                         rig.clock.wall_now() + 24h};
    ads::RenewalRequest request;
    request.set_request_pem("a request");
    const auto call = std::make_shared<Call>();
    renewals.answer(peer, request.SerializeAsString(), call);
    CHECK(call->code == CloseCode::kPermissionDenied);
    CHECK(call->text.find(kWhy) != std::string::npos);
    CHECK_FALSE(asked);
  }
}
