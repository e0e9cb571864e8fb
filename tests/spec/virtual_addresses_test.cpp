// Allocated addresses follow from the names alone, in any order of arrival; written ones win;
// networks that cannot be used are refused.
#include "spec/virtual_addresses.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "osm/spec/object_mesh_spec.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/memory_object_store.hpp"

using namespace osm;
using osm::spec::ServiceNetwork;
using osm::spec::VirtualAddresses;

namespace {

constexpr const char* kNetwork = "240.240.0.0/12";

std::shared_ptr<const Service> service(const std::string& name, const std::string& address = "",
                                       bool headless = false) {
  Service out;
  out.name = {"shop", name};
  out.cluster_ip = address;
  out.headless = headless;
  return std::make_shared<const Service>(out);
}

std::map<std::string, std::string> addresses_of(const SharedList<Service>& services) {
  std::map<std::string, std::string> out;
  for (const auto& one : services) out[one->name.name] = one->cluster_ip;
  return out;
}

// Addresses that a fresh process allocates.
std::map<std::string, std::string> settled(SharedList<Service> services,
                                           const std::string& network = kNetwork) {
  std::vector<Problem> problems;
  VirtualAddresses addresses(network);
  CHECK(addresses.settle(services, problems).empty());
  CHECK(problems.empty());
  return addresses_of(services);
}

// Two names of which the second asks for the address of the first, in order of name.
std::pair<std::string, std::string> colliding(const std::string& network) {
  std::map<std::string, std::string> first_with;
  for (int i = 100; i < 999; ++i) {
    const std::string name = "s" + std::to_string(i);
    const std::string address = settled({service(name)}, network).at(name);
    const auto [at, fresh] = first_with.emplace(address, name);
    if (!fresh) return {at->second, name};
  }
  FAIL("no collision");
  return {};
}

struct Mesh {
  Mesh() {
    put("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n"
        "  labels: {openservicemesh.io/monitored-by: osm}\n");
  }
  void start(const std::string& network = kNetwork) {
    mesh = spec::make_mesh_spec(
        {.store = store, .log = log, .metrics = metrics, .service_network = network});
  }
  void put(const std::string& yaml) { REQUIRE(store.put_yaml(yaml, "mesh/a.yaml").ok()); }
  void put_service(const std::string& name, const std::string& fields = "selector: {app: a}") {
    put("apiVersion: v1\nkind: Service\nmetadata: {name: " + name + ", namespace: shop}\nspec: {" +
        fields + "}\n");
  }
  std::string address(const std::string& name) const {
    const auto found = mesh->get_service({"shop", name});
    return found ? found->cluster_ip : "none";
  }

  osm::testing::MemoryObjectStore store;
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  std::unique_ptr<MeshSpec> mesh;
};

}  // namespace

TEST_SUITE("spec::VirtualAddresses") {
  TEST_CASE("an address follows from the name alone") {
    // Fixed for ever: a controller of another version must allocate the same.
    const auto one = settled({service("api"), service("web")});
    CHECK(one == settled({service("api"), service("web")}));
    CHECK(settled({service("web")}).at("web") == one.at("web"));
    CHECK(one.at("api") == "240.250.64.185");
    CHECK(one.at("web") == "240.247.86.70");
  }

  TEST_CASE("ten thousand Services have distinct addresses of the network") {
    SharedList<Service> services;
    for (int i = 10'000; i < 20'000; ++i) services.push_back(service("s" + std::to_string(i)));
    std::set<std::string> distinct;
    for (const auto& [name, address] : settled(services)) {
      const auto second = std::stoi(address.substr(4));
      CHECK(address.starts_with("240."));
      CHECK((second >= 240 && second <= 255));
      CHECK(address != "240.240.0.0");
      CHECK(address != "240.255.255.255");
      distinct.insert(address);
    }
    CHECK(distinct.size() == 10'000);
  }

  TEST_CASE("a written address and a headless Service stay as they are") {
    const std::string wanted = settled({service("web")}).at("web");
    const auto now = settled({service("api", wanted), service("db", "", true), service("web")});
    CHECK(now.at("api") == wanted);
    CHECK(now.at("db").empty());
    CHECK(now.at("web") != wanted);
    CHECK_FALSE(now.at("web").empty());
  }

  TEST_CASE("of two Services that ask for one address the first by name has it") {
    const auto [first, second] = colliding("10.9.8.0/24");
    const auto alone = settled({service(second)}, "10.9.8.0/24");
    const auto both = settled({service(first), service(second)}, "10.9.8.0/24");
    CHECK(both.at(first) == alone.at(second));
    CHECK(both.at(second) != both.at(first));
    // Order of arrival: the second one was there, and moves.
    VirtualAddresses addresses("10.9.8.0/24");
    std::vector<Problem> problems;
    SharedList<Service> list{service(second)};
    CHECK(addresses.settle(list, problems).empty());
    list = {service(first), service(second)};
    const auto moves = addresses.settle(list, problems);
    REQUIRE(moves.size() == 1);
    CHECK(moves[0].service == ServiceName{"shop", second});
    CHECK(moves[0].from == alone.at(second));
    CHECK(moves[0].to == both.at(second));
    CHECK(addresses_of(list) == both);
  }

  TEST_CASE("a newer Service that writes an allocated address does not get it") {
    const std::string address = settled({service("web")}).at("web");
    const auto of_age = [](const auto& made, std::uint64_t created) {
      Service out = *made;
      out.created.order = created;
      return std::make_shared<const Service>(out);
    };
    const auto web = of_age(service("web"), 2);
    for (const std::uint64_t created : {3U, 2U, 1U}) {
      CAPTURE(created);
      VirtualAddresses addresses(kNetwork);
      std::vector<Problem> problems;
      SharedList<Service> list{web};
      CHECK(addresses.settle(list, problems).empty());
      const auto evil = of_age(service("evil", address), created);
      list = {evil, web};
      const bool keeps = created > 2;
      CHECK(addresses.settle(list, problems).size() == (keeps ? 0U : 1U));
      const auto now = addresses_of(list);
      CHECK((now.at("web") == address) == keeps);
      CHECK(now.at("evil") == (keeps ? "" : address));
      CHECK_FALSE(list[0]->assigned);
      CHECK(list[1]->assigned);
      REQUIRE(problems.size() == (keeps ? 1U : 0U));
      if (!keeps) continue;
      CHECK(problems[0].code == ErrorCode::kConflictingAddress);
      CHECK(problems[0].object == ObjectKey{kinds::kService, "shop", "evil"});
      CHECK(problems[0].cause.find("shop/web") != std::string::npos);
      const auto before = list[0];
      list = {evil, web};
      CHECK(addresses.settle(list, problems).empty());
      CHECK(list[0] == before);  // an unchanged Service keeps its pointer
    }
  }

  TEST_CASE("an unchanged Service keeps its pointer when another one comes") {
    VirtualAddresses addresses(kNetwork);
    std::vector<Problem> problems;
    const auto written = service("web");
    SharedList<Service> list{written};
    CHECK(addresses.settle(list, problems).empty());
    const auto before = list[0];
    list = {service("api"), written};
    CHECK(addresses.settle(list, problems).empty());
    CHECK(list[1] == before);
  }

  TEST_CASE("a full network leaves Services out and says so") {
    SharedList<Service> services;
    for (int i = 100; i < 400; ++i) services.push_back(service("s" + std::to_string(i)));
    std::vector<Problem> problems;
    VirtualAddresses addresses("10.9.8.0/24");
    CHECK(addresses.settle(services, problems).empty());
    CHECK(services.size() == 254);
    REQUIRE(problems.size() == 46);
    CHECK(problems[0].code == ErrorCode::kConflictingAddress);
    CHECK(problems[0].cause.find("--service-cidr") != std::string::npos);
    std::set<std::string> distinct;
    for (const auto& one : services) distinct.insert(one->cluster_ip);
    CHECK(distinct.size() == 254);
    CHECK_FALSE(distinct.contains("10.9.8.0"));
    CHECK_FALSE(distinct.contains("10.9.8.255"));
  }

  TEST_CASE("networks that cannot be used are refused with a remedy") {
    for (const char* good : {"240.240.0.0/12", "10.96.0.0/16", "10.9.8.0/24", "240.0.0.0/8"})
      CHECK(spec::check_service_network(good).ok());
    for (const char* bad :
         {"", "x", "10.9.8.0", "10.9.8.0/25", "10.9.8.7/24", "0.0.0.0/8", "127.0.0.0/8",
          "224.0.0.0/8", "192.0.0.0/4", "fd00::/64", "10.0.0.0/-8", "10.0.0.0/24x"}) {
      const Status checked = spec::check_service_network(bad);
      REQUIRE_MESSAGE(!checked.ok(), bad);
      CHECK(checked.error().code == ErrorCode::kInvalidArgument);
      CHECK(checked.error().message.find("240.240.0.0/12") != std::string::npos);
    }
  }

  TEST_CASE_FIXTURE(Mesh, "a mesh lists allocated addresses, and a new Service changes no other") {
    put_service("web");
    put_service("db", "clusterIP: None");
    put_service("fixed", "clusterIP: 10.0.0.7");
    start();
    const std::string web = address("web");
    CHECK(web.starts_with("24"));
    CHECK(address("db").empty());
    CHECK(address("fixed") == "10.0.0.7");
    const auto before = mesh->get_service({"shop", "web"});
    std::vector<ObjectKey> changed;
    const auto watching = mesh->subscribe([&](const SpecChange& change) { changed = change.keys; });
    put_service("api");
    CHECK(changed == std::vector<ObjectKey>{{kinds::kService, "shop", "api"}});
    CHECK(mesh->get_service({"shop", "web"}) == before);
    CHECK(mesh->list_problems().empty());
    start();  // another process
    CHECK(address("web") == web);
  }

  TEST_CASE_FIXTURE(Mesh, "a written address takes an allocated one, and the move is logged") {
    put_service("web");
    start();
    const std::string held = address("web");
    put_service("api", "clusterIP: " + held);
    CHECK(address("api") == held);
    CHECK(address("web") != held);
    CHECK(log.count("service address moved") == 1);
  }

  TEST_CASE_FIXTURE(Mesh, "without a network a Service needs an address") {
    put_service("web");
    start("");
    CHECK(address("web") == "none");
    REQUIRE(mesh->list_problems().size() == 1);
    CHECK(mesh->list_problems()[0].field == "spec.clusterIP");
    CHECK(mesh->list_problems()[0].cause.find("--service-cidr") != std::string::npos);
  }
}
