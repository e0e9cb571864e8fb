// A proxy that no search helps is searched for again after a pause, which doubles up to an hour.
#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "ads/trial.hpp"
#include "catalog/mesh_builder.hpp"
#include "catalog/mesh_values.hpp"
#include "nack_provenance/nack_provenance.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"
#include "osm/testing/memory_endpoints_provider.hpp"
#include "osm/testing/memory_mesh_spec.hpp"

namespace {

namespace values = osm::catalog::values;
using namespace std::chrono_literals;

// A proxy with one answer to its own mesh and one to all others. Each search begins with a question
// about its own.
class StubbornProxy final : public osm::ads::TrialHost {
 public:
  using Outcome = osm::ads::TrialResult::Outcome;

  explicit StubbornProxy(const osm::Clock& clock) : clock_(clock) {}

  Outcome own = Outcome::kRefused;
  Outcome other = Outcome::kRefused;
  std::vector<osm::SteadyTime> searches;
  int trials = 0;

  void refuse() { on_refusal_({{values::kNs, id_}, {values::kNs, "odd"}, {}, "no"}); }

  osm::Subscription subscribe_refusals(
      std::function<void(const osm::ads::Refusal&)> on_refusal) override {
    on_refusal_ = std::move(on_refusal);
    return {};
  }
  void try_on(const osm::model::ProxyKey&, osm::ads::ProxyMesh mesh,
              std::function<void(const osm::ads::TrialResult&)> done) override {
    if (mesh.mesh)
      ++trials;
    else
      searches.push_back(clock_.steady_now());
    done({.outcome = mesh.mesh ? other : own, .type = {}, .detail = "no"});
  }
  void end_trial(const osm::model::ProxyKey&, bool) override {}
  void compare(const osm::model::ProxyKey&, std::vector<osm::ads::ProxyMesh>,
               std::function<void(std::vector<osm::ads::ResourceNames>)> done) override {
    done({});
  }
  void update_mesh(osm::ads::MeshUpdate) override {}
  void drop_mesh(osm::ads::MeshNumber) override {}
  void assign_mesh(const osm::model::ProxyKey&, osm::ads::MeshNumber) override {}
  void list_connected(std::function<void(std::set<osm::model::ProxyKey>)> done) override {
    done({});
  }

 private:
  const osm::ProxyId id_{"00000000-0000-4000-8000-000000000001"};
  const osm::Clock& clock_;
  std::function<void(const osm::ads::Refusal&)> on_refusal_;
};

struct StubbornMesh {
  StubbornMesh() {
    spec.put_namespace(values::kNs);
    spec.put(values::service("store", "10.1.0.1"));
    spec.put(values::routes("web", {"buy"}));
    snapshots.publish(builder.build());
    executor.run_until_idle();
  }
  // Times between the searches.
  std::vector<std::chrono::nanoseconds> pauses() const {
    std::vector<std::chrono::nanoseconds> out;
    for (std::size_t i = 1; i < proxy.searches.size(); ++i)
      out.push_back(proxy.searches[i] - proxy.searches[i - 1]);
    return out;
  }

  osm::testing::ManualClock clock;
  osm::testing::ManualExecutor executor{clock};
  osm::RandomRng rng{1};
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  osm::testing::MemoryMeshSpec spec;
  osm::testing::MemoryEndpointsProvider provider{"memory"};
  osm::catalog::MeshBuilder builder{
      spec, {{&provider}}, {&provider}, osm::TrustDomain("cluster.local")};
  osm::SnapshotCell<osm::model::MeshSnapshot> snapshots;
  StubbornProxy proxy{clock};
  osm::nack_provenance::Verdicts verdicts{"osm-system",
                                          [](const osm::ObjectKey&) { return std::size_t{1}; }};
  osm::nack_provenance::NackProvenance provenance{
      {.runtime = {executor, executor, clock, rng, log, metrics},
       .verdicts = verdicts,
       .snapshots = snapshots,
       .proxies = proxy,
       .inputs = {{{&provider}}, {&provider}, [] {
                    return osm::TrustDomains(osm::TrustDomain("cluster.local"));
                  }}}};
};

}  // namespace

TEST_SUITE("nack_provenance::NackProvenance: pauses") {
  TEST_CASE("searches without a result are repeated after 1 minute, then 2, up to an hour") {
    StubbornMesh mesh;
    StubbornProxy& proxy = mesh.proxy;
    bool trials = true;
    SUBCASE("it refuses every mesh") {}
    SUBCASE("it hangs up during each trial") { proxy.other = StubbornProxy::Outcome::kGone; }
    SUBCASE("it does not answer") {
      proxy.own = StubbornProxy::Outcome::kTimedOut;
      trials = false;
    }
    const auto answer = proxy.own;
    proxy.refuse();
    mesh.executor.run_until_idle();
    REQUIRE(proxy.searches.size() == 1);
    CHECK((proxy.trials > 0) == trials);
    const std::vector<std::chrono::nanoseconds> expected{60s,  120s,  240s,  480s,
                                                         960s, 1920s, 3600s, 3600s};
    mesh.executor.run_for(10'980s - 1ns);
    CHECK(proxy.searches.size() == expected.size());
    proxy.refuse();  // its refusals meanwhile do not shorten the pause
    mesh.executor.run_until_idle();
    CHECK(proxy.searches.size() == expected.size());
    mesh.executor.run_for(1ns);
    CHECK(mesh.pauses() == expected);

    // The pause of a proxy that has accepted its configuration begins anew.
    proxy.own = StubbornProxy::Outcome::kAccepted;
    mesh.executor.run_for(3h);
    CHECK(proxy.searches.size() == expected.size() + 2);
    proxy.searches.clear();
    proxy.own = answer;
    proxy.refuse();
    mesh.executor.run_for(180s);
    CHECK(mesh.pauses() == std::vector<std::chrono::nanoseconds>{60s, 120s});
    CHECK(mesh.verdicts.list().empty());
  }
}
