// The webhook refuses invalid objects with all their faults and allows deletions.
#include <doctest/doctest.h>

#include <ctime>
#include <string>
#include <vector>

#include "inject/reviews.hpp"

using namespace osm;
using namespace osm::inject;

namespace {

using Fixture = ValidatorFixture;

constexpr const char* kGoodTarget =
    R"({"destination": {"kind": "ServiceAccount", "name": "api", "namespace": "shop"},
        "sources": [{"kind": "ServiceAccount", "name": "web", "namespace": "front"}],
        "rules": [{"kind": "HTTPRouteGroup", "name": "api", "matches": ["read"]}]})";
constexpr const char* kForeignTarget =
    R"({"destination": {"kind": "ServiceAccount", "name": "api", "namespace": "other"},
        "sources": [{"kind": "Group", "name": "web", "namespace": "front"}],
        "rules": [{"kind": "HTTPRouteGroup", "name": "api", "matchs": ["read"]}]})";
constexpr const char* kGoodSplit =
    R"({"service": "api", "backends": [{"service": "v1", "weight": 1}]})";

}  // namespace

TEST_SUITE("inject::Validator") {
  TEST_CASE_FIXTURE(Fixture, "valid objects are allowed") {
    for (const Written& written : {
             Written{kTargetApi, "TrafficTarget", kGoodTarget},
             Written{kSplitApi, "TrafficSplit", kGoodSplit},
             Written{kSpecsApi, "TCPRoute", R"({"matches": {"ports": [80]}})"},
             Written{kSpecsApi, "HTTPRouteGroup", R"({"matches": [{"name": "m"}]})"},
             Written{kConfigApi, "MeshConfig", "{}", "osm-mesh-config", "osm-system"},
         }) {
      CAPTURE(written.kind);
      const Verdict verdict = create(written);
      CHECK_MESSAGE(verdict.allowed, verdict.message);
      CHECK(verdict.warnings.empty());
    }
    CHECK(metrics.value("osm_admission_webhook_response_total",
                        {{"kind", "MeshConfig"}, {"success", "true"}}) == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "everything that is wrong is said at once, each with its field") {
    const Verdict verdict = create({kTargetApi, "TrafficTarget", kForeignTarget});
    CHECK_FALSE(verdict.allowed);
    CHECK(verdict.fields == std::vector<std::string>{"spec.destination.namespace",
                                                     "spec.sources[0].kind",
                                                     "spec.rules[0].matchs"});
    CHECK(verdict.message.find("TrafficTarget shop/it is refused: spec.destination.namespace: ") ==
          0);
    CHECK(verdict.message.find("[cross-namespace]; spec.sources[0].kind: ") != std::string::npos);
    CHECK(verdict.message.find("no such field") != std::string::npos);
    CHECK(metrics.value("osm_admission_webhook_response_total",
                        {{"kind", "TrafficTarget"}, {"success", "false"}}) == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "a bad regex, weights of zero and a bad MeshConfig are refused") {
    struct Row {
      Written written;
      const char* field;
    };
    for (const Row& row : {
             Row{{kSpecsApi, "HTTPRouteGroup",
                  R"json({"matches": [{"name": "m", "pathRegex": "(?=x)"}]})json"},
                 "spec.matches[0].pathRegex"},
             Row{{kSplitApi, "TrafficSplit",
                  R"({"service": "api", "backends": [{"service": "v1", "weight": 0}]})"},
                 "spec.backends"},
             Row{{kSplitApi, "TrafficSplit",
                  R"({"service": "api", "backends": [{"service": "v1", "weight": 1},
                                                     {"service": "v2.other", "weight": 1}]})"},
                 "spec.backends[1].service"},
             Row{{kSpecsApi, "TCPRoute", R"({"matches": {"ports": [80, 0]}})"},
                 "spec.matches.ports[1]"},
             Row{{kConfigApi, "MeshConfig", R"({"certificate": {"keyAlgorithm": "DSA"}})",
                  "osm-mesh-config", "osm-system"},
                 "spec.certificate.keyAlgorithm"},
             Row{{kWorkloadApi, "VirtualMachine", R"({"address": "web", "serviceAccount": "web"})"},
                 "spec.address"},
             Row{{kWorkloadApi, "AzureResource", R"({"serviceAccount": "web"})"},
                 "spec.resourceID"},
             Row{{kWorkloadApi, "DNSResource", R"({"name": "10.0.0.7", "serviceAccount": "web"})"},
                 "spec.name"},
             Row{{"access.smi-spec.io/v1alpha1", "TrafficTarget", kGoodTarget}, "apiVersion"},
             Row{{kTargetApi, "TrafficTarget", kGoodTarget, "Upper"}, "metadata.name"},
         }) {
      CAPTURE(row.field);
      const Verdict verdict = create(row.written);
      CHECK_FALSE(verdict.allowed);
      CHECK(verdict.fields == std::vector<std::string>{row.field});
    }
  }

  TEST_CASE_FIXTURE(Fixture, "a second TrafficSplit of one Service is refused, the first is not") {
    spec.put(smi::TrafficSplit{{"shop", "first"}, {"shop", "api"}, {{"v1", 1}}});
    const Verdict second = create({kSplitApi, "TrafficSplit", kGoodSplit, "second"});
    CHECK_FALSE(second.allowed);
    CHECK(second.fields == std::vector<std::string>{"spec.service"});
    CHECK(second.message.find("TrafficSplit shop/first already splits") != std::string::npos);
    CHECK(create({kSplitApi, "TrafficSplit", kGoodSplit, "first"}).allowed);
    CHECK(create({kSplitApi, "TrafficSplit", kGoodSplit, "second", "elsewhere"}).allowed);
  }

  TEST_CASE_FIXTURE(Fixture, "fields without effect are warned of and allowed") {
    const Verdict unused = create({kConfigApi, "MeshConfig", R"({"traffic": {"useHTTPS": true}})",
                                   "osm-mesh-config", "osm-system"});
    CHECK(unused.allowed);
    REQUIRE(unused.warnings.size() == 1);
    CHECK(unused.warnings[0].find("spec.traffic.useHTTPS: ") == 0);
    const Verdict idle = create({kConfigApi, "MeshConfig", "{}", "mine", "osm-system"});
    CHECK(idle.allowed);
    REQUIRE(idle.warnings.size() == 1);
    CHECK(idle.warnings[0].find("the mesh reads MeshConfig osm-system/osm-mesh-config") !=
          std::string::npos);
  }

  TEST_CASE_FIXTURE(Fixture, "a Denylist is refused where it would have no effect") {
    constexpr const char* kList = R"({"serviceAccounts": [{"namespace": "shop", "name": "web"}]})";
    const Written effective{kWorkloadApi, "Denylist", kList, "stolen", "osm-system"};
    CHECK(create(effective).allowed);
    const Written elsewhere{kWorkloadApi, "Denylist", kList, "stolen", "shop"};
    const Verdict verdict = create(elsewhere);
    CHECK_FALSE(verdict.allowed);
    CHECK(verdict.fields == std::vector<std::string>{"metadata.namespace"});
    CHECK(verdict.message.find("create it in namespace osm-system") != std::string::npos);
    CHECK(remove(elsewhere).allowed);
    const Written bad{kWorkloadApi, "Denylist", R"({"proxyUUIDs": ["x"]})", "bad", "osm-system"};
    CHECK(create(bad).fields == std::vector<std::string>{"spec.proxyUUIDs[0]"});
  }

  TEST_CASE_FIXTURE(Fixture, "an update of what is invalid is refused, unless it leaves the spec") {
    const Written bad{kTargetApi, "TrafficTarget", kForeignTarget};
    const Written good{kTargetApi, "TrafficTarget", kGoodTarget};
    CHECK_FALSE(update(good, bad).allowed);
    CHECK(update(bad, good).allowed);
    const Verdict labelled = update(bad, bad);  // its labels or finalizers, say
    CHECK(labelled.allowed);
    CHECK(labelled.warnings.size() == 4);  // the refusals, and that a rule allows nothing
  }

  TEST_CASE_FIXTURE(Fixture, "a bad element is refused too, and kept where it is stored") {
    const Written bad{kSpecsApi, "HTTPRouteGroup",
                      R"json({"matches": [{"name": "a"}, {"name": "m", "pathRegex": "("}]})json"};
    const std::string consequence = "; only this match is left out of a stored object [";
    const Verdict created = create(bad);
    CHECK_FALSE(created.allowed);
    CHECK(created.fields == std::vector<std::string>{"spec.matches[1].pathRegex"});
    CHECK(created.message.find(consequence) != std::string::npos);
    const Verdict labelled = update(bad, bad);
    CHECK(labelled.allowed);
    REQUIRE(labelled.warnings.size() == 1);
    CHECK(labelled.warnings[0].find(consequence) != std::string::npos);
  }

  TEST_CASE_FIXTURE(Fixture, "a deletion is allowed, whatever the object") {
    const Written bad{kTargetApi, "TrafficTarget", kForeignTarget};
    CHECK(remove(bad).allowed);
    CHECK(remove({kConfigApi, "MeshConfig", "{}", "another", "osm-system"}).allowed);
    CHECK(remove({kConfigApi, "MeshConfig", "{}", "osm-mesh-config", "shop"}).allowed);
  }

  TEST_CASE_FIXTURE(Fixture, "the mesh's MeshConfig is deleted with an annotation only") {
    const Written config{kConfigApi, "MeshConfig", "{}", "osm-mesh-config", "osm-system"};
    const auto remove_with = [&](json::object annotations) {
      json::object before = config.object();
      before["metadata"].as_object()["annotations"] = std::move(annotations);
      return verdict_of(validator->review(review_of(config, "DELETE", before)));
    };
    const Verdict refused = remove(config);
    CHECK_FALSE(refused.allowed);
    CHECK(refused.fields == std::vector<std::string>{"metadata.annotations"});
    CHECK(refused.message.find("apply it with an empty spec") != std::string::npos);
    CHECK(refused.message.find("openservicemesh.io/allow-deletion=true") != std::string::npos);
    CHECK_FALSE(remove_with({{"openservicemesh.io/allow-deletion", "no"}}).allowed);
    CHECK_FALSE(remove_with({{"openservicemesh.io/allow-deletion", true}}).allowed);
    CHECK(remove_with({{"openservicemesh.io/allow-deletion", "true"}}).allowed);
  }

  TEST_CASE_FIXTURE(Fixture, "kinds and operations that are not for this webhook are refused") {
    const Verdict verdict = create({"apps/v1", "Deployment", "{}"});
    CHECK_FALSE(verdict.allowed);
    CHECK(verdict.message.find("this webhook validates AzureResource, DNSResource, Denylist, ") !=
          std::string::npos);
    CHECK(metrics.value("osm_admission_webhook_response_total",
                        {{"kind", "other"}, {"success", "false"}}) == 1);
    CHECK_FALSE(verdict_of(validator->review(
                               review_of({kTargetApi, "TrafficTarget", kGoodTarget}, "CONNECT")))
                    .allowed);
  }

  TEST_CASE_FIXTURE(Fixture, "a generated name is checked by its prefix") {
    Written written{kTargetApi, "TrafficTarget", kGoodTarget, ""};
    const auto with_prefix = [&](const char* prefix) {
      json::value review = json::parse(review_of(written, "CREATE"));
      json::object& metadata = review.at("request").at("object").at("metadata").as_object();
      metadata.erase("name");
      metadata["generateName"] = prefix;
      return verdict_of(validator->review(json::serialize(review)));
    };
    CHECK(with_prefix("web-").allowed);
    CHECK(with_prefix("Web-").fields == std::vector<std::string>{"metadata.name"});
  }

  TEST_CASE_FIXTURE(Fixture, "expressions made to be costly are answered in bounded time") {
    // Each is refused only after RE2 has worked on it.
    json::array matches;
    const std::string costly = "((x{1,100}){1,100}){1,100}";
    for (int i = 0; i < 1024; ++i) {
      json::object headers;
      for (int h = 0; h < 20; ++h) headers["h" + std::to_string(h)] = costly;
      matches.push_back({{"name", std::to_string(i)}, {"headers", std::move(headers)}});
    }
    const json::value group = json::object{{"matches", std::move(matches)}};
    const std::clock_t begin = std::clock();
    const Verdict verdict = create({kSpecsApi, "HTTPRouteGroup", json::serialize(group)});
    CHECK_FALSE(verdict.allowed);
    CHECK(verdict.fields.size() <= 101);
    // A webhook has ten seconds; the program may be instrumented. On a busy machine only the time
    // on a core says how costly it was.
    CHECK(std::clock() - begin < 5 * CLOCKS_PER_SEC);
  }
}
