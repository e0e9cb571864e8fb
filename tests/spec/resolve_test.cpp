// A new specification shares the tables of the former one that have not changed.
#include "spec/resolve.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

using namespace osm;

namespace {

void put(spec::DecodedKind<Service>& kind, const std::string& name, const std::string& address) {
  Service service;
  service.name = {"shop", name};
  service.cluster_ip = address;
  kind.entries[{kinds::kService, "shop", name}].value = std::make_shared<const Service>(service);
}

SpecSnapshot after(SpecSnapshot before, const spec::DecodedObjects& objects) {
  spec::VirtualAddresses addresses("240.240.0.0/12");
  std::vector<Problem> problems;
  spec::resolve(objects, addresses, before, problems);
  CHECK(problems.empty());
  return before;
}

TEST_SUITE("spec::resolve") {
  TEST_CASE("tables without a change keep their pointer, and so do unchanged objects in others") {
    spec::DecodedObjects objects;
    put(objects.services, "a", "10.1.0.1");
    put(objects.services, "b", "10.1.0.2");
    objects.accounts.entries[{kinds::kServiceAccount, "shop", "a"}].value =
        std::make_shared<const ServiceAccount>(ServiceAccount{"shop", "a"});
    const SpecSnapshot first = after({}, objects);
    REQUIRE(first.services.size() == 2);
    const SpecSnapshot same = after(first, objects);
    CHECK(&same.services.list() == &first.services.list());
    put(objects.services, "b", "10.1.0.3");
    const SpecSnapshot other = after(first, objects);
    CHECK(&other.services.list() != &first.services.list());
    CHECK(&other.accounts.list() == &first.accounts.list());
    CHECK(other.services.find({"shop", "a"}) == first.services.find({"shop", "a"}));
    CHECK(other.services.find({"shop", "b"})->cluster_ip == "10.1.0.3");
  }

  TEST_CASE("a MeshConfig is shared, and without one the given settings stay") {
    spec::DecodedObjects objects;
    const auto config = std::make_shared<const MeshConfig>();
    SpecSnapshot given;
    given.config = std::make_shared<const MeshConfig>();
    CHECK(after(given, objects).config == given.config);
    objects.configs.entries[{kinds::kMeshConfig, "osm-system", "osm-mesh-config"}].value = config;
    CHECK(after(given, objects).config == config);
  }
}

}  // namespace
