// Clients get the endpoints of allowed identities only, with localities and weights.
#include "envoy/config/endpoint/v3/endpoint.pb.h"
#include "translate/snapshots.hpp"

using namespace osm;
using namespace osm::translate_test;

namespace {

const ServiceIdentity kBlue{"server", "blue"}, kGreen{"server", "green"};

// "zone address:port[*weight]", in order.
std::vector<std::string> hosts(const ClusterLoadAssignment& assignment) {
  std::vector<std::string> out;
  for (const auto& locality : assignment.endpoints()) {
    for (const auto& host : locality.lb_endpoints()) {
      const auto& address = host.endpoint().address().socket_address();
      out.push_back(locality.locality().zone() + ' ' + address.address() + ':' +
                    std::to_string(address.port_value()));
      if (host.has_load_balancing_weight())
        out.back() += '*' + std::to_string(host.load_balancing_weight().value());
    }
  }
  return out;
}

Mesh two_accounts() {
  auto mesh = worked_example();
  mesh.put(model::ServiceEndpoints{
      kServerService,
      {endpoint_at("10.1.0.1", 14001, kBlue), endpoint_at("10.1.0.2", 14001, kGreen)}});
  return mesh;
}

}  // namespace

TEST_SUITE("translate::endpoint") {
  TEST_CASE("a client gets only the endpoints of the identities it may call") {
    auto mesh = two_accounts();
    mesh.put(kClient, {upstream(kServerService, {kGreen})});
    CHECK(hosts(mesh.assignment(client_class(), "server/server|14001")) ==
          std::vector<std::string>{"local 10.1.0.2:14001"});
  }

  TEST_CASE("of two versions the endpoints of both are told, as the later one has them") {
    auto mesh = two_accounts();
    mesh.permissive();
    const auto encoded = [&](const std::vector<std::string>& addresses) {
      model::ServiceEndpoints endpoints{kServerService, {}};
      for (const std::string& address : addresses)
        endpoints.endpoints.push_back(endpoint_at(address, 14001, kBlue));
      mesh.put(std::move(endpoints));
      return mesh.encoded(client_class(), XdsType::kEndpoint, "server/server|14001").value();
    };
    using translate::known_endpoints;
    const auto one = encoded({"10.1.0.1", "10.1.0.2"});
    const auto both = known_endpoints(one, encoded({"10.1.0.2", "10.1.0.3"}));
    REQUIRE(both);
    CHECK(both->any == encoded({"10.1.0.2"}).any);
    CHECK(both->hash == encoded({"10.1.0.2"}).hash);
    CHECK_FALSE(known_endpoints(one, encoded({"10.1.0.1"})));  // all of it
    CHECK_FALSE(known_endpoints(one, encoded({"10.1.0.4"})));  // none of it
  }

  TEST_CASE("with every identity allowed all endpoints are there") {
    auto mesh = two_accounts();
    mesh.permissive();
    CHECK(hosts(mesh.assignment(client_class(), "server/server|14001")).size() == 2);
  }

  TEST_CASE("without permitted endpoints there is an empty locality, so the cluster warms") {
    auto mesh = two_accounts();
    mesh.put(kClient, {upstream(kServerService, {})});
    const auto assignment = mesh.assignment(client_class(), "server/server|14001");
    REQUIRE(assignment.endpoints_size() == 1);
    CHECK(assignment.endpoints(0).lb_endpoints().empty());
  }

  TEST_CASE("endpoints are told apart by the service port they serve") {
    auto mesh = worked_example();
    auto entry = server_entry();
    entry.ports = {port(kServerService, 80, 14001, Protocol::kHttp, "web"),
                   port(kServerService, 90, 14002, Protocol::kHttp, "admin")};
    mesh.put(entry);
    mesh.put(model::ServiceEndpoints{kServerService,
                                     {endpoint_at("10.1.0.1", 14001, kServer, "web"),
                                      endpoint_at("10.1.0.1", 14002, kServer, "admin")}});
    CHECK(hosts(mesh.assignment(client_class(), "server/server|14001")) ==
          std::vector<std::string>{"local 10.1.0.1:14001"});
    CHECK(hosts(mesh.assignment(client_class(), "server/server|14002")) ==
          std::vector<std::string>{"local 10.1.0.1:14002"});
  }

  TEST_CASE(
      "an endpoint without a service port serves a Service's only port, and none of several") {
    auto mesh = worked_example();
    auto entry = server_entry();
    entry.ports = {port(kServerService, 80, 14001, Protocol::kHttp, "web")};
    mesh.put(entry);
    mesh.put(model::ServiceEndpoints{
        kServerService,
        {endpoint_at("10.1.0.1", 14001, kServer), endpoint_at("10.1.0.2", 14001, kServer, "web")}});
    CHECK(hosts(mesh.assignment(client_class(), "server/server|14001")) ==
          std::vector<std::string>{"local 10.1.0.1:14001", "local 10.1.0.2:14001"});

    entry.ports.push_back(port(kServerService, 90, 14002, Protocol::kHttp, "admin"));
    mesh.put(entry);
    CHECK(hosts(mesh.assignment(client_class(), "server/server|14001")) ==
          std::vector<std::string>{"local 10.1.0.2:14001"});
    CHECK(hosts(mesh.assignment(client_class(), "server/server|14002")).empty());
  }

  TEST_CASE("a named target port keeps the number each endpoint gives it") {
    auto mesh = worked_example();
    mesh.put(model::ServiceEndpoints{
        kServerService,
        {endpoint_at("10.1.0.1", 14001, kServer), endpoint_at("10.1.0.2", 15555, kServer)}});
    CHECK(hosts(mesh.assignment(client_class(), "server/server|14001")) ==
          std::vector<std::string>{"local 10.1.0.1:14001", "local 10.1.0.2:15555"});
  }

  TEST_CASE("zones are localities, weights are weights, and weight 0 is no endpoint") {
    auto mesh = worked_example();
    auto far = endpoint_at("10.1.0.1", 14001, kServer);
    far.zone = "b";
    auto heavy = endpoint_at("10.1.0.2", 14001, kServer);
    heavy.zone = "a";
    heavy.weight = 7;
    auto none = endpoint_at("10.1.0.3", 14001, kServer);
    none.weight = 0;
    mesh.put(model::ServiceEndpoints{kServerService, {far, heavy, none}});
    CHECK(hosts(mesh.assignment(client_class(), "server/server|14001")) ==
          std::vector<std::string>{"a 10.1.0.2:14001*7", "b 10.1.0.1:14001"});
  }

  TEST_CASE("weights that sum to more than Envoy takes shrink together, in all zones") {
    auto mesh = worked_example();
    auto heavy = endpoint_at("10.1.0.1", 14001, kServer);
    heavy.weight = 4'000'000'000;
    auto half = endpoint_at("10.1.0.2", 14001, kServer);
    half.weight = 2'000'000'000;
    half.zone = "far";
    auto light = endpoint_at("10.1.0.3", 14001, kServer);
    light.weight = 1;
    mesh.put(model::ServiceEndpoints{kServerService, {heavy, half, light}});
    const auto assignment = mesh.assignment(client_class(), "server/server|14001");
    std::map<std::string, std::uint64_t> weights;
    std::uint64_t sum = 0;
    for (const auto& locality : assignment.endpoints())
      for (const auto& host : locality.lb_endpoints())
        sum += weights[host.endpoint().address().socket_address().address()] =
            host.load_balancing_weight().value();
    CHECK(sum <= 0xffff'ffff);
    CHECK(sum > 0xffff'ff00);
    CHECK(weights["10.1.0.1"] / weights["10.1.0.2"] == 2);
    CHECK(weights["10.1.0.3"] == 1);
    heavy.weight = 0xffff'ffff - 2'000'000'001;  // what just fits stays as it is
    mesh.put(model::ServiceEndpoints{kServerService, {heavy, half, light}});
    CHECK(hosts(mesh.assignment(client_class(), "server/server|14001")) ==
          std::vector<std::string>{"far 10.1.0.2:14001*2000000000",
                                   "local 10.1.0.1:14001*2294967294", "local 10.1.0.3:14001*1"});
  }

  TEST_CASE("one address and port stands once, though two service ports lead to it") {
    auto mesh = worked_example();
    auto entry = server_entry();
    entry.ports = {port(kServerService, 80, 14001, Protocol::kHttp, "a"),
                   port(kServerService, 8080, 14001, Protocol::kHttp, "b")};
    mesh.put(entry);
    mesh.put(model::ServiceEndpoints{kServerService,
                                     {endpoint_at("10.1.0.1", 14001, kServer, "a"),
                                      endpoint_at("10.1.0.1", 14001, kServer, "b")}});
    CHECK(hosts(mesh.assignment(client_class(), "server/server|14001")).size() == 1);
  }

  TEST_CASE("the narrow path gives the same inputs as the wide one") {
    auto mesh = two_accounts();
    const auto wide = mesh.inputs(client_class(), XdsType::kEndpoint);
    const auto narrow =
        translate::endpoint_inputs_for(mesh.snapshot, client_class(), kServerService);
    REQUIRE(wide.size() == 1);
    REQUIRE(narrow.size() == 1);
    CHECK(wide[0]->key() == narrow[0]->key());
    CHECK(wide[0]->encode().any == narrow[0]->encode().any);
    CHECK(translate::endpoint_inputs_for(mesh.snapshot, client_class(), {"server", "x"}).empty());
    CHECK(translate::endpoint_inputs_for(mesh.snapshot, server_class(), kServerService).empty());
  }
}
