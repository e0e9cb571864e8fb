// A port that leaves is configured as before, with the newest policies.
//
// Ports that a workload served until lately.
#include <map>
#include <string>

#include "translate/snapshots.hpp"

using namespace osm;
using namespace osm::translate_test;

namespace {

const ServiceName kApex{"server", "apex"};

// Keys of all resources of a class: equal keys are equal bytes.
std::map<std::pair<XdsType, std::string>, Digest> keys(const Mesh& mesh,
                                                       const translate::ProxyClass& of) {
  std::map<std::pair<XdsType, std::string>, Digest> out;
  for (XdsType type : kXdsTypes)
    for (const auto& input : mesh.inputs(of, type)) out[{type, input->name()}] = input->key();
  return out;
}

// The class of a proxy whose own ports have all left, as `mesh` describes them.
translate::ProxyClass left(const Mesh& mesh, const translate::ProxyClass& own) {
  return {own.identity, {}, translate::served_ports(mesh.snapshot, own.own_ports)};
}

}  // namespace

TEST_SUITE("translate leaving ports") {
  TEST_CASE("a port that leaves is configured as before, whatever happens to its Service") {
    Mesh mesh;
    translate::ProxyClass own = server_class();
    SUBCASE("HTTP") { mesh = worked_example(); }
    SUBCASE("HTTP behind a split") {
      mesh = worked_example();
      auto entry = server_entry();
      entry.apexes = {kApex};
      mesh.put(entry);
    }
    SUBCASE("headless") {
      mesh = worked_example();
      auto entry = server_entry();
      entry.cluster_ip.clear();
      entry.headless = true;
      entry.addresses = {"10.1.0.9"};
      mesh.put(entry);
    }
    SUBCASE("TCP") {
      mesh = worked_example(Protocol::kTcp);
      own = server_class(Protocol::kTcp);
    }
    const auto leaving = left(mesh, own);
    const auto before = keys(mesh, own);
    CHECK(before.size() >= 2);
    CHECK(keys(mesh, leaving) == before);
    mesh.snapshot.services = mesh.snapshot.services.without(kServerService);
    CHECK(keys(mesh, leaving) == before);
    CHECK(keys(mesh, {kServer, {}}).empty());
  }

  TEST_CASE("a port that leaves has the policies, mode and trust domains of the snapshot") {
    for (Protocol protocol : {Protocol::kHttp, Protocol::kTcp}) {
      Mesh mesh = worked_example(protocol);
      const auto own = server_class(protocol);
      const auto leaving = left(mesh, own);
      const auto check_follows = [&](auto change) {
        const auto before = keys(mesh, leaving);
        change();
        CHECK(keys(mesh, leaving) != before);
        CHECK(keys(mesh, leaving) == keys(mesh, own));
      };
      check_follows([&] { mesh.put(kServer, {}, {}); });
      check_follows([&] { mesh.permissive(); });
      check_follows([&] { mesh.snapshot.config.proxy.permissive = false; });
      check_follows([&] { mesh.domains({"new.example"}); });
    }
  }

  TEST_CASE("an own port with another protocol takes the target port over") {
    Mesh mesh = worked_example();
    auto leaving = left(mesh, server_class());
    leaving.own_ports = {port(kApex, 80, 14001, Protocol::kTcp)};
    const auto listener = mesh.listener(leaving, "inbound-listener");
    REQUIRE(listener.filter_chains_size() == 1);
    CHECK(listener.filter_chains(0).name() == "inbound_server/apex_14001_tcp");
    leaving.own_ports = {port(kApex, 80, 14001)};
    CHECK(mesh.listener(leaving, "inbound-listener").filter_chains_size() == 2);
  }

  TEST_CASE("an apex that leaves stays a host of the port") {
    Mesh mesh = worked_example();
    auto of = server_class();
    of.leaving = {{of.own_ports.front(), false, {kApex}}};
    const auto routes = mesh.routes(of, "rds-inbound.14001");
    REQUIRE(routes.virtual_hosts_size() == 3);
    CHECK(routes.virtual_hosts(0).name() == "inbound_virtual-host|apex.server.svc.cluster.local");
    CHECK(routes.virtual_hosts(0).routes(0).route().cluster() == "server/server|14001|local");
    CHECK(mesh.names(of, XdsType::kCluster) == mesh.names(server_class(), XdsType::kCluster));
  }
}
