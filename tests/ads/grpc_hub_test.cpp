// Streams of one gRPC library stand beside each other, an Envoy ends them, and a subscription by
// name may become empty.
//
// Streams of gRPC libraries at the hub (docs/adr/0065).
#include <doctest/doctest.h>

#include "ads/hub_rig.hpp"
#include "ads/session_fixture.hpp"
#include "ads/wire.hpp"
#include "envoy/service/discovery/v3/discovery.pb.h"

using namespace osm;
using namespace osm::ads_test;
using translate_test::kClient;

namespace {

std::string first_request(const std::string& agent) {
  envoy::service::discovery::v3::DiscoveryRequest request;
  request.set_type_url(std::string(xds_type_url(XdsType::kListener)));
  request.add_resource_names("server.server:80");
  request.mutable_node()->set_id("any");
  request.mutable_node()->set_user_agent_name(agent);
  request.mutable_node()->set_user_agent_version("1.83.2");
  return request.SerializeAsString();
}

struct Library {
  Library(HubRig& rig, const ProxyId& id, const ServiceIdentity& account,
          const std::string& address = "10.0.0.1")
      : rig_(rig), id_(++rig.last_id), stream(std::make_shared<MemoryStream>(XdsVariant::kSotw)) {
    rig.hub.open(id_, rig.peer(id, account, address), stream);
    rig.executor.run_until_idle();
  }
  void say(const std::string& bytes) {
    REQUIRE(stream->reading);
    stream->reading = false;
    rig_.hub.on_request(id_, bytes);
    rig_.executor.run_until_idle();
  }
  void hang_up() {
    rig_.hub.on_closed(id_);
    rig_.executor.run_until_idle();
  }
  bool open() const { return !stream->closed; }

  HubRig& rig_;
  ads::StreamId id_;
  std::shared_ptr<MemoryStream> stream;
};

const std::string kGo = "gRPC Go";

}  // namespace

TEST_SUITE("ads::Hub with gRPC libraries") {
  TEST_CASE("the name of the user agent is read from both variants' requests") {
    CHECK(ads::user_agent_name(XdsVariant::kSotw, first_request(kGo)) == kGo);
    envoy::service::discovery::v3::DeltaDiscoveryRequest delta;
    delta.mutable_node()->set_user_agent_name("envoy");
    CHECK(ads::user_agent_name(XdsVariant::kDelta, delta.SerializeAsString()) == "envoy");
    CHECK(ads::user_agent_name(XdsVariant::kDelta, "").empty());
    CHECK(ads::user_agent_name(XdsVariant::kSotw, "\x12\xff").empty());
  }

  TEST_CASE("streams of one library stand beside each other, and one is listed") {
    HubRig rig;
    Library channel(rig, kClientId, kClient);
    channel.say(first_request(kGo));
    Library other(rig, kClientId, kClient);
    other.say(first_request(kGo));
    CHECK(channel.open());
    CHECK(other.open());
    CHECK(rig.hub.list().size() == 1);
    SUBCASE("the other takes its place when the first ends") {
      channel.hang_up();
      CHECK(other.open());
      CHECK(rig.hub.list().size() == 1);
      other.hang_up();
      CHECK(rig.hub.list().empty());
    }
    SUBCASE("the server ends all of them") {
      rig.hub.endings().close_all(ads::CloseCode::kUnavailable, "end");
      CHECK_FALSE(channel.open());
      CHECK_FALSE(other.open());
      CHECK(rig.hub.list().empty());
    }
    SUBCASE("a stream from another address ends them") {
      Library thief(rig, kClientId, kClient, "10.0.0.2");
      CHECK(thief.open());
      CHECK_FALSE(channel.open());
      CHECK_FALSE(other.open());
      CHECK(rig.hub.list().size() == 1);
    }
    SUBCASE("an Envoy with the certificate ends them") {
      Library envoy(rig, kClientId, kClient);
      envoy.say(first_request("envoy"));
      CHECK(envoy.open());
      CHECK_FALSE(channel.open());
      CHECK_FALSE(other.open());
      CHECK(rig.hub.list().size() == 1);
    }
  }

  TEST_CASE("a name that the mesh does not have is answered by an empty response") {
    HubRig rig;
    Library channel(rig, kClientId, kClient);
    channel.say(first_request(kGo));
    REQUIRE(channel.stream->writes.size() == 1);
    CHECK(channel.stream->writes.front().type == XdsType::kListener);
    CHECK(channel.stream->writes.front().resources.empty());
  }

  TEST_CASE("a library that drops its last name gets nothing, and the same again when it asks") {
    SessionFixture fixture(XdsVariant::kSotw);
    const auto say = [&](std::vector<std::string> names, const std::string& version,
                         const std::string& nonce) {
      fixture.session.on_request(
          SentRequest{XdsType::kListener, version, nonce, std::move(names), {}}.view());
    };
    fixture.put(XdsType::kListener,
                {resource(XdsType::kListener, "a", "1"), resource(XdsType::kListener, "b", "1")});
    say({"a"}, "", "");
    const auto first = fixture.next();
    REQUIRE(first);
    CHECK(first->resources.size() == 1);
    say({"a"}, first->version, first->nonce);
    say({}, first->version, first->nonce);
    CHECK_FALSE(fixture.next());
    say({"a"}, first->version, first->nonce);
    const auto again = fixture.next();
    REQUIRE(again);
    REQUIRE(again->resources.size() == 1);
    CHECK(again->resources[0]->name == "a");
  }
}
