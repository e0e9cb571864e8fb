// Common to the tests of everything that writes to a cluster.
#pragma once

#include <string>
#include <vector>

#include "kubernetes/client/memory_api.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/upkeep/labels.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"
#include "osm/testing/memory_object_store.hpp"

namespace osm::kubernetes_test {

// The middle of every delay, always.
class SteadyRng final : public Rng {
 public:
  std::uint64_t next() override { return 0; }
};

class MemoryCluster final : public kubernetes::Cluster {
 public:
  explicit MemoryCluster(kubernetes::Api& api) : api_(api) {}
  std::string server() const override { return "https://memory"; }
  kubernetes::Api& api() override { return api_; }

 private:
  kubernetes::Api& api_;
};

struct UpkeepFixture {
  testing::ManualClock clock;
  testing::ManualExecutor executor{clock};
  SteadyRng rng;
  testing::CapturingLog log;
  testing::CapturingMetrics metrics;
  MemoryApi api{clock};
  MemoryCluster cluster{api};
  testing::MemoryObjectStore store;
  const Runtime runtime{executor, executor, clock, rng, log, metrics};

  // Puts an object into the server, as a user does.
  json::object put(const Resource& resource, json::object object) {
    object["apiVersion"] = resource.api_version();
    object["kind"] = resource.kind;
    const auto created = api.create(resource, object);
    if (!created.ok()) throw std::runtime_error(created.error().text());
    api.forget_writes();
    return *created;
  }
};

}  // namespace osm::kubernetes_test
