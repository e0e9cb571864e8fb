// The oldest kubelet's version follows the Nodes, and is not known where they cannot be read.
#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "kubernetes/client/resources.hpp"
#include "kubernetes/client/watch_server.hpp"
#include "lib/run.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

using namespace osm;

namespace {

namespace k = kubernetes;

class NodeCluster final : public k::Cluster {
 public:
  explicit NodeCluster(Executor& executor) : server_api(executor) {}
  std::string server() const override { return "https://cluster"; }
  k::Api& api() override { return server_api; }

  kubernetes_test::WatchServer server_api;
};

struct Fixture {
  testing::ManualClock clock;
  testing::ManualExecutor executor{clock};
  RandomRng rng{testing::seed()};
  testing::CapturingLog log;
  testing::CapturingMetrics metrics;
  NodeCluster cluster{executor};
  std::unique_ptr<k::KubeletVersions> versions;

  void start() {
    versions = k::follow_kubelet_versions(cluster, {executor, executor, clock, rng, log, metrics});
    executor.run_until_idle();
  }
  void put(const std::string& node, const std::string& version) {
    cluster.server_api.put(k::kNodes, "", node,
                           {{"status", {{"nodeInfo", {{"kubeletVersion", version}}}}}});
    executor.run_until_idle();
  }
};

TEST_SUITE("kubernetes::follow_kubelet_versions") {
  TEST_CASE("tells the oldest kubelet's version as nodes come, change and go") {
    Fixture f;
    f.put("a", "v1.31.1");
    f.put("b", "v1.30.4-gke.7");
    f.start();
    CHECK(f.versions->has_synced());
    CHECK(f.versions->oldest() == 30);
    f.put("c", "v1.28.9");
    CHECK(f.versions->oldest() == 28);
    f.put("c", "v1.31.0");
    CHECK(f.versions->oldest() == 30);
    f.cluster.server_api.remove(k::kNodes, "", "b");
    f.executor.run_until_idle();
    CHECK(f.versions->oldest() == 31);
  }

  TEST_CASE("is not known without a node, or with one whose version is none") {
    Fixture f;
    f.start();
    CHECK(f.versions->has_synced());
    CHECK(f.versions->oldest() == std::nullopt);
    f.put("a", "v1.31.1");
    CHECK(f.versions->oldest() == 31);
    f.put("b", "");
    CHECK(f.versions->oldest() == std::nullopt);
    f.cluster.server_api.remove(k::kNodes, "", "b");
    f.executor.run_until_idle();
    CHECK(f.versions->oldest() == 31);
  }

  TEST_CASE("is a problem and not known where the nodes cannot be read, until they can") {
    Fixture f;
    f.put("a", "v1.31.1");
    f.cluster.server_api.set_list_fault(Error{ErrorCode::kPermissionDenied, "nodes is forbidden"});
    f.start();
    f.executor.run_for(std::chrono::seconds(15));
    REQUIRE(f.versions->problem().has_value());
    CHECK(f.versions->problem()->cause.find("nodes is forbidden") != std::string::npos);
    CHECK(f.versions->has_synced());
    CHECK(f.versions->oldest() == std::nullopt);
    f.cluster.server_api.set_list_fault({});
    f.executor.run_for(std::chrono::seconds(15));
    CHECK_FALSE(f.versions->problem().has_value());
    CHECK(f.versions->oldest() == 31);
  }

  TEST_CASE("stays known while the server is away") {
    Fixture f;
    f.put("a", "v1.31.1");
    f.start();
    f.cluster.server_api.set_list_fault(Error{ErrorCode::kUnavailable, "away"});
    f.cluster.server_api.set_watch_fault(Error{ErrorCode::kUnavailable, "away"});
    f.cluster.server_api.end_watches(Error{ErrorCode::kUnavailable, "away"});
    f.executor.run_for(std::chrono::seconds(60));
    CHECK(f.versions->oldest() == 31);
  }
}

}  // namespace
