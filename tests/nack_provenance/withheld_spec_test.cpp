// A withheld object is left out alone, listed as a problem, and returns when it changes.
#include "nack_provenance/withheld_spec.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "catalog/mesh_values.hpp"
#include "nack_provenance/trial_mesh.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"
#include "osm/testing/memory_endpoints_provider.hpp"
#include "osm/testing/memory_mesh_spec.hpp"

using namespace osm;
using namespace osm::nack_provenance;
using namespace osm::catalog::values;
using osm::testing::MemoryMeshSpec;

namespace {

Problem refusal(const GroupKind& kind, const std::string& name) {
  Problem problem;
  problem.code = ErrorCode::kRefusedByProxy;
  problem.object = {kind, kNs, name};
  problem.cause = "refused";
  return problem;
}

struct Written {
  Written() {
    spec.put_namespace(kNs);
    spec.put(service("store", "10.1.0.1"));
    spec.put(service("stock", "10.1.0.2"));
    spec.put(routes("web", {"buy"}));
    spec.put(routes("more", {"sell"}));
    spec.put(target("buyer", "store", {"buyer"}, {http_rule("web", {"buy"})}));
    spec.put(split("canary", "store", {{"stock", 1}}));
    for (const GroupKind& kind :
         {kinds::kEgress, kinds::kIngressBackend, kinds::kRetry, kinds::kUpstreamTrafficSetting})
      for (const char* name : {"one", "two"})
        spec.put(Policy({kind, kNs, name}, {false, {}, {}}, std::string(name)));
    executor.run_until_idle();
  }
  // The objects that a builder would read now.
  static model::SpecObjects objects(const MeshSpec& from) {
    model::SpecObjects out;
    out.config = from.get_mesh_config();
    out.namespaces = from.list_namespaces();
    out.control_plane_namespace = from.control_plane_namespace();
    model::for_each_list([&](auto list, auto read) { out.*list = (from.*read)(); });
    return out;
  }
  void withhold(const GroupKind& kind, const std::string& name, const MeshConfig& good = {}) {
    withheld.withhold(refusal(kind, name), objects(spec), good);
    executor.run_until_idle();
  }

  osm::testing::ManualClock clock;
  osm::testing::ManualExecutor executor{clock};
  MemoryMeshSpec spec;
  WithheldSpec withheld{spec, executor, clock};
};

}  // namespace

TEST_SUITE("nack_provenance::WithheldSpec") {
  TEST_CASE("of every kind only the withheld object is left out") {
    Written w;
    for (const auto& [kind, name] :
         std::vector<std::pair<GroupKind, std::string>>{{kinds::kService, "store"},
                                                        {kinds::kHttpRouteGroup, "web"},
                                                        {kinds::kTrafficTarget, "buyer"},
                                                        {kinds::kTrafficSplit, "canary"},
                                                        {kinds::kEgress, "one"},
                                                        {kinds::kIngressBackend, "one"},
                                                        {kinds::kRetry, "one"},
                                                        {kinds::kUpstreamTrafficSetting, "one"}}) {
      CAPTURE(kind.kind);
      Written one;
      one.withhold(kind, name);
      const std::vector<ObjectKey> missing =
          model::new_in(Written::objects(one.withheld), Written::objects(one.spec));
      CHECK(missing == std::vector<ObjectKey>{{kind, kNs, name}});
    }
    w.withhold(kinds::kService, "store");
    CHECK(w.withheld.get_service(service_name("store")) == nullptr);
    CHECK(w.withheld.get_service(service_name("stock")) != nullptr);
  }

  TEST_CASE("a withheld object is listed as a problem with its place and announced") {
    Written w;
    std::vector<ObjectKey> heard;
    const Subscription subscription = w.withheld.subscribe(
        [&](const auto& changed) { heard.insert(heard.end(), changed.begin(), changed.end()); });
    w.spec.set_source({kinds::kHttpRouteGroup, kNs, "web"}, {"mesh/web.yaml", 7, {}});
    w.withhold(kinds::kHttpRouteGroup, "web");
    REQUIRE(w.withheld.list_problems().size() == 1);
    CHECK(w.withheld.list_problems().front().text() ==
          "mesh/web.yaml:7: HTTPRouteGroup shop/web: refused [refused-by-proxy]");
    CHECK(heard == std::vector<ObjectKey>{{kinds::kHttpRouteGroup, kNs, "web"}});
  }

  TEST_CASE("once it changes it is listed again, also when it changes back") {
    Written w;
    w.withhold(kinds::kHttpRouteGroup, "web");
    w.spec.put(routes("more", {"other"}));  // another object: nothing is lifted
    w.executor.run_until_idle();
    CHECK(w.withheld.list_http_traffic_specs().size() == 1);
    w.spec.put(routes("web", {"mended"}));
    CHECK(w.withheld.list_http_traffic_specs().size() == 2);  // at once
    w.executor.run_until_idle();
    CHECK(w.withheld.list_problems().empty());
    w.spec.put(routes("web", {"buy"}));
    w.executor.run_until_idle();
    CHECK(w.withheld.list_http_traffic_specs().size() == 2);
  }

  TEST_CASE("its lists are read while another thread withholds objects and lists them again") {
    Written w;
    std::atomic<bool> done = false;
    std::size_t most = 0;
    std::thread reader([&] {
      while (!done) {
        most = std::max(most, w.withheld.list_problems().size());
        if (w.withheld.get_mesh_config() != MeshConfig()) most = 100;
      }
    });
    for (int i = 0; i < 500; ++i) {
      w.withhold(kinds::kHttpRouteGroup, "web");
      w.withhold(kinds::kService, "store");
      w.spec.put(routes("web", {std::to_string(i)}));
      w.spec.put(service("store", "10.1.0." + std::to_string(i % 200 + 1)));
      w.executor.run_until_idle();
    }
    done = true;
    reader.join();
    CHECK(most <= 2);
    CHECK(w.withheld.list_problems().empty());
  }

  TEST_CASE("a removed object has no problem any more, whether it or its namespace is removed") {
    Written w;
    w.withhold(kinds::kHttpRouteGroup, "web");
    w.spec.remove({kinds::kHttpRouteGroup, kNs, "web"});
    w.executor.run_until_idle();
    CHECK(w.withheld.list_problems().empty());
  }

  TEST_CASE("a verdict on a removed object withholds nothing") {
    Written w;
    const model::SpecObjects then = Written::objects(w.spec);
    w.spec.put(routes("web", {"mended"}));
    w.withheld.withhold(refusal(kinds::kHttpRouteGroup, "web"), then);
    w.executor.run_until_idle();
    CHECK(w.withheld.list_http_traffic_specs().size() == 2);
    CHECK(w.withheld.list_problems().empty());
  }

  TEST_CASE("a refused MeshConfig leaves the last good one in force") {
    Written w;
    const MeshConfig good = w.spec.get_mesh_config();
    MeshConfig bad = good;
    bad.proxy.egress = true;
    w.spec.set_mesh_config(bad);
    Problem problem = refusal(kinds::kMeshConfig, "osm-mesh-config");
    w.withheld.withhold(problem, Written::objects(w.spec), good);
    w.executor.run_until_idle();
    CHECK(w.withheld.get_mesh_config() == good);
    CHECK(w.withheld.list_problems().size() == 1);
    bad.proxy.permissive = true;
    w.spec.set_mesh_config(bad);
    w.executor.run_until_idle();
    CHECK(w.withheld.get_mesh_config() == bad);
    CHECK(w.withheld.list_problems().empty());
  }
}

TEST_SUITE("nack_provenance::TrialMesh") {
  TEST_CASE("candidates are as they were, everything else is as it is") {
    Written w;
    osm::testing::MemoryEndpointsProvider provider;
    provider.set_endpoints(service_name("store"), {served_at("10.0.0.1", "store")});
    const model::SpecObjects before = Written::objects(w.spec);
    w.spec.put(routes("web", {"changed"}));
    w.spec.put(target("buyer", "store", {"buyer"}, {http_rule("web", {"changed"})}));
    w.spec.put(target("thief", "store", {"thief"}, {http_rule("more", {"sell"})}));
    const model::SpecObjects after = Written::objects(w.spec);
    const std::vector<ObjectKey> candidates = model::new_in(before, after);
    CHECK(candidates == std::vector<ObjectKey>{{kinds::kTrafficTarget, kNs, "buyer"},
                                               {kinds::kTrafficTarget, kNs, "thief"},
                                               {kinds::kHttpRouteGroup, kNs, "web"}});
    TrialMesh trial({before, after, {{&provider}}, {}, TrustDomain("cluster.local")});
    const auto paths = [](const TrialMesh::SnapshotPtr& mesh) {
      std::vector<std::string> out;
      for (const auto& entry : mesh->targets)
        for (const auto& route : entry->policy.http_routes)
          out.push_back(entry->policy.target.name + route.path_regex);
      return out;
    };
    using Paths = std::vector<std::string>;
    CHECK(paths(trial.with_old({candidates.begin(), candidates.end()})) == Paths{"buyer/buy"});
    CHECK(paths(trial.with_old({candidates[1], candidates[2]})) ==
          Paths{});  // names no match of web's
    CHECK(paths(trial.with_old({candidates[2]})) == Paths{"thief/sell"});
    CHECK(paths(trial.with_old({})) == Paths{"buyer/changed", "thief/sell"});
    const auto without = trial.without({kinds::kHttpRouteGroup, kNs, "web"});
    CHECK(paths(without) == Paths{"thief/sell"});
    // Changes that the object alone causes.
    CHECK(without->changes.identities ==
          std::set<ServiceIdentity>{identity("buyer"), identity("store")});
  }
}
