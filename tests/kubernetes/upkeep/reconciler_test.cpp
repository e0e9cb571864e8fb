// CRDs and webhooks that somebody deletes or changes are restored, or reported, as the account
// may; what is as wanted is read from the server's cache only.
#include "kubernetes/upkeep/reconciler.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

#include "kubernetes/upkeep/crds.hpp"
#include "kubernetes/upkeep/upkeep_fixture.hpp"
#include "kubernetes/upkeep/webhooks.hpp"

using namespace osm;
using namespace osm::kubernetes;
using namespace osm::kubernetes_test;
using namespace std::chrono_literals;

namespace {

constexpr const char* kName = "libosm-webhook-osm";

struct Fixture : UpkeepFixture {
  Fixture() {
    reconciler.emplace(api, runtime, "a", "osm-system");
    reconciler->want(kMutatingWebhooks, mutating_webhook(names), Repair::kCreate);
    executor.run_until_idle();
  }
  json::object live() { return api.at(kMutatingWebhooks, "", kName); }
  json::object hook() { return live().at("webhooks").at(0).as_object(); }
  double repairs() const {
    return metrics.value("osm_reconciliation_total", {{"kind", "MutatingWebhookConfiguration"}});
  }
  void edit(const std::function<void(json::object&)>& change) {
    api.edit(kMutatingWebhooks, "", kName, change);
  }
  static json::object& first_hook(json::object& object) {
    return object["webhooks"].as_array()[0].as_object();
  }

  WebhookNames names{"osm", "osm-system", "-----BEGIN CERTIFICATE-----\n"};
  std::optional<Reconciler> reconciler;
};

}  // namespace

TEST_SUITE("kubernetes::Reconciler") {
  TEST_CASE_FIXTURE(Fixture, "a missing object is created without counting as a repair") {
    CHECK(hook().at("name") == "osm-inject.k8s.io");
    CHECK(hook().at("failurePolicy") == "Fail");
    CHECK(hook().at("clientConfig").at("service").at("port") == 9090);
    CHECK_FALSE(hook().contains("matchConditions"));
    CHECK(live().at("metadata").at("labels").at("app.kubernetes.io/instance") == "osm");
    CHECK(repairs() == 0);
    api.forget_writes();
    executor.run_for(1h);
    CHECK(api.writes().empty());  // and then it is left alone
  }

  TEST_CASE_FIXTURE(Fixture, "a start finds objects that are as wanted in the server's cache") {
    reconciler.reset();
    executor.run_until_idle();
    const std::size_t before = api.newest_gets();
    reconciler.emplace(api, runtime, "b", "osm-system");
    reconciler->want(kMutatingWebhooks, mutating_webhook(names), Repair::kCreate);
    executor.run_until_idle();
    CHECK(api.newest_gets() == before);
    CHECK(metrics.value("osm_cluster_object_present",
                        {{"kind", "MutatingWebhookConfiguration"}, {"name", kName}}) == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "nothing is written because the server's cache is old") {
    json::object old = live();
    first_hook(old)["failurePolicy"] = "Ignore";
    reconciler.reset();
    api.set_cached(old);
    api.forget_writes();
    reconciler.emplace(api, runtime, "b", "osm-system");
    reconciler->want(kMutatingWebhooks, mutating_webhook(names), Repair::kCreate);
    executor.run_until_idle();
    CHECK(api.writes().empty());
    CHECK(reconciler->problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a change that the server's cache does not know is restored") {
    const json::object before = hook();
    api.set_cached(live());
    edit([](json::object& object) { first_hook(object)["failurePolicy"] = "Ignore"; });
    executor.run_until_idle();
    CHECK(hook() == before);
    REQUIRE(api.remove(kMutatingWebhooks, "", kName, {}).ok());
    executor.run_for(1h);
    CHECK(live().contains("webhooks"));
  }

  TEST_CASE_FIXTURE(Fixture, "a deleted object is created again at once") {
    REQUIRE(api.remove(kMutatingWebhooks, "", kName, {}).ok());
    executor.run_until_idle();
    CHECK(live().contains("webhooks"));
    CHECK(repairs() == 1);
    CHECK(log.lines_with("was deleted and is put back").size() == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "a changed object is restored at once") {
    const json::object before = hook();
    edit([](json::object& object) {
      first_hook(object)["failurePolicy"] = "Ignore";
      first_hook(object)["clientConfig"].as_object()["caBundle"] = "bWluZQ==";
    });
    executor.run_until_idle();
    CHECK(hook() == before);
    CHECK(repairs() == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "an added field that disables a webhook is removed") {
    const json::object before = hook();
    edit([](json::object& object) {
      first_hook(object)["objectSelector"] = {{"matchLabels", {{"no", "pod"}}}};
    });
    executor.run_for(2s);
    CHECK(hook() == before);
    edit([](json::object& object) {
      first_hook(object)["matchConditions"] =
          json::array{json::object{{"name", "never"}, {"expression", "false"}}};
    });
    executor.run_for(5s);
    CHECK(hook() == before);
    edit([](json::object& object) {
      object["webhooks"].as_array().push_back(json::object{{"name", "theirs"}});
    });
    executor.run_for(10s);
    CHECK(live().at("webhooks").as_array().size() == 2);
    CHECK(repairs() == 3);
  }

  TEST_CASE_FIXTURE(Fixture, "fields that others add elsewhere stay") {
    edit([](json::object& object) {
      object["metadata"].as_object()["annotations"] = json::object{{"note", "theirs"}};
    });
    executor.run_for(1min);
    CHECK(live().at("metadata").at("annotations").at("note") == "theirs");
    CHECK(repairs() == 0);
  }

  TEST_CASE_FIXTURE(Fixture, "an object that loses our label is noticed and gets it back") {
    edit([](json::object& object) {
      object["metadata"].as_object()["labels"] = json::object{{"mine", "now"}};
    });
    executor.run_until_idle();
    CHECK(live().at("metadata").at("labels").at(kNameLabel) == kNameLabelValue);
    CHECK(live().at("metadata").at("labels").at("mine") == "now");
  }

  TEST_CASE_FIXTURE(Fixture, "a new CA is put through, which is no repair either") {
    names.ca_bundle_pem = "another";
    reconciler->want(kMutatingWebhooks, mutating_webhook(names), Repair::kCreate);
    executor.run_until_idle();
    CHECK(hook().at("clientConfig").at("caBundle") == "YW5vdGhlcg==");
    CHECK(repairs() == 0);
  }

  TEST_CASE_FIXTURE(Fixture, "repeated changes are repaired with growing delays") {
    // As another controller that disagrees does.
    std::size_t changes = 0;
    for (auto end = clock.steady_now() + 1h; clock.steady_now() < end; executor.run_for(1s)) {
      if (hook().at("failurePolicy") == "Ignore") continue;
      edit([](json::object& object) { first_hook(object)["failurePolicy"] = "Ignore"; });
      ++changes;
    }
    CHECK(changes > 10);
    CHECK(changes < 40);
    // Once it stops, the last word is ours.
    executor.run_for(10min);
    CHECK(hook().at("failurePolicy") == "Fail");
  }

  TEST_CASE_FIXTURE(Fixture, "an object of a newer version is left unchanged") {
    edit([](json::object& object) {
      object["metadata"].as_object()["labels"].as_object()[kVersionLabel] = "99.0.0";
      first_hook(object)["timeoutSeconds"] = 7;
    });
    executor.run_for(1h);
    CHECK(hook().at("timeoutSeconds") == 7);
    CHECK(repairs() == 0);
    edit([](json::object& object) {
      object["metadata"].as_object()["labels"].as_object()[kVersionLabel] = "0.0.9";
    });
    executor.run_for(1min);
    CHECK(hook().at("timeoutSeconds") == 20);
    CHECK(live().at("metadata").at("labels").at(kVersionLabel) == "0.0.9");
  }

  TEST_CASE_FIXTURE(Fixture, "a new CA is put through in a webhook of a newer version too") {
    edit([](json::object& object) {
      object["metadata"].as_object()["labels"].as_object()[kVersionLabel] = "99.0.0";
      first_hook(object)["timeoutSeconds"] = 7;
      json::object theirs = first_hook(object);
      theirs["name"] = "theirs";
      theirs["clientConfig"].as_object()["service"].as_object()["name"] = "another";
      object["webhooks"].as_array().push_back(std::move(theirs));
    });
    names.ca_bundle_pem = "another";
    reconciler->want(kMutatingWebhooks, mutating_webhook(names), Repair::kCreate);
    executor.run_until_idle();
    CHECK(hook().at("clientConfig").at("caBundle") == "YW5vdGhlcg==");
    CHECK(hook().at("timeoutSeconds") == 7);
    const json::array hooks = live().at("webhooks").as_array();
    CHECK(hooks.back().at("clientConfig").at("caBundle") != "YW5vdGhlcg==");
    CHECK(repairs() == 0);
    edit([](json::object& object) {
      first_hook(object)["clientConfig"].as_object()["caBundle"] = "bWluZQ==";
    });
    executor.run_until_idle();
    CHECK(hook().at("clientConfig").at("caBundle") == "YW5vdGhlcg==");
    CHECK(repairs() == 1);
    api.forget_writes();
    executor.run_for(1h);
    CHECK(api.writes().empty());
  }

  TEST_CASE_FIXTURE(Fixture,
                    "an API server that is away is waited for, and its watches made anew") {
    bool away = true;
    api.set_fault([&](const std::string&) {
      return away ? Status(Error{ErrorCode::kUnavailable, "away"}) : Status();
    });
    api.end_watches();
    executor.run_for(1min);
    away = false;
    edit([](json::object& object) { first_hook(object)["failurePolicy"] = "Ignore"; });
    executor.run_for(30s);
    CHECK(hook().at("failurePolicy") == "Fail");
    CHECK(api.watchers() == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "a change by the server itself is reported and not repaired again") {
    // The memory server has no mutating webhooks; a refusal stands for them.
    std::size_t tries = 0;
    api.set_fault([&](const std::string& call) {
      if (call.rfind("update", 0) == 0) ++tries;
      const bool writes = call.rfind("patch", 0) == 0 || call.rfind("update", 0) == 0;
      return writes ? Status(Error{ErrorCode::kInvalidField, "spec: no"}) : Status();
    });
    edit([](json::object& object) { first_hook(object)["failurePolicy"] = "Ignore"; });
    executor.run_for(1h);
    CHECK(tries > 5);
    CHECK(tries < 30);
    CHECK_FALSE(log.lines_with("cannot be looked after").empty());
    const auto problems = reconciler->problems();
    REQUIRE(problems.size() == 1);
    CHECK(problems.front().cause.find("osm upgrade") != std::string::npos);
    api.set_fault({});
    executor.run_for(10min);
    CHECK(hook().at("failurePolicy") == "Fail");
    CHECK(reconciler->problems().empty());
  }

  // By an admission policy, which allows the object as it was and as it is wanted.
  TEST_CASE_FIXTURE(Fixture, "an object that is refused half restored is restored at once") {
    const json::object before = live();
    api.set_fault([](const std::string& call) {
      return call.rfind("patch", 0) == 0 ? Status(Error{ErrorCode::kPermissionDenied, "no"})
                                         : Status();
    });
    edit([](json::object& object) {
      first_hook(object)["failurePolicy"] = "Ignore";
      object["webhooks"].as_array().push_back(json::object{{"name", "theirs"}});
    });
    executor.run_until_idle();
    CHECK(live().at("webhooks") == before.at("webhooks"));
    CHECK(reconciler->problems().empty());
    CHECK(repairs() == 1);
  }

  TEST_CASE_FIXTURE(UpkeepFixture, "every CRD is installed, and put back when deleted") {
    Reconciler reconciler(api, runtime, "a", "osm-system");
    for (auto& crd : crds()) reconciler.want(kCrds, std::move(crd), Repair::kCreate);
    executor.run_until_idle();
    CHECK(api.count(kCrds) == crds().size());
    REQUIRE(api.remove(kCrds, "", "traffictargets.access.smi-spec.io", {}).ok());
    executor.run_until_idle();
    CHECK(api.count(kCrds) == crds().size());
    CHECK(metrics.value("osm_reconciliation_total", {{"kind", "CustomResourceDefinition"}}) == 1);
  }

  TEST_CASE_FIXTURE(Fixture,
                    "a deleted object that may not be created is told of, each time anew") {
    const json::object wanted = mutating_webhook(names);
    reconciler->want(kMutatingWebhooks, wanted, Repair::kRestore);
    executor.run_until_idle();
    const auto present = [&] {
      return metrics.value("osm_cluster_object_present",
                           {{"kind", "MutatingWebhookConfiguration"}, {"name", kName}});
    };
    for (std::size_t deletions = 1; deletions <= 2; ++deletions) {
      CHECK(reconciler->problems().empty());
      CHECK(present() == 1);
      REQUIRE(api.remove(kMutatingWebhooks, "", kName, {}).ok());
      executor.run_until_idle();
      CHECK(api.count(kMutatingWebhooks) == 0);
      CHECK(present() == 0);
      CHECK(api.count(kEvents) == deletions);
      REQUIRE(reconciler->problems().size() == 1);
      CHECK(reconciler->problems()[0].text().find("pods are created without sidecars") !=
            std::string::npos);
      CHECK(reconciler->problems()[0].cause.find("run `osm upgrade --osm-namespace osm-system`") !=
            std::string::npos);
      REQUIRE(api.create(kMutatingWebhooks, mutating_webhook({"osm", "osm-system", ""})).ok());
      executor.run_until_idle();
      CHECK(holds(hook(), wanted.at("webhooks").at(0)));  // with the CA
    }
    CHECK(repairs() == 0);
  }

  TEST_CASE_FIXTURE(UpkeepFixture, "CRDs that are only reported are never written") {
    Reconciler reconciler(api, runtime, "a", "osm-system");
    for (auto& crd : crds()) {
      put(kCrds, crd);
      reconciler.want(kCrds, std::move(crd), Repair::kReport);
    }
    executor.run_until_idle();
    CHECK(reconciler.problems().empty());
    api.edit(kCrds, "", "retries.policy.openservicemesh.io",
             [](json::object& crd) { crd["spec"].as_object()["scope"] = "Cluster"; });
    REQUIRE(api.remove(kCrds, "", "egresses.policy.openservicemesh.io", {}).ok());
    api.forget_writes();
    executor.run_for(5s);
    const auto problems = reconciler.problems();
    REQUIRE(problems.size() == 2);
    CHECK(problems[0].code == ErrorCode::kNotFound);
    CHECK(problems[1].code == ErrorCode::kConflict);
    CHECK(api.writes().size() == 2);
    CHECK(api.count(kEvents) == 2);
  }

  TEST_CASE_FIXTURE(UpkeepFixture, "an Event that cannot be written yet is written later") {
    bool refused = true;
    api.set_fault([&](const std::string& call) {
      return refused && call.rfind("create", 0) == 0
                 ? Status(Error{ErrorCode::kUnavailable, "busy"})
                 : Status();
    });
    Reconciler reconciler(api, runtime, "a", "osm-system");
    reconciler.want(kMutatingWebhooks, mutating_webhook({}), Repair::kRestore);
    executor.run_for(5s);
    CHECK(reconciler.problems().size() == 1);
    CHECK(api.count(kEvents) == 0);
    refused = false;
    executor.run_for(1min);
    CHECK(api.count(kEvents) == 1);
  }

  TEST_CASE_FIXTURE(UpkeepFixture, "each namespace is asked about by one injector only") {
    // True if the selector takes a namespace of the mesh with this `ignore` label; "": without it.
    const auto takes = [](const json::value& hook, const std::string& ignore) {
      const json::value& rule = hook.at("namespaceSelector").at("matchExpressions").at(0);
      REQUIRE(rule.at("key") == "openservicemesh.io/ignore");
      if (rule.at("operator") == "DoesNotExist") return ignore.empty();
      REQUIRE(rule.at("operator") == "In");
      const json::array& values = rule.at("values").as_array();
      return std::ranges::find(values, json::value(ignore)) != values.end();
    };
    const auto asks = [&](const json::object& configuration, const std::string& ignore) {
      const json::array& hooks = configuration.at("webhooks").as_array();
      return std::ranges::count_if(hooks, [&](const auto& hook) { return takes(hook, ignore); });
    };
    const json::object alone = mutating_webhook({});
    CHECK(asks(alone, "") == 1);
    CHECK(asks(alone, "moved") == 1);
    CHECK(asks(alone, "true") == 0);
    const WebhookNames names{.beside_osm_v1 = true};  // OSM v1.2 asks where the label is absent
    const json::object beside = mutating_webhook(names);
    CHECK(asks(beside, "") == 0);
    CHECK(asks(beside, "moved") == 1);
    CHECK(asks(beside, "true") == 0);
    const json::value policies = validating_webhook(names, spec::mesh_kinds()).at("webhooks").at(0);
    CHECK(takes(policies, "moved"));
    CHECK_FALSE(takes(policies, ""));
    for (const json::object& ours : {alone, beside})
      CHECK_FALSE(
          ours.at("metadata").at("labels").as_object().contains("openservicemesh.io/reconcile"));
  }

  TEST_CASE_FIXTURE(UpkeepFixture,
                    "the validating webhook speaks for policies and the MeshConfig") {
    const auto hooks = validating_webhook({"osm", "osm-system", "ca"}, spec::mesh_kinds())
                           .at("webhooks")
                           .as_array();
    REQUIRE(hooks.size() == 3);
    std::vector<std::string> plurals;
    for (const json::value& hook : hooks) {
      // No caller waits for an answer to a deletion: the webhook goes with its namespace.
      const bool deletes = &hook == &hooks.back();
      CHECK(hook.at("failurePolicy") == (deletes ? "Ignore" : "Fail"));
      CHECK(hook.at("sideEffects") == "None");
      CHECK(hook.at("clientConfig").at("service").at("path") == "/validate");
      for (const json::value& rule : hook.at("rules").as_array()) {
        CHECK(rule.at("operations") ==
              (deletes ? json::array({"DELETE"}) : json::array({"CREATE", "UPDATE"})));
        plurals.emplace_back(rule.at("resources").at(0).as_string());
      }
    }
    CHECK(plurals == std::vector<std::string>{
                         // in namespaces of the mesh
                         "traffictargets", "httproutegroups", "tcproutes", "trafficsplits",
                         "meshconfigs", "meshrootcertificates", "egresses", "ingressbackends",
                         "retries", "upstreamtrafficsettings", "telemetries", "extensionservices",
                         "virtualmachines", "azureresources", "dnsresources", "serviceproviders",
                         "denylists",
                         // in the control plane's
                         "meshconfigs", "meshrootcertificates", "telemetries", "extensionservices",
                         "denylists",
                         // deletions
                         "meshconfigs", "meshrootcertificates"});
    CHECK(
        hooks[0].at("namespaceSelector").at("matchLabels").at("openservicemesh.io/monitored-by") ==
        "osm");
    spec::Kinds more = spec::mesh_kinds();
    more.push_back({.name = {"vendor.example", "Greeting"},
                    .version = "v1",
                    .plural = "greetings",
                    .review = spec::Review::kWrites});
    const json::value last = validating_webhook({"osm", "osm-system", "ca"}, more)
                                 .at("webhooks")
                                 .at(0)
                                 .at("rules")
                                 .as_array()
                                 .back();
    CHECK(last.at("apiGroups") == json::array({"vendor.example"}));
    CHECK(last.at("resources") == json::array({"greetings"}));
    for (std::size_t own : {1, 2})
      CHECK(hooks[own].at("namespaceSelector").at("matchExpressions").at(0).at("values") ==
            json::array({"osm-system"}));
  }
}
