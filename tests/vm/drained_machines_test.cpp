// A drained machine has no endpoints and stays a workload; replicas share the record, which
// outlives them and is bounded.
#include "osm/providers/drained_machines.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "osm/runtime/system.hpp"
#include "osm/spec/vm_provider.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/testing/memory_object_store.hpp"

using namespace osm;
using namespace std::chrono_literals;

namespace {

constexpr const char* kUuidOfOne = "6f2c1a34-8d1e-4c5b-9a70-3e2f1d0c9b8a";
constexpr const char* kUuidOfTwo = "7f2c1a34-8d1e-4c5b-9a70-3e2f1d0c9b8b";
const WorkloadName kOne{"shop", "one"};
const WorkloadName kTwo{"shop", "two"};

// Replaces a text of the version that is named, as all records do.
class DrainRecord final : public TextRecord {
 public:
  std::string name() const override { return "memory"; }
  Result<Text> load() override {
    const std::lock_guard lock(mutex_);
    if (away) return Error{ErrorCode::kUnavailable, "memory: is away"};
    return Text{text, std::to_string(version_)};
  }
  Status store(const Text& next) override {
    const std::lock_guard lock(mutex_);
    if (away) return Error{ErrorCode::kUnavailable, "memory: is away"};
    if (next.version != std::to_string(version_)) return Error{ErrorCode::kConflict, "changed"};
    text = next.text;
    ++version_;
    return {};
  }

  std::string text;
  bool away = false;

 private:
  std::mutex mutex_;
  int version_ = 0;
};

std::string machine_yaml(const std::string& name, const std::string& address,
                         const std::string& uuid) {
  return "apiVersion: workload.openservicemesh.io/v1alpha1\nkind: VirtualMachine\n"
         "metadata: {name: " +
         name + ", namespace: shop, labels: {app: books}}\nspec:\n  address: " + address +
         "\n  serviceAccount: account\n  proxyUUID: " + uuid + "\n";
}

// A replica: its drained machines, and the provider that acts on them.
struct Replica {
  Replica(DrainRecord& record, osm::testing::MemoryObjectStore& store,
          osm::testing::MemoryMeshSpec& mesh, osm::testing::ManualClock& on)
      : executor(on),
        runtime{executor, executor, on, rng, log, metrics},
        drained(vm::make_drained_machines({.record = record, .runtime = runtime})),
        vms(vm::make_vm_provider(
            {store, mesh, TrustDomain("cluster.local"), log, metrics, drained.get()})) {
    drained->follow(vms.get(), [this] { return vms->has_synced(); });
    changes = vms->subscribe([this](const std::vector<ServiceName>& names) {
      changed.insert(changed.end(), names.begin(), names.end());
    });
  }
  ~Replica() { drained->follow(nullptr, {}); }

  std::vector<std::string> endpoints() const {
    std::vector<std::string> out;
    const auto list = vms->list_endpoints_for_service({"shop", "books"});
    REQUIRE(list.has_value());
    for (const Endpoint& endpoint : *list) out.push_back(endpoint.address);
    std::sort(out.begin(), out.end());
    return out;
  }

  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  RandomRng rng;
  osm::testing::ManualExecutor executor;
  Runtime runtime;
  std::unique_ptr<DrainedMachines> drained;
  std::unique_ptr<vm::VmProvider> vms;
  Subscription changes;
  std::vector<ServiceName> changed;
};

struct DrainRig {
  DrainRig() {
    mesh.put_namespace("shop");
    put("one", "10.0.0.1", kUuidOfOne);
    put("two", "10.0.0.2", kUuidOfTwo);
    mesh.put(Service{{"shop", "books"},
                     "10.96.0.1",
                     false,
                     {{"app", "books"}},
                     {{"", Port{80}, Port{14001}, Protocol::kHttp}}});
  }
  void put(const std::string& name, const std::string& address, const std::string& uuid) {
    REQUIRE(store.put_yaml(machine_yaml(name, address, uuid), "mesh/" + name + ".yaml").ok());
  }

  DrainRecord record;
  osm::testing::ManualClock clock;
  osm::testing::MemoryObjectStore store;
  osm::testing::MemoryMeshSpec mesh;
};

using Addresses = std::vector<std::string>;

}  // namespace

TEST_SUITE("vm::DrainedMachines") {
  TEST_CASE("a drained machine has no endpoints, stays a workload, and can be taken back") {
    DrainRig rig;
    Replica replica(rig.record, rig.store, rig.mesh, rig.clock);
    CHECK(replica.endpoints() == Addresses{"10.0.0.1", "10.0.0.2"});
    replica.changed.clear();
    REQUIRE(replica.drained->drain(kOne, ProxyId(kUuidOfOne)).ok());
    CHECK(replica.changed == std::vector<ServiceName>{{"shop", "books"}});
    CHECK(replica.endpoints() == Addresses{"10.0.0.2"});
    const auto problems = replica.vms->list_problems();
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].object.name == "one");
    CHECK(problems[0].code == ErrorCode::kUnusedField);
    CHECK(problems[0].cause.find("osm vm drain one -n shop --undo") != std::string::npos);
    CHECK(replica.vms->list_workloads().size() == 2);
    CHECK(replica.vms->find_workload(kOne)->services ==
          std::vector<ServiceName>{{"shop", "books"}});
    REQUIRE(replica.drained->take_back(kOne).ok());
    CHECK(replica.endpoints() == Addresses{"10.0.0.1", "10.0.0.2"});
    CHECK(replica.vms->list_problems().empty());
    CHECK_FALSE(replica.drained->contains(kOne, ProxyId(kUuidOfOne)));
  }

  TEST_CASE("the record outlives a controller, and other replicas read it") {
    DrainRig rig;
    Replica other(rig.record, rig.store, rig.mesh, rig.clock);
    {
      Replica replica(rig.record, rig.store, rig.mesh, rig.clock);
      REQUIRE(replica.drained->drain(kOne, ProxyId(kUuidOfOne)).ok());
      CHECK(other.endpoints().size() == 2);
      other.executor.run_for(1s);
      CHECK(other.endpoints() == Addresses{"10.0.0.2"});
    }
    Replica next(rig.record, rig.store, rig.mesh, rig.clock);
    CHECK(next.endpoints() == Addresses{"10.0.0.2"});
    REQUIRE(next.drained->take_back(kOne).ok());
    other.executor.run_for(1s);
    CHECK(other.endpoints().size() == 2);
  }

  TEST_CASE("an entry ends when its machine has another UUID, or was away for a minute") {
    DrainRig rig;
    Replica replica(rig.record, rig.store, rig.mesh, rig.clock);
    REQUIRE(replica.drained->drain(kOne, ProxyId(kUuidOfOne)).ok());
    REQUIRE(replica.drained->drain(kTwo, ProxyId(kUuidOfTwo)).ok());
    rig.put("one", "10.0.0.1", "8f2c1a34-8d1e-4c5b-9a70-3e2f1d0c9b8c");
    CHECK(replica.endpoints() == Addresses{"10.0.0.1"});
    replica.executor.run_for(1s);
    CHECK(rig.record.text.find("one") == std::string::npos);
    CHECK(rig.record.text.find("two") != std::string::npos);

    rig.store.remove({kinds::kVirtualMachine, "shop", "two"});
    replica.executor.run_for(30s);
    rig.put("two", "10.0.0.2", kUuidOfTwo);
    replica.executor.run_for(61s);
    CHECK(replica.endpoints() == Addresses{"10.0.0.1"});
    rig.store.remove({kinds::kVirtualMachine, "shop", "two"});
    replica.executor.run_for(62s);
    CHECK(rig.record.text.find("two") == std::string::npos);
  }

  TEST_CASE("until the record was read once, the provider is not synced") {
    DrainRig rig;
    {
      Replica replica(rig.record, rig.store, rig.mesh, rig.clock);
      REQUIRE(replica.drained->drain(kOne, ProxyId(kUuidOfOne)).ok());
    }
    const std::string before = rig.record.text;
    rig.record.text = "{";
    Replica next(rig.record, rig.store, rig.mesh, rig.clock);
    next.executor.run_for(10s);
    CHECK_FALSE(next.vms->has_synced());
    rig.record.text = before;
    next.executor.run_for(2s);
    CHECK(next.vms->has_synced());
    CHECK(next.endpoints() == Addresses{"10.0.0.2"});
  }

  TEST_CASE("while the record is away or damaged, drained machines stay, and it is logged once") {
    DrainRig rig;
    Replica replica(rig.record, rig.store, rig.mesh, rig.clock);
    REQUIRE(replica.drained->drain(kOne, ProxyId(kUuidOfOne)).ok());
    rig.record.away = true;
    CHECK(replica.drained->drain(kTwo, ProxyId(kUuidOfTwo)).error().code ==
          ErrorCode::kUnavailable);
    replica.executor.run_for(10s);
    CHECK(replica.endpoints() == Addresses{"10.0.0.2"});
    CHECK(replica.log.count("the record of drained machines cannot be read") == 1);
    rig.record.away = false;
    const std::string before = rig.record.text;
    for (const std::string damaged : {"{", R"({"machines": [{"namespace": "shop"}]})"}) {
      rig.record.text = damaged;
      replica.executor.run_for(2s);
      CHECK(replica.endpoints() == Addresses{"10.0.0.2"});
      CHECK_FALSE(replica.drained->take_back(kOne).ok());
      CHECK(rig.record.text == damaged);
    }
    rig.record.text = before;
    replica.executor.run_for(2s);
    CHECK(replica.drained->take_back(kOne).ok());
  }

  TEST_CASE("what is no VirtualMachine cannot be drained") {
    DrainRig rig;
    Replica replica(rig.record, rig.store, rig.mesh, rig.clock);
    CHECK(replica.drained->drain({"shop", "nobody"}, ProxyId(kUuidOfOne)).error().code ==
          ErrorCode::kNotFound);
    CHECK(rig.record.text.empty());
    CHECK(replica.drained->take_back({"shop", "nobody"}).ok());
  }

  TEST_CASE("more than 1000 machines are refused, and so is a record of more") {
    DrainRig rig;
    Replica replica(rig.record, rig.store, rig.mesh, rig.clock);
    std::string full = R"({"machines": [)";
    const std::string more =
        R"({"namespace": "shop", "name": "m0", "uuid": ")" + std::string(kUuidOfOne) + "\"}";
    for (int i = 0; i < 1000; ++i)
      full += (i ? "," : "") + std::string(R"({"namespace": "shop", "name": "m)") +
              std::to_string(i) + R"(", "uuid": ")" + kUuidOfOne + "\"}";
    rig.record.text = full + "]}";
    CHECK(replica.drained->drain(kOne, ProxyId(kUuidOfOne)).error().code == ErrorCode::kTooLarge);
    rig.record.text = full + "," + more + "]}";
    CHECK(replica.drained->take_back(kOne).error().code == ErrorCode::kTooLarge);
  }
}
