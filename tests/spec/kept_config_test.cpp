// The last MeshConfig stays in force after a deletion, a restart and on other replicas; an invalid
// copy is refused.
#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "osm/runtime/system.hpp"
#include "osm/runtime/text_record.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"
#include "osm/testing/memory_object_store.hpp"

using namespace osm;
using namespace std::chrono_literals;

namespace {

const ObjectKey kConfig{kinds::kMeshConfig, "osm-system", "osm-mesh-config"};

std::string config_yaml(const std::string& mode, const std::string& metadata = "") {
  return "apiVersion: config.openservicemesh.io/v1alpha2\nkind: MeshConfig\n"
         "metadata: {name: osm-mesh-config, namespace: osm-system" +
         metadata + "}\nspec: {traffic: {enablePermissiveTrafficPolicyMode: " + mode + "}}\n";
}

// As an API server has it.
Object served(const std::string& mode, int generation, const std::string& created = "10:00:00") {
  const auto objects =
      spec::read_objects(config_yaml(mode, ", creationTimestamp: '2024-01-01T" + created +
                                               "Z', generation: " + std::to_string(generation)),
                         "server");
  REQUIRE_MESSAGE(objects.ok(), (objects.ok() ? "" : objects.error().text()));
  Object object = *objects->front();
  object.resource_version = mode + std::to_string(generation) + created;
  return object;
}

// The content that replicas share, and how it fails.
struct Shared {
  std::string text;
  int version = 0;
  int stores = 0;
  std::optional<ErrorCode> load_fault, store_fault;
};

class MemoryRecord final : public TextRecord {
 public:
  explicit MemoryRecord(Shared& shared) : shared_(shared) {}

  std::string name() const override { return "record"; }
  Result<Text> load() override {
    if (shared_.load_fault) return Error{*shared_.load_fault, "record: cannot be read"};
    return Text{shared_.text, std::to_string(shared_.version)};
  }
  Status store(const Text& next) override {
    if (shared_.store_fault) return Error{*shared_.store_fault, "record: cannot be written"};
    if (next.version != std::to_string(shared_.version))
      return Error{ErrorCode::kConflict, "record: is not what was read any more"};
    shared_.text = next.text;
    ++shared_.version;
    ++shared_.stores;
    return {};
  }

 private:
  Shared& shared_;
};

// One run of one replica.
struct Replica {
  explicit Replica(Shared& shared, bool may_write = true)
      : record(shared), runtime{executor, executor, clock, rng, log, metrics}, writes(may_write) {}

  Replica& start() {
    spec = spec::make_mesh_spec({.store = store,
                                 .cluster_domain = cluster_domain,
                                 .log = log,
                                 .metrics = metrics,
                                 .kept_config = spec::KeptConfigOptions{record, runtime, writes}});
    subscription =
        spec->subscribe([this](const SpecChange& change) { told.push_back(change.keys); });
    executor.run_until_idle();
    return *this;
  }
  void put(const std::string& yaml) {
    const auto status = store.put_yaml(yaml, "mesh/a.yaml");
    REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().text()));
    executor.run_until_idle();
  }
  void put(const Object& object) {
    store.put(object);
    executor.run_until_idle();
  }
  void remove() {
    store.remove(kConfig);
    executor.run_until_idle();
  }
  bool permissive() const { return spec->get_mesh_config().proxy.permissive; }
  std::vector<std::string> problems() const {
    std::vector<std::string> out;
    for (const auto& problem : spec->list_problems()) out.push_back(problem.text());
    return out;
  }
  bool has_problem(const std::string& part) const {
    for (const std::string& problem : problems())
      if (problem.find(part) != std::string::npos) return true;
    return false;
  }

  testing::ManualClock clock;
  testing::ManualExecutor executor{clock};
  RandomRng rng;
  testing::CapturingLog log;
  testing::CapturingMetrics metrics;
  testing::MemoryObjectStore store;
  MemoryRecord record;
  Runtime runtime;
  bool writes;
  std::string cluster_domain = "cluster.local";
  std::unique_ptr<MeshSpec> spec;
  Subscription subscription;
  std::vector<std::vector<ObjectKey>> told;
};

struct Fixture {
  Shared shared;
  Replica one{shared}, other{shared};
};

}  // namespace

TEST_SUITE("spec::KeptConfig") {
  TEST_CASE_FIXTURE(Fixture, "a MeshConfig that is gone stays in force after a restart") {
    one.put(config_yaml("true"));
    one.start();
    one.remove();
    CHECK(one.permissive());
    other.start();
    CHECK(other.permissive());
    CHECK(other.spec->has_synced());
    CHECK(other.problems() ==
          std::vector<std::string>{
              "MeshConfig osm-system/osm-mesh-config: does not exist; the one that was applied at "
              "2024-01-01T00:00:00Z stays in force, and record has it; create it again, or create "
              "one with an empty spec for the defaults [not-found]"});
    other.put(config_yaml("false"));
    CHECK_FALSE(other.permissive());
    CHECK(other.problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "the recorded one has the domain of the cluster that reads it") {
    one.start().put(
        "apiVersion: config.openservicemesh.io/v1alpha2\nkind: MeshConfig\n"
        "metadata: {name: osm-mesh-config, namespace: osm-system}\n"
        "spec: {observability: {tracing: {enable: true}}}\n");
    other.cluster_domain = "example.internal";
    const ProxySettings settings = other.start().spec->get_mesh_config().proxy;
    CHECK(settings.tracing.enabled);
    CHECK(settings.cluster_domain == "example.internal");
    CHECK(settings.tracing.address == "jaeger.osm-system.svc.example.internal");
  }

  TEST_CASE_FIXTURE(Fixture, "the recorded text is the object, to be created again") {
    one.start();
    one.put(config_yaml("true"));
    other.put(shared.text);
    other.start();
    CHECK(other.permissive());
    CHECK(other.problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "the record is written on a change, and at no other time") {
    one.put(served("true", 1));
    one.start();
    CHECK(shared.stores == 1);
    Object labelled = served("true", 1);
    labelled.labels["a"] = "b";
    one.put(labelled);
    other.put(served("true", 1));
    other.start();
    one.remove();
    one.executor.run_for(1h);
    CHECK(shared.stores == 1);
    one.put(served("false", 1, "11:00:00"));
    CHECK(shared.stores == 2);
    CHECK(one.executor.timers() == 0);
  }

  TEST_CASE_FIXTURE(Fixture, "a mesh that never had a MeshConfig has the defaults") {
    one.start();
    CHECK(one.spec->has_synced());
    CHECK(one.spec->get_mesh_config() == MeshConfig{});
    CHECK(one.problems().empty());
    one.executor.run_for(1h);
    CHECK(shared.stores == 0);
  }

  TEST_CASE_FIXTURE(Fixture, "nothing is published before the record of a gone one is read") {
    one.put(config_yaml("true"));
    one.start();
    shared.load_fault = ErrorCode::kUnavailable;
    other.start();
    CHECK_FALSE(other.spec->has_synced());
    CHECK(other.problems() ==
          std::vector<std::string>{
              "copy of the MeshConfig for restarts: record: cannot be read [unavailable]"});
    other.told.clear();
    shared.load_fault.reset();
    other.executor.run_for(4s);
    CHECK(other.spec->has_synced());
    CHECK(other.permissive());
    CHECK(other.told == std::vector<std::vector<ObjectKey>>{{kConfig}});
  }

  TEST_CASE_FIXTURE(Fixture, "a valid MeshConfig needs no record") {
    shared.load_fault = ErrorCode::kPermissionDenied;
    one.put(config_yaml("true"));
    one.start();
    CHECK(one.spec->has_synced());
    CHECK(one.permissive());
    CHECK(one.has_problem("record: cannot be read"));
    one.remove();
    CHECK(one.permissive());
    shared.load_fault.reset();
    one.executor.run_for(4s);
    CHECK(shared.stores == 1);  // what this process had read before
    CHECK_FALSE(one.has_problem("record: cannot be read"));
  }

  TEST_CASE_FIXTURE(Fixture, "an invalid record is refused, and the next MeshConfig replaces it") {
    for (const char* text : {"no yaml: {", "a: b"}) {
      CAPTURE(text);
      shared.text = text;
      Replica late(shared);
      late.start();
      CHECK_FALSE(late.spec->has_synced());
      CHECK(late.has_problem("copy of the MeshConfig for restarts: record"));
    }
    for (const std::string& text : std::vector<std::string>{
             config_yaml("maybe"),
             config_yaml("true") + "---\n" + config_yaml("true", ", labels: {}"),
             "apiVersion: config.openservicemesh.io/v1alpha2\nkind: MeshConfig\n"
             "metadata: {name: another, namespace: osm-system}\n"}) {
      CAPTURE(text);
      shared.text = text;
      Replica late(shared);
      late.start();
      CHECK_FALSE(late.spec->has_synced());
      CHECK_FALSE(late.permissive());
      CHECK(late.has_problem("it is refused, and the next MeshConfig replaces it"));
      late.put(config_yaml("true"));
      CHECK(late.spec->has_synced());
      CHECK(late.problems().empty());
      CHECK(shared.text.find("\"enablePermissiveTrafficPolicyMode\":true") != std::string::npos);
    }
  }

  TEST_CASE_FIXTURE(Fixture, "a running mesh replaces a record that was damaged or removed") {
    one.put(config_yaml("true"));
    one.start();
    const std::string recorded = shared.text;
    for (const std::string& text : std::vector<std::string>{"", config_yaml("maybe")}) {
      shared.text = text;
      ++shared.version;
      one.remove();
      one.executor.run_for(1min);
      CHECK(one.permissive());
      CHECK(shared.text == recorded);
    }
  }

  TEST_CASE_FIXTURE(Fixture, "a MeshConfig that is invalid at the start leaves the last one") {
    one.put(config_yaml("true"));
    one.start();
    other.put(config_yaml("maybe"));
    other.start();
    CHECK(other.spec->has_synced());
    CHECK(other.permissive());
    CHECK(other.has_problem("spec.traffic.enablePermissiveTrafficPolicyMode"));
    CHECK_FALSE(other.has_problem("does not exist"));
  }

  TEST_CASE_FIXTURE(Fixture, "a replica that missed the last change follows the record") {
    one.put(served("false", 1));
    one.start();
    other.put(served("false", 1));
    other.start();
    one.put(served("true", 2));
    other.remove();
    CHECK(other.permissive());
    CHECK(other.has_problem("(generation 2) stays in force"));
    CHECK(shared.stores == 2);
  }

  TEST_CASE_FIXTURE(Fixture, "a replica follows the record while the MeshConfig is gone") {
    one.put(served("false", 1));
    one.start();
    other.put(served("false", 1));
    other.start();
    other.remove();
    one.put(served("true", 1, "11:00:00"));  // created again; `other` has not seen it
    CHECK_FALSE(other.permissive());
    other.executor.run_for(40s);
    CHECK(other.permissive());
  }

  TEST_CASE_FIXTURE(Fixture, "an older MeshConfig does not replace a newer one in the record") {
    one.put(served("true", 2));
    one.start();
    other.put(served("false", 1));  // its watch lags
    other.start();
    CHECK_FALSE(other.permissive());
    CHECK(shared.stores == 1);
    other.remove();
    CHECK(other.permissive());
    CHECK(shared.stores == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "the newest MeshConfig is recorded, also when it was deleted before") {
    one.put(config_yaml("false"));
    one.start();
    shared.store_fault = ErrorCode::kStorage;  // a full disk
    one.put(config_yaml("true"));
    CHECK(one.has_problem("record: cannot be written"));
    one.remove();
    one.executor.run_for(1min);
    CHECK(one.permissive());
    shared.store_fault.reset();
    one.executor.run_for(4s);
    CHECK_FALSE(one.has_problem("record: cannot be written"));
    CHECK(other.start().permissive());
  }

  TEST_CASE_FIXTURE(Fixture, "of two writers the second reads what the first wrote") {
    one.put(served("false", 1));
    one.start();
    shared.store_fault = ErrorCode::kConflict;
    one.put(served("true", 2));
    shared.store_fault.reset();
    other.put(served("true", 3));
    other.start();
    one.executor.run_for(4s);
    CHECK(shared.stores == 2);
    CHECK(shared.text.find("\"generation\":3") != std::string::npos);
    CHECK(one.problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "text that looks like an API server's age does not age a file") {
    one.put(config_yaml("true", ", creationTimestamp: '2030-01-01T00:00:00Z', generation: 7"));
    one.start();
    one.put(config_yaml("false"));
    one.remove();
    CHECK_FALSE(one.permissive());
    CHECK_FALSE(other.start().permissive());
  }

  TEST_CASE("a program that only reads never writes the record") {
    Shared shared;
    Replica reader(shared, false);
    reader.put(served("true", 1));
    reader.start();
    reader.executor.run_for(1min);
    CHECK(shared.stores == 0);
    Replica writer(shared);
    writer.put(served("true", 1));
    writer.start();
    reader.executor.run_for(4s);
    CHECK(reader.executor.timers() == 0);
    reader.remove();
    CHECK(reader.permissive());
    Replica late(shared, false);
    CHECK(late.start().permissive());
  }
}
