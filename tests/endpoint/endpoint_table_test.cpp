// Endpoints of several providers are merged, in a declared order with declared weights, and a
// failing provider keeps its last endpoints.
#include "endpoint/endpoint_table.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "lib/run.hpp"
#include "osm/testing/memory_endpoints_provider.hpp"

using namespace osm;
using namespace osm::endpoint;
using osm::testing::MemoryEndpointsProvider;

namespace {

const ServiceName kBooks{"shop", "books"};
const ServiceName kMusic{"shop", "music"};

Endpoint at(const char* address, const char* account = "books", bool healthy = true) {
  return {.address = address,
          .port = Port(8080),
          .service_port = "http",
          .identity = {"shop", account},
          .zone = std::nullopt,
          .weight = std::nullopt,
          .healthy = healthy};
}

// Throws whatever it is asked while told to.
class FragileProvider final : public EndpointsProvider {
 public:
  bool broken = false;
  bool outside = false;
  MemoryEndpointsProvider inner{"fragile"};

  std::string id() const override { return inner.id(); }
  bool has_synced() const override { return inner.has_synced(); }
  bool healthy() const override { return inner.healthy(); }
  std::optional<std::vector<Endpoint>> list_endpoints_for_service(
      const ServiceName& service) const override {
    if (broken) throw std::runtime_error("socket closed");
    return inner.list_endpoints_for_service(service);
  }
  bool served_outside(const ServiceName&) const override { return outside; }
  Subscription subscribe(std::function<void(const std::vector<ServiceName>&)> on_change) override {
    return inner.subscribe(std::move(on_change));
  }
};

// A provider whose every function throws something that is no std::exception.
class HostileProvider final : public EndpointsProvider {
 public:
  std::string id() const override { throw 1; }
  bool has_synced() const override { throw 2; }
  bool healthy() const override { throw 3; }
  std::optional<std::vector<Endpoint>> list_endpoints_for_service(
      const ServiceName&) const override {
    throw 4;
  }
  Subscription subscribe(std::function<void(const std::vector<ServiceName>&)>) override { throw 5; }
};

EndpointTable table_of(std::vector<ProviderEntry> providers) {
  EndpointTable table(std::move(providers));
  table.set_monitored_namespaces({"shop"});
  table.refresh_status();
  table.read({kBooks, kMusic});
  return table;
}

}  // namespace

TEST_SUITE("endpoint::EndpointTable") {
  TEST_CASE("a service is served outside if one of its providers says so") {
    MemoryEndpointsProvider vm("vm");
    FragileProvider cloud;
    vm.set_endpoints(kBooks, {});
    cloud.inner.set_endpoints(kBooks, {});
    EndpointTable table = table_of({{&vm}, {&cloud}});
    CHECK_FALSE(table.find(kBooks)->served_outside);
    cloud.outside = true;
    CHECK(table.read({kBooks}) == std::set{kBooks});
    CHECK(table.find(kBooks)->served_outside);
    cloud.broken = true;
    cloud.outside = false;
    CHECK(table.read({kBooks}).empty());  // the last answer stays
    cloud.broken = false;
    CHECK(table.read({kBooks}) == std::set{kBooks});
    CHECK_FALSE(table.find(kBooks)->served_outside);
  }

  TEST_CASE("a service is the union of what its providers list, each endpoint once") {
    MemoryEndpointsProvider vm("vm"), cloud("cloud");
    vm.set_endpoints(kBooks, {at("10.0.0.2"), at("10.0.0.1")});
    cloud.set_endpoints(kBooks, {at("10.0.0.2"), at("10.0.0.3")});
    const EndpointTable table = table_of({{&vm}, {&cloud}});
    CHECK(table.find(kBooks)->endpoints ==
          std::vector{at("10.0.0.1"), at("10.0.0.2"), at("10.0.0.3")});
    CHECK(table.problems().empty());
  }

  TEST_CASE("each endpoint has the first provider that lists it, and keeps it among fewer") {
    MemoryEndpointsProvider vm("vm"), cloud("cloud");
    vm.set_endpoints(kBooks, {at("10.0.0.2"), at("10.0.0.1")});
    cloud.set_endpoints(kBooks, {at("10.0.0.2"), at("10.0.0.3")});
    EndpointTable table = table_of({{&vm}, {&cloud}});
    using Names = std::vector<std::string>;
    CHECK(table.find(kBooks)->providers == Names{"vm", "vm", "cloud"});
    const MergedService rest =
        table.find(kBooks)->without([](const Endpoint& one) { return one == at("10.0.0.1"); });
    CHECK(rest.endpoints == std::vector{at("10.0.0.2"), at("10.0.0.3")});
    CHECK(rest.providers == Names{"vm", "cloud"});
    CHECK(rest.provider_of(at("10.0.0.3")) == "cloud");
    CHECK(rest.provider_of(at("10.0.0.1")).empty());
    CHECK(rest.provider_of(at("10.0.0.9")).empty());

    // The endpoint stays as it is, and has another provider.
    vm.set_endpoints(kBooks, {at("10.0.0.1")});
    CHECK(table.read({kBooks}) == std::set{kBooks});
    CHECK(table.find(kBooks)->providers == Names{"vm", "cloud", "cloud"});
  }

  TEST_CASE("an endpoint that two providers list has zone, weight and health of the first") {
    MemoryEndpointsProvider vm("vm"), cloud("cloud");
    Endpoint near = at("10.0.0.1");
    near.zone = "a";
    near.weight = 3;
    near.healthy = false;
    Endpoint far = at("10.0.0.1");
    far.zone = "b";
    far.weight = 7;
    vm.set_endpoints(kBooks, {near});
    cloud.set_endpoints(kBooks, {far});
    CHECK(table_of({{&vm}, {&cloud}}).find(kBooks)->endpoints == std::vector{near});
    CHECK(table_of({{&cloud}, {&vm}}).find(kBooks)->endpoints == std::vector{far});
  }

  TEST_CASE("a service without endpoints is known, one that no provider knows is not") {
    MemoryEndpointsProvider vm("vm"), cloud("cloud");
    cloud.set_endpoints(kBooks, {});
    EndpointTable table = table_of({{&vm}, {&cloud}});
    REQUIRE(table.find(kBooks));
    CHECK(table.find(kBooks)->endpoints.empty());
    CHECK(table.find(kMusic) == nullptr);

    cloud.remove_endpoints(kBooks);
    CHECK(table.read({kBooks}) == std::set{kBooks});
    CHECK(table.find(kBooks) == nullptr);
  }

  TEST_CASE("of two identities at one address the first provider's wins, with a problem") {
    MemoryEndpointsProvider vm("vm"), cloud("cloud");
    vm.set_endpoints(kBooks, {at("10.0.0.1", "honest")});
    cloud.set_endpoints(kBooks, {at("10.0.0.1", "intruder")});
    const EndpointTable first = table_of({{&vm}, {&cloud}});
    CHECK(first.find(kBooks)->identities() == std::vector<ServiceIdentity>{{"shop", "honest"}});
    REQUIRE(first.problems().size() == 1);
    const Problem problem = first.problems().front();
    CHECK(problem.code == ErrorCode::kConflictingAddress);
    CHECK(problem.object == ObjectKey{kinds::kService, "shop", "books"});
    for (const char* part : {"10.0.0.1:8080", "shop/honest", "vm", "shop/intruder", "cloud"})
      CHECK(problem.cause.find(part) != std::string::npos);

    const EndpointTable second = table_of({{&cloud}, {&vm}});
    CHECK(second.find(kBooks)->identities() == std::vector<ServiceIdentity>{{"shop", "intruder"}});
  }

  TEST_CASE("another service port at the same address is no second endpoint of the first") {
    MemoryEndpointsProvider vm("vm");
    Endpoint admin = at("10.0.0.1");
    admin.service_port = "admin";
    vm.set_endpoints(kBooks, {at("10.0.0.1"), admin});
    CHECK(table_of({{&vm}}).find(kBooks)->endpoints == std::vector{admin, at("10.0.0.1")});
  }

  TEST_CASE("unhealthy endpoints are not served but their accounts are behind the service") {
    MemoryEndpointsProvider vm("vm");
    vm.set_endpoints(kBooks, {at("10.0.0.1", "well"), at("10.0.0.2", "ill", false)});
    const auto books = table_of({{&vm}}).find(kBooks);
    CHECK(books->healthy_endpoints() == std::vector{at("10.0.0.1", "well")});
    CHECK(books->identities() == std::vector<ServiceIdentity>{{"shop", "ill"}, {"shop", "well"}});
  }

  TEST_CASE("endpoints of services outside the mesh have no identity") {
    MemoryEndpointsProvider vm("vm");
    vm.set_endpoints(kBooks, {at("10.0.0.1")});
    EndpointTable table = table_of({{&vm}});
    table.set_monitored_namespaces({"elsewhere"});
    CHECK(table.read({kBooks}) == std::set{kBooks});
    CHECK(table.find(kBooks)->endpoints.empty());
    CHECK(table.problems().empty());
  }

  TEST_CASE("an account of another namespace is left out, with a problem") {
    MemoryEndpointsProvider vm("vm");
    Endpoint stranger = at("10.0.0.9");
    stranger.identity = {"elsewhere", "books"};
    vm.set_endpoints(kBooks, {at("10.0.0.1"), stranger});
    EndpointTable table = table_of({{&vm}});
    table.set_monitored_namespaces({"shop", "elsewhere"});
    table.read({kBooks});
    CHECK(table.find(kBooks)->endpoints == std::vector{at("10.0.0.1")});
    REQUIRE(table.problems().size() == 1);
    CHECK(table.problems().front().text() ==
          "Service shop/books: an endpoint at port 8080 that endpoints provider vm lists is left "
          "out: its identity 'elsewhere/books' is of another namespace than Service shop/books: "
          "only accounts of shop may stand behind it [cross-namespace]");
  }

  TEST_CASE("endpoints that no proxy could be told of are left out, one problem for each cause") {
    MemoryEndpointsProvider vm("vm");
    std::vector<Endpoint> bad{at("books.example"), at("10.0.0.1:80"), at(""), at("10.0.0.3")};
    bad[3].port = Port{};
    for (const char* account : {"", "Books", "a/b", "spiffe://other/ns/shop/sa/books", "b\nooks"})
      bad.push_back(at("10.0.0.4", account));
    std::vector<Endpoint> all = bad;
    all.push_back(at("10.0.0.1"));
    all.push_back(at("fd00::1"));
    vm.set_endpoints(kBooks, all);
    const EndpointTable table = table_of({{&vm}});
    CHECK(table.find(kBooks)->endpoints == std::vector{at("10.0.0.1"), at("fd00::1")});
    REQUIRE(table.problems().size() == 1);
    const Problem problem = table.problems().front();
    CHECK(problem.code == ErrorCode::kInvalidField);
    CHECK_MESSAGE(problem.cause.ends_with("(and 8 more)"), problem.cause);
    for (const Endpoint& endpoint : bad) CHECK_FALSE(check_endpoint(kBooks, endpoint).ok());
    const Status broken = check_endpoint(kBooks, bad.back());
    CHECK(broken.error().message.find('\n') == std::string::npos);
  }

  TEST_CASE(
      "an unsynced provider withholds its own endpoints only, and is waited for if required") {
    MemoryEndpointsProvider vm("vm"), cloud("cloud");
    vm.set_endpoints(kBooks, {at("10.0.0.1")});
    cloud.set_endpoints(kBooks, {at("10.0.0.2")});
    cloud.set_synced(false);
    EndpointTable table = table_of({{&vm}, {&cloud, false}});
    CHECK(table.find(kBooks)->endpoints == std::vector{at("10.0.0.1")});
    CHECK(table.waiting_for().empty());
    CHECK(table_of({{&vm}, {&cloud}}).waiting_for() ==
          std::vector<std::string>{"endpoints provider cloud"});

    cloud.set_synced(true);
    CHECK(table.refresh_status());
    CHECK(table.read({kBooks, kMusic}) == std::set{kBooks});
    CHECK(table.find(kBooks)->endpoints.size() == 2);
    CHECK_FALSE(table.refresh_status());
  }

  TEST_CASE("an unreachable platform keeps its endpoints and is marked stale") {
    MemoryEndpointsProvider vm("vm");
    vm.set_endpoints(kBooks, {at("10.0.0.1")});
    EndpointTable table = table_of({{&vm}});
    vm.set_healthy(false);
    table.refresh_status();
    CHECK(table.providers().front().stale);
    CHECK(table.find(kBooks)->endpoints == std::vector{at("10.0.0.1")});
    CHECK(table.problems().front().code == ErrorCode::kUnavailable);
    vm.set_healthy(true);
    table.refresh_status();
    CHECK(table.problems().empty());
  }

  TEST_CASE("a provider that throws keeps its last endpoints and disturbs no other") {
    FragileProvider fragile;
    MemoryEndpointsProvider vm("vm");
    fragile.inner.set_endpoints(kBooks, {at("10.0.0.1")});
    vm.set_endpoints(kBooks, {at("10.0.0.2")});
    EndpointTable table = table_of({{&fragile}, {&vm}});

    fragile.broken = true;
    fragile.inner.set_endpoints(kBooks, {at("10.0.0.7")});
    vm.set_endpoints(kBooks, {at("10.0.0.3")});
    CHECK(table.read({kBooks}) == std::set{kBooks});
    CHECK(table.find(kBooks)->endpoints == std::vector{at("10.0.0.1"), at("10.0.0.3")});
    CHECK(table.has_failures());
    REQUIRE(table.problems().size() == 1);
    CHECK(table.problems().front().text().find(
              "endpoints provider fragile: failed: socket closed") != std::string::npos);

    fragile.broken = false;
    table.refresh_status();
    CHECK(table.read({}) == std::set{kBooks});  // what failed is asked again
    CHECK(table.find(kBooks)->endpoints == std::vector{at("10.0.0.3"), at("10.0.0.7")});
    CHECK_FALSE(table.has_failures());
  }

  TEST_CASE("a provider that throws at everything is isolated and named by its position") {
    HostileProvider hostile;
    MemoryEndpointsProvider vm("vm");
    vm.set_endpoints(kBooks, {at("10.0.0.1")});
    const EndpointTable table = table_of({{&vm}, {&hostile}});
    CHECK(table.find(kBooks)->endpoints == std::vector{at("10.0.0.1")});
    CHECK(table.waiting_for() == std::vector<std::string>{"endpoints provider #2"});
    CHECK(table.has_failures());
  }

  TEST_CASE("reading an unchanged service again keeps the pointer") {
    MemoryEndpointsProvider vm("vm");
    vm.set_endpoints(kBooks, {at("10.0.0.1")});
    EndpointTable table = table_of({{&vm}});
    const auto before = table.find(kBooks);
    CHECK(table.read({kBooks, kMusic}).empty());
    CHECK(table.find(kBooks) == before);
    CHECK(table.forget({kBooks}) == std::set{kBooks});
    CHECK(table.find(kBooks) == nullptr);
  }

  TEST_CASE("the order of endpoints and of reads does not matter") {
    auto random = osm::testing::seeded();
    std::vector<Endpoint> all;
    for (const char* account : {"a", "b"})
      for (const char* address : {"10.0.0.1", "10.0.0.2", "10.0.0.3"})
        for (bool healthy : {true, false}) all.push_back(at(address, account, healthy));
    MemoryEndpointsProvider vm("vm"), cloud("cloud");
    vm.set_endpoints(kBooks, all);
    cloud.set_endpoints(kBooks, all);
    const auto expected = *table_of({{&vm}, {&cloud}}).find(kBooks);
    for (int round = 0; round < 20; ++round) {
      std::shuffle(all.begin(), all.end(), random);
      vm.set_endpoints(kBooks, all);
      std::shuffle(all.begin(), all.end(), random);
      cloud.set_endpoints(kBooks, all);
      EndpointTable table = table_of({{&vm}, {&cloud}});
      table.read({kBooks});
      CHECK(*table.find(kBooks) == expected);
    }
  }

  TEST_CASE("a declared order decides whose account an address has") {
    MemoryEndpointsProvider first{"first"};
    MemoryEndpointsProvider second{"second"};
    first.set_endpoints(kBooks, {at("10.0.0.1", "books")});
    second.set_endpoints(kBooks, {at("10.0.0.1", "other"), at("10.0.0.2")});
    for (auto* provider : {&first, &second}) provider->set_synced(true);
    EndpointTable table({{&first}, {&second}});
    table.set_monitored_namespaces({"shop"});
    table.refresh_status();
    table.read({kBooks, kMusic});
    CHECK(table.find(kBooks)->endpoints == std::vector{at("10.0.0.1", "books"), at("10.0.0.2")});

    const ServiceProvider turned{.service = kBooks, .providers = {{"second", {}}}};
    CHECK(table.set_orders({{kBooks, turned}}) == std::set{kBooks});
    CHECK(table.find(kBooks)->endpoints == std::vector{at("10.0.0.1", "other"), at("10.0.0.2")});
    const auto held = table.find(kBooks);
    CHECK(table.set_orders({{kBooks, turned}}).empty());
    CHECK(table.find(kBooks) == held);

    CHECK(table.set_orders({}) == std::set{kBooks});
    CHECK(table.find(kBooks)->endpoints == std::vector{at("10.0.0.1", "books"), at("10.0.0.2")});
  }

  TEST_CASE("a declared weight multiplies a provider's weights, up to 32 bits") {
    MemoryEndpointsProvider first{"first"};
    MemoryEndpointsProvider second{"second"};
    Endpoint heavy = at("10.0.0.2");
    heavy.weight = 4'000'000'000;
    first.set_endpoints(kBooks, {at("10.0.0.1"), heavy});
    second.set_endpoints(kBooks, {at("10.0.0.3")});
    for (auto* provider : {&first, &second}) provider->set_synced(true);
    EndpointTable table({{&first}, {&second}});
    table.set_monitored_namespaces({"shop"});
    table.refresh_status();
    table.read({kBooks});

    const auto weights = [&](ServiceProvider order) {
      order.service = kBooks;
      table.set_orders({{kBooks, std::move(order)}});
      std::vector<std::optional<std::uint32_t>> out;
      for (const Endpoint& endpoint : table.find(kBooks)->endpoints) out.push_back(endpoint.weight);
      return out;
    };
    using Weights = std::vector<std::optional<std::uint32_t>>;
    CHECK(weights({.service = {}, .providers = {{"first", 3}}}) ==
          Weights{3, 4'294'967'295, std::nullopt});
    CHECK(weights({.service = {}, .providers = {{"second", 0}, {"first", 1}}}) ==
          Weights{1, 4'000'000'000, 0});
    // A provider that is named without a weight keeps its own.
    CHECK(weights({.service = {}, .providers = {{"first", {}}}}) ==
          Weights{std::nullopt, 4'000'000'000, std::nullopt});
  }

  TEST_CASE("providers that an order excludes neither serve nor count as served outside") {
    MemoryEndpointsProvider first{"first"};
    FragileProvider second;
    first.set_endpoints(kBooks, {at("10.0.0.1")});
    second.inner.set_endpoints(kBooks, {at("10.0.0.2")});
    second.outside = true;
    first.set_synced(true);
    second.inner.set_synced(true);
    EndpointTable table({{&first}, {&second}});
    table.set_monitored_namespaces({"shop"});
    table.refresh_status();
    table.read({kBooks});
    CHECK(table.find(kBooks)->endpoints.size() == 2);
    CHECK(table.find(kBooks)->served_outside);

    table.set_orders(
        {{kBooks, {.service = kBooks, .providers = {{"first", {}}}, .excludes_others = true}}});
    CHECK(table.find(kBooks)->endpoints == std::vector{at("10.0.0.1")});
    CHECK_FALSE(table.find(kBooks)->served_outside);

    // A name that nobody has is nobody.
    CHECK(table.set_orders(
              {{kBooks,
                {.service = kBooks, .providers = {{"third", {}}}, .excludes_others = true}}}) ==
          std::set{kBooks});
    CHECK(table.find(kBooks) == nullptr);
    // Answers that were read meanwhile are there again.
    first.set_endpoints(kBooks, {at("10.0.0.9")});
    table.read({kBooks});
    CHECK(table.find(kBooks) == nullptr);
    table.set_orders({});
    CHECK(table.find(kBooks)->endpoints == std::vector{at("10.0.0.2"), at("10.0.0.9")});
  }
}
