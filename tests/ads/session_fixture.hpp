// One session of a proxy over sets that a test puts together.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ads/fake_envoy.hpp"

namespace osm::ads_test {

struct SessionFixture {
  explicit SessionFixture(XdsVariant variant) : session(variant, pool) {
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
