// An address that objects of several namespaces claim belongs to the older one. The newcomer loses
// that address alone, and is named in its own namespace.
#include "catalog/address_owners.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "built_mesh.hpp"
#include "lib/run.hpp"
#include "mesh_values.hpp"

using namespace osm;
using namespace osm::catalog;
using namespace osm::catalog::values;

namespace {

constexpr const char* kAddress = "10.0.0.7";

Service service_in(const std::string& ns, const std::string& name, const std::string& ip,
                   std::uint64_t created) {
  Service out = service(name, ip);
  out.name.ns = ns;
  out.created.order = created;
  return out;
}

// A machine of an object of this kind; with 0, a workload of a platform, such as a pod.
Workload machine_in(const std::string& ns, const std::string& name, const std::string& address,
                    std::uint64_t created, const GroupKind& kind = kinds::kVirtualMachine) {
  Workload out;
  out.name = {ns, name};
  out.proxy_id = ProxyId("6f2c1a34-8d1e-4c5b-9a70-" + std::string(12 - name.size(), '0') + name);
  out.account = {ns, "account"};
  out.address = address;
  if (created > 0) out.claimed_by = {kind, ns, name};
  out.created.order = created;
  return out;
}

Endpoint endpoint_in(const std::string& ns, const std::string& address) {
  Endpoint out = served_at(address, "account");
  out.identity.ns = ns;
  return out;
}

// "aaa" comes first by name, and second in time.
struct Owned : BuiltMesh {
  Owned() {
    spec.put_namespace("aaa");
    spec.put_namespace("server");
  }
  void add_machine(const std::string& ns, const std::string& address, std::uint64_t created,
                   const GroupKind& kind = kinds::kVirtualMachine) {
    spec.put(service_in(ns, "headless", "", created));
    vm.set_endpoints({ns, "headless"}, {endpoint_in(ns, address)});
    vm.put_workload(machine_in(ns, "m", address, created, kind));
  }
  std::vector<std::string> members(const std::string& ns) const {
    return last->services.find({ns, "headless"})->addresses;
  }
  std::string cluster_ip(const std::string& ns) const {
    return last->services.find({ns, "s"})->cluster_ip;
  }
  std::vector<Problem> conflicts() const {
    std::vector<Problem> out;
    for (const Problem& problem : *last->problems)
      if (problem.code == ErrorCode::kConflictingAddress ||
          problem.code == ErrorCode::kAddressNotAllotted)
        out.push_back(problem);
    return out;
  }
  void check_loser(const ObjectKey& loser, const std::string& field, const std::string& owner) {
    REQUIRE(conflicts().size() == 1);
    CHECK(conflicts()[0].code == ErrorCode::kConflictingAddress);
    CHECK(conflicts()[0].object == loser);
    CHECK(conflicts()[0].field == field);
    CHECK(conflicts()[0].cause.find(owner) != std::string::npos);
    CHECK(conflicts()[0].cause.find(kAddress) != std::string::npos);
  }
};

const ObjectKey kEvil{kinds::kService, "aaa", "s"};
const ObjectKey kGhost{kinds::kVirtualMachine, "aaa", "m"};
const std::vector<GroupKind> kMachines{kinds::kVirtualMachine, kinds::kDnsResource,
                                       kinds::kAzureResource};
const std::vector<std::string> kThere{kAddress};
const std::vector<std::string> kNone;

std::string field_of(const GroupKind& kind) {
  return kind == kinds::kVirtualMachine ? "spec.address" : "spec";
}

}  // namespace

TEST_SUITE("catalog::AddressOwners") {
  TEST_CASE_FIXTURE(Owned, "a Service keeps its cluster IP when another namespace writes it") {
    spec.put(service_in("server", "s", kAddress, 1));
    next();
    spec.put(service_in("aaa", "s", kAddress, 2));
    next();
    CHECK(cluster_ip("server") == kAddress);
    CHECK(cluster_ip("aaa").empty());
    CHECK(last->services.find({"aaa", "s"})->ports.size() == 1);  // still a backend of splits
    check_loser(kEvil, "spec.clusterIP", "Service server/s");
    spec.remove({kinds::kService, "server", "s"});
    next();
    CHECK(cluster_ip("aaa") == kAddress);
    CHECK(conflicts().empty());
  }

  TEST_CASE_FIXTURE(Owned, "a machine keeps its address when another namespace's machine has it") {
    add_machine("server", kAddress, 1);
    next();
    add_machine("aaa", kAddress, 2);
    next();
    CHECK(members("server") == kThere);
    CHECK(members("aaa") == kNone);
    CHECK(last->endpoints.find({"server", "headless"})->endpoints.size() == 1);
    CHECK(last->endpoints.find({"aaa", "headless"})->endpoints.empty());
    check_loser(kGhost, "spec.address", "VirtualMachine server/m");
    vm.put_workload(machine_in("aaa", "m", "10.0.0.8", 2));
    vm.set_endpoints({"aaa", "headless"}, {endpoint_in("aaa", "10.0.0.8")});
    next();
    CHECK(members("aaa") == std::vector<std::string>{"10.0.0.8"});
    CHECK(conflicts().empty());
  }

  TEST_CASE_FIXTURE(Owned, "a machine keeps its address when a Service writes it as cluster IP") {
    add_machine("server", kAddress, 1);
    spec.put(service_in("aaa", "s", kAddress, 2));
    next();
    CHECK(members("server") == kThere);
    CHECK(cluster_ip("aaa").empty());
    check_loser(kEvil, "spec.clusterIP", "VirtualMachine server/m");
  }

  TEST_CASE_FIXTURE(Owned, "a Service keeps its cluster IP when a machine has that address") {
    spec.put(service_in("server", "s", kAddress, 1));
    add_machine("aaa", kAddress, 2);
    next();
    CHECK(cluster_ip("server") == kAddress);
    CHECK(members("aaa") == kNone);
    check_loser(kGhost, "spec.address", "Service server/s");
  }

  TEST_CASE("a machine of each kind keeps its address when a younger object claims it") {
    for (const GroupKind& kind : kMachines) {
      CAPTURE(kind.kind);
      const std::string owner = std::string(kind.kind) + " server/m";
      Owned mesh;
      mesh.add_machine("server", kAddress, 1, kind);
      mesh.spec.put(service_in("aaa", "s", kAddress, 2));
      mesh.next();
      CHECK(mesh.members("server") == kThere);
      CHECK(mesh.cluster_ip("aaa").empty());
      mesh.check_loser(kEvil, "spec.clusterIP", owner);
      mesh.spec.remove(kEvil);
      for (const GroupKind& other : kMachines) {
        CAPTURE(other.kind);
        mesh.add_machine("aaa", kAddress, 2, other);
        mesh.next();
        CHECK(mesh.members("server") == kThere);
        CHECK(mesh.members("aaa") == kNone);
        mesh.check_loser({other, "aaa", "m"}, field_of(other), owner);
      }
    }
  }

  TEST_CASE("a machine of each kind does not get an address that an older object claims") {
    for (const GroupKind& kind : kMachines) {
      CAPTURE(kind.kind);
      const ObjectKey loser{kind, "aaa", "m"};
      Owned mesh;
      mesh.add_machine("server", kAddress, 1);
      mesh.add_machine("aaa", kAddress, 2, kind);
      mesh.next();
      CHECK(mesh.members("server") == kThere);
      CHECK(mesh.members("aaa") == kNone);
      mesh.check_loser(loser, field_of(kind), "VirtualMachine server/m");
      mesh.add_machine("server", "10.0.0.8", 1);
      mesh.next();
      CHECK(mesh.members("aaa") == kThere);
      CHECK(mesh.conflicts().empty());
      mesh.spec.put(service_in("server", "s", kAddress, 1));
      mesh.next();
      CHECK(mesh.members("aaa") == kNone);
      mesh.check_loser(loser, field_of(kind), "Service server/s");
    }
  }

  TEST_CASE_FIXTURE(Owned,
                    "a resource loses the machine whose address is taken, and no other one") {
    add_machine("server", kAddress, 1);
    spec.put(service_in("aaa", "headless", "", 2));
    vm.set_endpoints({"aaa", "headless"},
                     {endpoint_in("aaa", kAddress), endpoint_in("aaa", "10.0.0.8")});
    for (const auto& [name, address] : {std::pair("m-1", kAddress), std::pair("m-2", "10.0.0.8")}) {
      Workload one = machine_in("aaa", name, address, 2, kinds::kDnsResource);
      one.claimed_by.name = "m";
      vm.put_workload(one);
    }
    next();
    CHECK(members("aaa") == std::vector<std::string>{"10.0.0.8"});
    check_loser({kinds::kDnsResource, "aaa", "m"}, "spec", "VirtualMachine server/m");
  }

  TEST_CASE_FIXTURE(Owned, "a pod has its address, however old a machine with it is") {
    add_machine("aaa", kAddress, 1);
    next();
    CHECK(members("aaa") == kThere);
    add_machine("server", kAddress, 0);
    next();
    CHECK(members("server") == kThere);
    CHECK(members("aaa") == kNone);
    check_loser(kGhost, "spec.address", "Workload server/m");
  }

  TEST_CASE_FIXTURE(Owned, "pods of several namespaces share the address of their node") {
    spec.put(service_in("aaa", "headless", "", 1));
    Service other = service_in("server", "headless", "", 2);
    other.ports = {service_port("http", 81, 8081)};
    spec.put(other);
    for (const char* ns : {"aaa", "server"}) {
      vm.set_endpoints({ns, "headless"}, {endpoint_in(ns, kAddress)});
      vm.put_workload(machine_in(ns, "m", kAddress, 0));
    }
    next();
    CHECK(members("aaa") == kThere);
    CHECK(members("server") == kThere);
    CHECK(conflicts().empty());
  }

  TEST_CASE_FIXTURE(Owned, "objects of one namespace share an address") {
    add_machine("aaa", kAddress, 2);
    vm.put_workload(machine_in("aaa", "n", kAddress, 3));
    spec.put(service_in("aaa", "s", kAddress, 1));
    next();
    CHECK(cluster_ip("aaa") == kAddress);
    for (const Problem& problem : conflicts()) CHECK(problem.object != kGhost);
  }

  TEST_CASE_FIXTURE(Owned, "the older of two headless Services has an address that nobody claims") {
    for (const auto& [ns, created] : {std::pair("aaa", 2U), std::pair("server", 1U)}) {
      spec.put(service_in(ns, "headless", "", created));
      vm.set_endpoints({ns, "headless"}, {endpoint_in(ns, kAddress)});
    }
    next();
    CHECK(members("server") == kThere);
    CHECK(members("aaa") == kNone);
    check_loser({kinds::kService, "aaa", "headless"}, "spec.selector", "server/headless");
  }

  TEST_CASE_FIXTURE(Owned, "an address beyond the allotments is left out, and nothing else") {
    constexpr const char* kPublic = "8.8.8.8";
    spec.put(service_in("server", "s", kAddress, 1));
    spec.put(service_in("aaa", "s", kPublic, 2));
    add_machine("aaa", "8.8.8.9", 3);
    next();
    CHECK(cluster_ip("server") == kAddress);
    CHECK(cluster_ip("aaa").empty());
    CHECK(members("aaa") == kNone);
    REQUIRE(conflicts().size() == 2);
    for (const Problem& problem : conflicts()) {
      CHECK(problem.code == ErrorCode::kAddressNotAllotted);
      CHECK(problem.object.ns == "aaa");
      CHECK(problem.cause.find("spec.addresses.allotments") != std::string::npos);
    }
    MeshConfig config;
    config.allotments = {{{{8U << 24, 8}}, {"aaa"}}};
    spec.set_mesh_config(config);
    next();
    CHECK(cluster_ip("aaa") == kPublic);
    CHECK(members("aaa") == std::vector<std::string>{"8.8.8.9"});
    CHECK(conflicts().empty());
    config.allotments.push_back({{{10U << 24, 8}}, {"aaa"}});
    spec.set_mesh_config(config);
    next();
    CHECK(cluster_ip("server").empty());
    REQUIRE(conflicts().size() == 1);
    CHECK(conflicts()[0].object == ObjectKey{kinds::kService, "server", "s"});
  }

  TEST_CASE_FIXTURE(Owned, "allotments bound the addresses of a DNSResource") {
    add_machine("aaa", "8.8.8.8", 1, kinds::kDnsResource);
    next();
    CHECK(members("aaa") == kNone);
    REQUIRE(conflicts().size() == 1);
    CHECK(conflicts()[0].code == ErrorCode::kAddressNotAllotted);
    CHECK(conflicts()[0].object == ObjectKey{kinds::kDnsResource, "aaa", "m"});
    CHECK(conflicts()[0].field == "spec");
    MeshConfig config;
    config.allotments = {{{{8U << 24, 8}}, {"aaa"}}};
    spec.set_mesh_config(config);
    next();
    CHECK(members("aaa") == std::vector<std::string>{"8.8.8.8"});
    CHECK(conflicts().empty());
    config.allotments = {{{{8U << 24, 8}}, {"server"}}};
    spec.set_mesh_config(config);
    add_machine("server", "8.8.8.8", 2, kinds::kDnsResource);
    next();
    CHECK(members("aaa") == kNone);
    CHECK(members("server") == std::vector<std::string>{"8.8.8.8"});
  }

  TEST_CASE_FIXTURE(Owned, "allotments do not bound the addresses that Azure tells") {
    MeshConfig config;
    config.allotments = {{{{10U << 24, 8}}, {"server"}}};
    spec.set_mesh_config(config);
    add_machine("aaa", kAddress, 1, kinds::kAzureResource);
    add_machine("server", "8.8.8.8", 1, kinds::kAzureResource);
    next();
    CHECK(members("aaa") == kThere);
    CHECK(members("server") == std::vector<std::string>{"8.8.8.8"});
    CHECK(conflicts().empty());
    spec.put(service_in("server", "s", kAddress, 2));  // allotted, and younger
    next();
    CHECK(members("aaa") == kThere);
    CHECK(cluster_ip("server").empty());
    check_loser({kinds::kService, "server", "s"}, "spec.clusterIP", "AzureResource aaa/m");
  }

  TEST_CASE_FIXTURE(Owned, "who may not claim an address does not hold it against others") {
    MeshConfig config;
    config.allotments = {{{{10U << 24, 8}}, {"server"}}};
    spec.set_mesh_config(config);
    spec.put(service_in("aaa", "s", kAddress, 1));
    spec.put(service_in("server", "s", kAddress, 2));
    next();
    CHECK(cluster_ip("server") == kAddress);
    CHECK(cluster_ip("aaa").empty());
  }

  TEST_CASE_FIXTURE(Owned, "an assigned address needs no allotment") {
    Service assigned = service_in("aaa", "s", "8.8.8.8", 1);
    assigned.assigned = true;
    spec.put(assigned);
    add_machine("server", "9.9.9.9", 0);
    next();
    CHECK(cluster_ip("aaa") == "8.8.8.8");
    CHECK(members("server") == std::vector<std::string>{"9.9.9.9"});
    CHECK(conflicts().empty());
  }

  TEST_CASE("without collisions the content has no trace of ages") {
    const auto hash = [](std::uint64_t created) {
      Owned mesh;
      mesh.spec.put(service_in("aaa", "s", kAddress, created));
      mesh.add_machine("server", "10.0.0.8", created + 1);
      return mesh.next().hash;
    };
    CHECK(hash(1) == hash(7));
  }

  TEST_CASE("every replica names the same owner, whatever it saw first") {
    auto random = osm::testing::seeded();
    const auto below = [&](std::uint64_t limit) { return random() % limit; };
    for (int round = 0; round < 20; ++round) {
      CAPTURE(round);
      std::vector<std::string> namespaces{"aaa", "bbb", "server"};
      std::vector<Service> services;
      std::vector<Workload> machines;
      for (unsigned i = 0; i < 12; ++i) {
        const std::string ns = namespaces[below(3)];
        const std::string address = "10.0.0." + std::to_string(1 + below(4));
        const std::string name = "x" + std::to_string(i);
        const std::uint64_t created = below(8);
        const auto kind = below(6);  // half of the objects are Services
        if (kind > 2)
          services.push_back(service_in(ns, name, address, created));
        else
          machines.push_back(machine_in(ns, name, address, created, kMachines[kind]));
      }
      MeshConfig config;
      config.allotments = {{{{10U << 24 | 1, 32}}, {"bbb"}}};
      std::vector<std::pair<std::vector<Problem>, std::string>> found;
      for (int replica = 0; replica < 3; ++replica) {
        BuiltMesh mesh;
        for (const auto& ns : namespaces) mesh.spec.put_namespace(ns);
        if (replica > 0) {
          std::shuffle(services.begin(), services.end(), random);
          std::shuffle(machines.begin(), machines.end(), random);
        }
        if (replica == 1) mesh.spec.set_mesh_config(config);
        for (const Service& one : services) {
          mesh.spec.put(one);
          if (replica == 2) mesh.builder.build();
        }
        for (const Workload& one : machines) {
          mesh.vm.put_workload(one);
          if (replica == 2) mesh.builder.build();
        }
        if (replica == 2) {  // something was there, and is gone
          mesh.spec.put(service_in("aaa", "old", "10.0.0.2", 1));
          mesh.builder.build();
          mesh.spec.remove({kinds::kService, "aaa", "old"});
        }
        if (replica != 1) mesh.spec.set_mesh_config(config);
        mesh.next();
        found.emplace_back(*mesh.last->problems, mesh.last->hash);
      }
      CHECK(found[0] == found[1]);
      CHECK(found[0] == found[2]);
    }
  }
}
