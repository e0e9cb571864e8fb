// A UUID belongs to a workload of one kind: a machine with a pod's UUID, or a pod with a machine's,
// neither stops the other's proxy nor makes the other's certificate its own (docs/security.md,
// threat 29).
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ads/hub_rig.hpp"
#include "catalog/mesh_builder.hpp"
#include "inject/pod_bootstrap.hpp"
#include "kubernetes/source/pods_yaml.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/spec/vm_provider.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/testing/memory_object_store.hpp"

using namespace osm;
using namespace osm::ads_test;
using osm::testing::pod_yaml;
using osm::testing::uuid_of;

namespace {

const ServiceAccount kBooks{"shop", "books"};
const ProxyId kId(uuid_of(1));

// Pods and machines of one store, through the real providers and the real catalog, in front of a
// hub.
struct World {
  HubRig rig;
  osm::testing::MemoryObjectStore store;
  osm::testing::MemoryMeshSpec spec;
  std::unique_ptr<certificate::Manager> certificates =
      certificate::make_manager({.issuer = rig.ca.issuer(kDomain), .runtime = rig.runtime});
  std::unique_ptr<kubernetes::Provider> pods;
  std::unique_ptr<vm::VmProvider> machines;
  std::unique_ptr<catalog::MeshBuilder> builder;
  std::vector<Subscription> subscriptions;
  std::shared_ptr<const model::MeshSnapshot> mesh;

  World() {
    spec.put_namespace("shop");
    pods = kubernetes::make_provider(
        {.store = store, .mesh_spec = spec, .log = rig.log, .metrics = rig.metrics});
    machines = vm::make_vm_provider({store, spec, kDomain, rig.log, rig.metrics});
    builder = std::make_unique<catalog::MeshBuilder>(
        spec, std::vector<ProviderEntry>{{pods.get()}, {machines.get()}},
        std::vector<WorkloadProvider*>{pods.get(), machines.get()}, kDomain);
    for (WorkloadProvider* provider : std::vector<WorkloadProvider*>{pods.get(), machines.get()})
      subscriptions.push_back(provider->subscribe_workloads(
          [this](const auto& names) { builder->workloads_changed(names); }));
  }

  void publish() {
    mesh = builder->build();
    REQUIRE(mesh);
    rig.hub.on_snapshot(mesh, mesh->changes);
    rig.executor.run_until_idle();
  }
  void put_pod() {
    REQUIRE(osm::testing::put_objects(store, pod_yaml({.name = "web", .uuid = kId.str()})));
    publish();
  }
  void put_machine(const std::string& account = "books") {
    REQUIRE(store
                .put_yaml("apiVersion: workload.openservicemesh.io/v1alpha1\nkind: VirtualMachine\n"
                          "metadata: {name: box, namespace: shop}\nspec: {address: 10.9.0.1, "
                          "serviceAccount: " +
                          account + ", proxyUUID: " + kId.str() + "}\n")
                .ok());
    publish();
  }
  void remove_pod() {
    store.remove({kinds::kPod, "shop", "web"});
    publish();
  }
  void remove_machine() {
    store.remove({kinds::kVirtualMachine, "shop", "box"});
    publish();
  }

  certificate::CertificatePtr pod_certificate() {
    return inject::issue_for_pod(*certificates, kDomain, {kId, kBooks, WorkloadKind::kPod},
                                 std::chrono::hours(1), {})
        .value();
  }
  certificate::CertificatePtr machine_certificate() {
    return rig.ca.proxy(kId, {kBooks.ns, kBooks.name});
  }
  ads::Peer peer(const certificate::Certificate& certificate) const {
    return ads::identify_peer({kDomain}, {{certificate.subject.spiffe_id.str()},
                                          certificate.subject.common_name.str(),
                                          certificate.chain_pem,
                                          "ipv4:10.0.0.1:40000"})
        .value();
  }
  std::shared_ptr<MemoryStream> connect(const certificate::Certificate& certificate) {
    auto stream = std::make_shared<MemoryStream>(XdsVariant::kDelta);
    rig.hub.open(++rig.last_id, peer(certificate), stream);
    rig.executor.run_until_idle();
    return stream;
  }
  // True if a proxy with this certificate is served, and its certificate may be renewed.
  bool admits(const certificate::Certificate& certificate) {
    const auto stream = connect(certificate);
    rig.executor.run_for(std::chrono::seconds(10));
    CHECK(stream->closed.has_value() != rig.hub.admission().workload_of(peer(certificate)).ok());
    if (stream->closed) {
      CHECK(stream->closed->text.find("unknown-proxy") == 0);
      return false;
    }
    rig.hub.on_closed(rig.last_id);
    return true;
  }
  void check_problem_names_both() const {
    REQUIRE(mesh->problems->size() == 1);
    const Problem& problem = mesh->problems->front();
    CHECK(problem.code == ErrorCode::kDuplicateObject);
    for (const char* part : {"Pod shop/web", "machine shop/box"})
      CHECK_MESSAGE(problem.cause.find(part) != std::string::npos, problem.cause);
  }
};

}  // namespace

TEST_SUITE("security.claims") {
  TEST_CASE("a machine with a pod's UUID does not stop the pod's proxy") {
    for (const std::string account : {"books", "thief"}) {
      CAPTURE(account);
      World world;
      world.put_pod();
      const auto pod = world.pod_certificate();
      const auto stream = world.connect(*pod);
      world.put_machine(account);
      CHECK_FALSE(stream->closed);
      CHECK(world.admits(*pod));
      world.check_problem_names_both();
    }
  }

  TEST_CASE("a pod with a machine's UUID does not stop the machine's proxy") {
    World world;
    world.put_machine();
    const auto machine = world.machine_certificate();
    const auto stream = world.connect(*machine);
    world.put_pod();
    CHECK_FALSE(stream->closed);
    CHECK(world.admits(*machine));
    world.check_problem_names_both();
  }

  TEST_CASE("a deleted pod's certificate is not valid for a machine with its UUID") {
    World world;
    world.put_pod();
    const auto pod = world.pod_certificate();
    REQUIRE(world.admits(*pod));
    world.remove_pod();
    REQUIRE_FALSE(world.admits(*pod));
    world.put_machine();
    CHECK_FALSE(world.admits(*pod));
    CHECK(world.admits(*world.machine_certificate()));
    CHECK(world.mesh->problems->empty());
  }

  TEST_CASE("a deleted machine's certificate is not valid for a pod with its UUID") {
    World world;
    world.put_machine();
    const auto machine = world.machine_certificate();
    REQUIRE(world.admits(*machine));
    world.remove_machine();
    world.put_pod();
    CHECK_FALSE(world.admits(*machine));
    CHECK(world.admits(*world.pod_certificate()));
  }
}
