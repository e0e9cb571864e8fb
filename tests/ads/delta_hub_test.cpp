// Both xDS variants are served by one hub, and malformed requests end the stream.
#include <doctest/doctest.h>

#include <map>
#include <optional>
#include <utility>

#include "ads/hub_rig.hpp"
#include "osm/runtime/replica_board.hpp"

using namespace osm;
using namespace osm::ads_test;
using namespace std::chrono_literals;
namespace discovery = envoy::service::discovery::v3;

namespace {

// A stream of DeltaAggregatedResources.
struct DeltaProxy {
  HubRig& rig;
  ads::StreamId id = ++rig.last_id;
  std::shared_ptr<MemoryStream> stream = std::make_shared<MemoryStream>(XdsVariant::kDelta);

  DeltaProxy(HubRig& r, const ProxyId& uuid, const ServiceIdentity& account) : rig(r) {
    rig.hub.open(id, rig.peer(uuid, account), stream);
    rig.executor.run_until_idle();
  }
  void say(const std::string& bytes) {
    REQUIRE(stream->reading);
    stream->reading = false;
    rig.hub.on_request(id, bytes);
    rig.executor.run_until_idle();
  }
};

std::string request(XdsType type, const std::string& nonce = "",
                    const std::vector<std::string>& names = {},
                    const std::map<std::string, std::string>& held = {}) {
  discovery::DeltaDiscoveryRequest message;
  message.set_type_url(std::string(xds_type_url(type)));
  message.set_response_nonce(nonce);
  for (const std::string& name : names) message.add_resource_names_subscribe(name);
  message.mutable_initial_resource_versions()->insert(held.begin(), held.end());
  return message.SerializeAsString();
}

}  // namespace

TEST_SUITE("ads::Hub delta") {
  TEST_CASE("a stream is answered in the variant of its method, and says which") {
    HubRig rig;
    DeltaProxy proxy(rig, kClientId, translate_test::kClient);
    proxy.say(request(XdsType::kCluster));
    REQUIRE(proxy.stream->writing);
    const ads::Response response = *proxy.stream->writing;
    CHECK(response.variant == XdsVariant::kDelta);
    CHECK_FALSE(response.resources.empty());
    REQUIRE(rig.hub.list().size() == 1);
    CHECK(rig.hub.list()[0].xds == XdsVariant::kDelta);
    proxy.stream->writing.reset();
    rig.hub.on_write_done(proxy.id);
    proxy.say(request(XdsType::kCluster, response.nonce));
    const ProxyTypeState clusters = rig.hub.list()[0].types[ads::index_of(XdsType::kCluster)];
    CHECK(clusters.state == SyncState::kSynced);
    CHECK(clusters.last_applied_version == response.version);
  }

  // Its stream at another replica may have ended between changed clusters and their endpoints.
  TEST_CASE("claimed endpoints are sent again to who reconnects within 5 s of a change") {
    osm::testing::ManualClock clock;
    osm::testing::ManualExecutor executor(clock);
    const auto board = make_local_board("controller-a", executor);
    HubRig rig({}, nullptr, board.get());
    std::map<XdsType, std::map<std::string, std::string>> held;
    // Number of endpoints that are sent to a new stream of a proxy, which asks for clusters first
    // and acknowledges everything.
    const auto sent = [&] {
      DeltaProxy proxy(rig, kClientId, translate_test::kClient);
      const auto answered = [&](XdsType type, const std::vector<std::string>& names) {
        proxy.say(request(type, "", names, held[type]));
        if (!proxy.stream->writing) return std::size_t{0};
        const ads::Response response = *std::exchange(proxy.stream->writing, std::nullopt);
        rig.hub.on_write_done(proxy.id);
        proxy.say(request(type, response.nonce));
        for (const ads::EncodedPtr& one : response.resources)
          held[type][one->name] = ads::resource_version(*one);
        return response.resources.size();
      };
      answered(XdsType::kCluster, {});
      return answered(XdsType::kEndpoint, kAssignmentNames);
    };
    CHECK(sent() == 1);
    CHECK(sent() == 0);
    for (const bool service : {false, true}) {
      if (service) {
        rig.mesh.put(translate_test::server_entry());
      } else {
        rig.mesh.allow(true);
      }
      rig.publish();
      CHECK(sent() == 1);
      rig.clock.advance(5s);
      CHECK(sent() == 0);
    }
    rig.mesh.put(model::ServiceEntry{.name = {"shop", "another"}});
    rig.publish();
    CHECK(sent() == 0);
  }

  TEST_CASE("a message of the other variant ends the stream") {
    HubRig rig;
    DeltaProxy proxy(rig, kClientId, translate_test::kClient);
    proxy.say("\x1a\xff");
    REQUIRE(proxy.stream->closed);
    CHECK(proxy.stream->closed->code == ads::CloseCode::kInvalidArgument);
  }
}
