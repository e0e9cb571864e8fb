// A workload serves the ports of its Services, and conflicting protocols are resolved by name.
#include "model/own_ports.hpp"

#include <doctest/doctest.h>

#include <memory>

using namespace osm;
using namespace osm::model;

namespace {

MeshService port(const char* service, const char* name, int number, int target,
                 Protocol protocol = Protocol::kHttp) {
  return {.name = {"shop", service},
          .port_name = name,
          .port = Port(static_cast<std::uint16_t>(number)),
          .target_port = Port(static_cast<std::uint16_t>(target)),
          .protocol = protocol};
}

std::shared_ptr<const ServiceEntry> entry(std::vector<MeshService> ports,
                                          std::map<std::string, std::string> named = {}) {
  ServiceEntry out;
  out.name = ports.front().name;
  out.ports = std::move(ports);
  out.named_targets = std::move(named);
  return std::make_shared<const ServiceEntry>(std::move(out));
}

Workload workload(std::vector<std::string> services, std::map<std::string, Port> ports = {}) {
  Workload out;
  out.name = {"shop", "vm"};
  for (std::string& service : services) out.services.push_back({"shop", std::move(service)});
  out.ports = std::move(ports);
  return out;
}

}  // namespace

TEST_SUITE("model::own_ports") {
  TEST_CASE("a workload serves every port of every service that selects it, in order") {
    const Table<ServiceEntry> services({entry({port("b", "http", 80, 8080)}),
                                        entry({port("a", "x", 1, 2), port("a", "y", 3, 4)}),
                                        entry({port("other", "", 9, 9)})});
    CHECK(own_ports_of(services, workload({"b", "a", "unknown"})).ports ==
          std::vector{port("a", "x", 1, 2), port("a", "y", 3, 4), port("b", "http", 80, 8080)});
  }

  TEST_CASE("a named target port is the workload's own, whatever other endpoints say") {
    const Table<ServiceEntry> services(
        {entry({port("a", "web", 80, 1111)}, {{"web", "http-alt"}})});
    const auto own = own_ports_of(services, workload({"a"}, {{"http-alt", Port(8081)}}));
    CHECK(own.ports == std::vector{port("a", "web", 80, 8081)});
    CHECK(own_ports_of(services, workload({"a"})).ports.empty());
  }

  TEST_CASE("a workload serves the numbers that endpoints at its address have") {
    ServiceEntry changed = *entry({port("a", "http", 80, 8080), port("a", "rpc", 90, 9090)});
    changed.other_targets = {
        {"http",
         {{"10.0.0.1", {Port(21001), Port(21002)}}, {"10.0.0.2", {Port(8080), Port(21003)}}}}};
    const Table<ServiceEntry> services({std::make_shared<const ServiceEntry>(changed)});
    const auto numbers = [&](const char* address) {
      Workload one = workload({"a"});
      one.address = address;
      std::vector<int> out;
      for (const MeshService& own : own_ports_of(services, one).ports)
        out.push_back(number(own.target_port));
      return out;
    };
    CHECK(numbers("10.0.0.1") == std::vector{21001, 21002, 9090});  // clients are not sent to 8080
    CHECK(numbers("10.0.0.2") == std::vector{8080, 21003, 9090});
    CHECK(numbers("10.0.0.3") == std::vector{8080, 9090});
  }

  TEST_CASE("a port without a target yet is not served") {
    const Table<ServiceEntry> services({entry({port("a", "web", 80, 0)})});
    CHECK(own_ports_of(services, workload({"a"})).ports.empty());
  }

  TEST_CASE("two service ports on one target port are both served when their protocols agree") {
    const Table<ServiceEntry> services(
        {entry({port("a", "one", 80, 8080), port("a", "two", 81, 8080)}),
         entry({port("b", "rpc", 90, 8080, Protocol::kGrpc),
                port("b", "raw", 91, 9090, Protocol::kTcp),
                port("b", "mail", 92, 9090, Protocol::kTcpServerFirst)})});
    const auto own = own_ports_of(services, workload({"a", "b"}));
    CHECK(own.ports.size() == 5);
    CHECK(own.conflicts.empty());
  }

  TEST_CASE("of conflicting protocols on one target port the first by port name wins") {
    const MeshService kept = port("b", "a-http", 80, 8080);
    const MeshService lost = port("a", "b-tcp", 81, 8080, Protocol::kTcp);
    const Table<ServiceEntry> services({entry({lost}), entry({kept})});
    const auto own = own_ports_of(services, workload({"a", "b"}));
    CHECK(own.ports == std::vector{kept});
    CHECK(own.conflicts == std::vector{PortConflict{.kept = kept, .left_out = lost}});
    CHECK(own == own_ports_of(services, workload({"b", "a"})));
  }

  TEST_CASE("with equal port names the first service wins") {
    const MeshService kept = port("a", "p", 80, 8080, Protocol::kHttp);
    const MeshService lost = port("b", "p", 80, 8080, Protocol::kTcpServerFirst);
    const Table<ServiceEntry> services({entry({lost}), entry({kept})});
    const auto own = own_ports_of(services, workload({"b", "a"}));
    CHECK(own.ports == std::vector{kept});
    CHECK(own.conflicts == std::vector{PortConflict{.kept = kept, .left_out = lost}});
  }

  TEST_CASE("a conflict may exist on one workload only") {
    const Table<ServiceEntry> services({entry({port("a", "x", 80, 0)}, {{"x", "web"}}),
                                        entry({port("b", "y", 81, 9000, Protocol::kTcp)})});
    CHECK(own_ports_of(services, workload({"a", "b"}, {{"web", Port(9000)}})).conflicts.size() ==
          1);
    CHECK(own_ports_of(services, workload({"a", "b"}, {{"web", Port(9001)}})).conflicts.empty());
  }
}
