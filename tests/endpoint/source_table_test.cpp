// Addresses behind source Services are merged, and a failing provider keeps its last ones.
#include "endpoint/source_table.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

#include "osm/testing/memory_endpoints_provider.hpp"

using namespace osm;
using namespace osm::endpoint;

namespace {

using Addresses = SourceTable::Addresses;

const ServiceName kGateway{"edge", "gateway"};
const ServiceName kOther{"edge", "other"};

// Counts what it is asked, and throws while told to.
class Provider final : public EndpointsProvider {
 public:
  mutable int asked = 0;
  bool broken = false;
  std::map<ServiceName, std::vector<std::string>> addresses;

  std::string id() const override { return "counting"; }
  bool has_synced() const override { return true; }
  bool healthy() const override { return true; }
  std::optional<std::vector<Endpoint>> list_endpoints_for_service(
      const ServiceName&) const override {
    return std::nullopt;
  }
  std::vector<std::string> list_source_addresses(const ServiceName& service) const override {
    ++asked;
    if (broken) throw std::runtime_error("socket closed");
    const auto at = addresses.find(service);
    return at == addresses.end() ? std::vector<std::string>() : at->second;
  }
  Subscription subscribe(std::function<void(const std::vector<ServiceName>&)>) override {
    return {};
  }
};

}  // namespace

TEST_SUITE("endpoint::SourceTable") {
  TEST_CASE("addresses of all providers are merged, and IPv6 ones are left out") {
    Provider pods;
    osm::testing::MemoryEndpointsProvider machines;
    SourceTable table({{&pods}, {&machines}});
    pods.addresses[kGateway] = {"10.0.0.2", "fd00::1", "10.0.0.1", "name"};
    machines.set_source_addresses(kGateway, {"10.0.0.3", "10.0.0.1"});
    CHECK(table.read({kGateway}, {}, false));
    CHECK(table.addresses() == Addresses{{kGateway, {"10.0.0.1", "10.0.0.2", "10.0.0.3"}}});
    CHECK(table.read({}, {}, false));
    CHECK(table.addresses().empty());
  }

  TEST_CASE("only new and announced Services are asked for") {
    Provider provider;
    SourceTable table({{&provider}});
    CHECK(table.read({kGateway}, {}, false));  // with no address, which is told too
    CHECK(provider.asked == 1);
    CHECK_FALSE(table.read({kGateway}, {kOther}, false));
    CHECK(provider.asked == 1);
    provider.addresses[kGateway] = {"10.0.0.1"};
    CHECK(table.read({kGateway, kOther}, {kGateway}, false));
    CHECK(provider.asked == 3);
    CHECK_FALSE(table.read({kGateway, kOther}, {}, true));
    CHECK(provider.asked == 5);
  }

  TEST_CASE("a provider that throws keeps its addresses, and is asked again") {
    Provider provider;
    SourceTable table({{&provider}});
    provider.addresses[kGateway] = {"10.0.0.1"};
    table.read({kGateway}, {}, false);
    provider.broken = true;
    CHECK_FALSE(table.has_failures());
    CHECK_FALSE(table.read({kGateway}, {kGateway}, false));
    CHECK(table.has_failures());
    CHECK(table.addresses() == Addresses{{kGateway, {"10.0.0.1"}}});
    provider.broken = false;
    provider.addresses[kGateway] = {"10.0.0.2"};
    CHECK(table.read({kGateway}, {}, false));
    CHECK(table.addresses() == Addresses{{kGateway, {"10.0.0.2"}}});
    CHECK_FALSE(table.has_failures());
  }

  TEST_CASE("a failure ends when nobody wants the Service any more") {
    Provider provider;
    SourceTable table({{&provider}});
    provider.broken = true;
    table.read({kGateway}, {}, false);
    CHECK(table.has_failures());
    table.read({}, {}, false);
    CHECK_FALSE(table.has_failures());
  }
}
