// A provider leaves a running mesh with its endpoints, and may be destroyed.
#include "osm/providers/removable_provider.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "endpoint/endpoint_table.hpp"
#include "osm/testing/memory_endpoints_provider.hpp"

using namespace osm;
using osm::testing::MemoryEndpointsProvider;

namespace {

const ServiceName kBooks{"shop", "books"};
const ServiceName kMusic{"shop", "music"};

Endpoint at(const char* address) {
  return {.address = address,
          .port = Port(8080),
          .service_port = "http",
          .identity = {"shop", "books"},
          .zone = std::nullopt,
          .weight = std::nullopt};
}

}  // namespace

TEST_SUITE("endpoint.removable") {
  TEST_CASE("a removed provider takes its endpoints with it, and may be destroyed") {
    auto inner = std::make_unique<MemoryEndpointsProvider>("cloud");
    MemoryEndpointsProvider other{"vm"};
    inner->set_endpoints(kBooks, {at("10.0.0.1")});
    other.set_endpoints(kBooks, {at("10.0.0.2")});
    inner->set_synced(true);
    other.set_synced(true);
    const auto removable = make_removable(*inner);
    std::vector<ServiceName> announced;
    const auto subscription =
        removable->subscribe([&](const std::vector<ServiceName>& changed) { announced = changed; });

    endpoint::EndpointTable table({{removable.get()}, {&other}});
    table.set_monitored_namespaces({"shop"});
    table.refresh_status();
    table.read({kBooks, kMusic});
    CHECK(table.find(kBooks)->endpoints == std::vector{at("10.0.0.1"), at("10.0.0.2")});
    inner->set_endpoints(kBooks, {at("10.0.0.3")});  // announcements pass
    CHECK(announced == std::vector{kBooks});

    announced.clear();
    removable->remove();
    inner.reset();
    CHECK(announced == std::vector{kBooks});
    CHECK(table.read({announced.begin(), announced.end()}) == std::set{kBooks});
    CHECK(table.find(kBooks)->endpoints == std::vector{at("10.0.0.2")});
    table.refresh_status();
    CHECK(table.problems().empty());
    CHECK(removable->id() == "cloud");

    announced.clear();
    removable->remove();
    CHECK(announced.empty());
  }

  TEST_CASE("a mesh does not wait for a provider that left before it had synced") {
    MemoryEndpointsProvider inner{"cloud"};
    inner.set_synced(false);
    const auto removable = make_removable(inner);
    endpoint::EndpointTable table({{removable.get()}});
    table.refresh_status();
    CHECK(table.waiting_for() == std::vector<std::string>{"endpoints provider cloud"});
    removable->remove();
    table.refresh_status();
    CHECK(table.waiting_for().empty());
  }
}
