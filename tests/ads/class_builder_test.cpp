// Resources with dangling references are left out.
#include "ads/class_builder.hpp"

#include <doctest/doctest.h>

#include "ads/fake_envoy.hpp"

using namespace osm;
using namespace osm::ads_test;

namespace {

using Resources = std::array<std::vector<EncodedPtr>, kXdsTypes.size()>;

std::vector<std::string> names_in(const Resources& resources, XdsType type) {
  std::vector<std::string> names;
  for (const EncodedPtr& r : resources[index_of(type)]) names.push_back(r->name);
  return names;
}

}  // namespace

TEST_SUITE("ads::leave_out_contradictions") {
  TEST_CASE("consistent resources are unchanged") {
    Resources resources;
    resources[index_of(XdsType::kEndpoint)] = {resource(XdsType::kEndpoint, "a", "e")};
    resources[index_of(XdsType::kCluster)] = {
        resource(XdsType::kCluster, "a", "c",
                 {{XdsType::kEndpoint, "a"}, {XdsType::kSecret, "not-checked-here"}})};
    const Resources before = resources;
    std::vector<std::string> faults;
    ads::leave_out_contradictions(resources, faults);
    CHECK(resources == before);
    CHECK(faults.empty());
  }

  TEST_CASE("references that do not hold are left out, with the fault's names") {
    Resources resources;
    resources[index_of(XdsType::kEndpoint)] = {resource(XdsType::kEndpoint, "here", "e")};
    resources[index_of(XdsType::kCluster)] = {
        resource(XdsType::kCluster, "good", "c", {{XdsType::kEndpoint, "here"}}),
        resource(XdsType::kCluster, "lost", "c", {{XdsType::kEndpoint, "gone"}})};
    resources[index_of(XdsType::kListener)] = {
        resource(XdsType::kListener, "out", "l", {{XdsType::kRoute, "no-route"}}),
        resource(XdsType::kListener, "tcp", "l", {{XdsType::kCluster, "good"}})};
    std::vector<std::string> faults;
    ads::leave_out_contradictions(resources, faults);
    CHECK(names_in(resources, XdsType::kCluster) == std::vector<std::string>{"good"});
    CHECK(names_in(resources, XdsType::kListener) == std::vector<std::string>{"tcp"});
    CHECK(faults ==
          std::vector<std::string>{"CDS lost is left out: it refers to the missing EDS gone",
                                   "LDS out is left out: it refers to the missing RDS no-route"});
  }

  TEST_CASE("of duplicate names the first is kept; names of different types may be equal") {
    Resources resources;
    resources[index_of(XdsType::kCluster)] = {resource(XdsType::kCluster, "a", "first"),
                                              resource(XdsType::kCluster, "a", "second")};
    resources[index_of(XdsType::kListener)] = {resource(XdsType::kListener, "a", "l")};
    std::vector<std::string> faults;
    ads::leave_out_contradictions(resources, faults);
    REQUIRE(resources[index_of(XdsType::kCluster)].size() == 1);
    CHECK(resources[index_of(XdsType::kCluster)][0]->any == "first");
    CHECK(names_in(resources, XdsType::kListener) == std::vector<std::string>{"a"});
    CHECK(faults == std::vector<std::string>{"CDS a exists twice; the first is kept"});
  }
}
