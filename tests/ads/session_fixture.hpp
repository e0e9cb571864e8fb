// One session of a proxy over sets that a test puts together.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ads/fake_envoy.hpp"
#include "envoy/config/endpoint/v3/endpoint.pb.h"
#include "translate/pack_any.hpp"

namespace osm::ads_test {

struct SessionFixture {
  explicit SessionFixture(XdsVariant variant, const ads::Doubts& doubts = {})
      : session(variant, pool, doubts) {
    for (XdsType type : kXdsTypes) put(type, {});
  }

  void put(XdsType type, std::vector<EncodedPtr> resources) {
    sets[index_of(type)] = ads::ResourceSet::make(std::move(resources));
    session.set_resources(sets);
  }
  static EncodedPtr cluster(const std::string& name, const std::string& bytes) {
    return resource(XdsType::kCluster, name, bytes, {{XdsType::kEndpoint, name}});
  }
  static EncodedPtr endpoints(const std::string& name, const std::string& bytes) {
    return resource(XdsType::kEndpoint, name, bytes);
  }
  // Endpoints that Envoy could read.
  static EncodedPtr assignment(const std::string& name, const std::vector<std::string>& addresses) {
    envoy::config::endpoint::v3::ClusterLoadAssignment made;
    made.set_cluster_name(name);
    auto& locality = *made.add_endpoints();
    for (const std::string& address : addresses)
      locality.add_lb_endpoints()
          ->mutable_endpoint()
          ->mutable_address()
          ->mutable_socket_address()
          ->set_address(address);
    return endpoints(name, translate::deterministic_bytes(translate::pack_any(made)));
  }
  static std::vector<std::string> addresses_in(const ads::EncodedResource& resource) {
    google::protobuf::Any any;
    envoy::config::endpoint::v3::ClusterLoadAssignment made;
    std::vector<std::string> addresses;
    if (any.ParseFromString(resource.any) && any.UnpackTo(&made))
      for (const auto& locality : made.endpoints())
        for (const auto& host : locality.lb_endpoints())
          addresses.push_back(host.endpoint().address().socket_address().address());
    return addresses;
  }
  std::optional<Response> next() {
    auto response = session.next_response(now);
    if (response) session.on_write_done();
    return response;
  }

  ads::NameSetPool pool;
  ads::Session session;
  SteadyTime now{};
  ads::ResourceSets sets;
};

}  // namespace osm::ads_test
