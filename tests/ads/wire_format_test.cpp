// Hand-written messages equal protobuf's.
#include "ads/wire.hpp"

#include <doctest/doctest.h>

#include "ads/fake_envoy.hpp"
#include "envoy/service/discovery/v3/discovery.pb.h"

using namespace osm;
using namespace osm::ads_test;
namespace discovery = envoy::service::discovery::v3;

namespace {

EncodedPtr encoded(const std::string& name, const std::string& value) {
  google::protobuf::Any any;
  any.set_type_url(std::string(xds_type_url(XdsType::kCluster)));
  any.set_value(value);
  return resource(XdsType::kCluster, name, any.SerializeAsString());
}

Response response(XdsVariant variant) {
  return {XdsType::kCluster,
          "v",
          "7",
          {encoded("a", "one"), encoded("b", std::string(300, 'x'))},
          variant,
          {"gone"},
          "replica-a/7/0123456789abcdef"};
}

}  // namespace

TEST_SUITE("ads::wire format") {
  TEST_CASE("protobuf parses a delta response") {
    const Response ours = response(XdsVariant::kDelta);
    const std::string bytes = ads::serialize(ours);
    CHECK(bytes.size() == ads::response_size(ours));
    discovery::DeltaDiscoveryResponse theirs;
    REQUIRE(theirs.ParseFromString(bytes));
    CHECK(theirs.system_version_info() == "v");
    CHECK(theirs.control_plane().identifier() == ours.control_plane);
    CHECK(theirs.nonce() == "7");
    CHECK(theirs.type_url() == xds_type_url(XdsType::kCluster));
    REQUIRE(theirs.resources_size() == 2);
    for (int i = 0; i < 2; ++i) {
      const EncodedPtr& sent = ours.resources[static_cast<std::size_t>(i)];
      CHECK(theirs.resources(i).name() == sent->name);
      CHECK(theirs.resources(i).version() == ads::resource_version(*sent));
      CHECK(theirs.resources(i).resource().SerializeAsString() == sent->any);
    }
    REQUIRE(theirs.removed_resources_size() == 1);
    CHECK(theirs.removed_resources(0) == "gone");
  }

  TEST_CASE("protobuf parses a state-of-the-world response") {
    Response ours = response(XdsVariant::kSotw);
    ours.removed.clear();
    const std::string bytes = ads::serialize(ours);
    CHECK(bytes.size() == ads::response_size(ours));
    discovery::DiscoveryResponse theirs;
    REQUIRE(theirs.ParseFromString(bytes));
    CHECK(theirs.version_info() == "v");
    CHECK(theirs.control_plane().identifier() == ours.control_plane);
    CHECK(theirs.nonce() == "7");
    REQUIRE(theirs.resources_size() == 2);
    CHECK(theirs.resources(1).SerializeAsString() == ours.resources[1]->any);
  }

  TEST_CASE("a delta request is read as protobuf wrote it") {
    discovery::DeltaDiscoveryRequest theirs;
    theirs.mutable_node()->set_id("node");
    theirs.set_type_url(std::string(xds_type_url(XdsType::kEndpoint)));
    theirs.set_response_nonce("7");
    theirs.add_resource_names_subscribe("a");
    theirs.add_resource_names_subscribe("b");
    theirs.add_resource_names_unsubscribe("c");
    (*theirs.mutable_initial_resource_versions())["a"] = "v1";
    theirs.mutable_error_detail()->set_code(13);
    theirs.mutable_error_detail()->set_message("no");
    const std::string bytes = theirs.SerializeAsString();
    const auto ours = ads::parse_delta_request(bytes);
    REQUIRE(ours.ok());
    CHECK(ours->type_url == xds_type_url(XdsType::kEndpoint));
    CHECK(ours->nonce == "7");
    CHECK(ours->subscribe == std::vector<std::string_view>{"a", "b"});
    CHECK(ours->unsubscribe == std::vector<std::string_view>{"c"});
    REQUIRE(ours->held.size() == 1);
    CHECK(ours->held[0].name == "a");
    CHECK(ours->held[0].version == "v1");
    CHECK(ours->error == "no");
  }

  TEST_CASE("garbage and a flood of names are refused") {
    CHECK_FALSE(ads::parse_delta_request("\x1a\xff").ok());
    std::string flood;
    for (std::size_t i = 0; i <= ads::kMaxNames; ++i) flood += std::string("\x1a\x00", 2);
    const auto refused = ads::parse_delta_request(flood);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kInvalidArgument);
    CHECK_FALSE(ads::parse_request(flood).ok());
  }
}
