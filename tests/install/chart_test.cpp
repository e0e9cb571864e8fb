// The chart's rights and limits are those that the programs need: the kinds that the controller
// reads, and the webhook configurations that the daemons keep, which it holds too.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <boost/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "kubernetes/upkeep/reconciler.hpp"
#include "kubernetes/upkeep/webhooks.hpp"
#include "osm/kubernetes/install.hpp"
#include "osm/spec/kinds.hpp"

using namespace osm;
using namespace osm::kubernetes;
namespace json = boost::json;

namespace {

constexpr const char* kPolicies = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy";

std::vector<json::object> objects(const std::string& kind, const ChartOptions& options) {
  const auto manifests = render_chart(options);
  REQUIRE(manifests.ok());
  std::vector<json::object> found;
  for (const Manifest& manifest : *manifests)
    if (json::object object = json::parse(manifest.json).as_object();
        text_at(object, "kind") == kind)
      found.push_back(std::move(object));
  return found;
}

std::string joined(const json::array& texts, const char* between = ",") {
  std::string out;
  for (const json::value& text : texts)
    out += (out.empty() ? "" : between) + std::string(text.as_string());
  return out;
}

// A webhook as the policy's variable `written` writes it.
std::string line_of(const json::value& hook) {
  const json::object& service = map_at(map_at(hook, "clientConfig"), "service");
  const json::object& selector = map_at(hook, "namespaceSelector");
  json::array labels, expressions, rules;
  for (const auto& label : map_at(selector, "matchLabels"))
    labels.emplace_back(std::string(label.key()) + '=' + std::string(label.value().as_string()));
  for (const json::value& each : list_at(selector, "matchExpressions")) {
    const std::string values = joined(list_at(each, "values"));
    expressions.emplace_back(text_at(each, "key") + ' ' + text_at(each, "operator") +
                             (values.empty() ? "" : ' ' + values));
  }
  for (const json::value& rule : list_at(hook, "rules"))
    rules.emplace_back(fmt::format("{}/{}/{} {} {}", joined(list_at(rule, "apiGroups")),
                                   joined(list_at(rule, "apiVersions")),
                                   joined(list_at(rule, "resources")),
                                   joined(list_at(rule, "operations")), text_at(rule, "scope")));
  const std::string again = text_at(hook, "reinvocationPolicy");
  return fmt::format(
      "'{} {}/{}:{}{} labels {} and {} rules {} {} {} {} {} {}{}'", text_at(hook, "name"),
      text_at(service, "namespace"), text_at(service, "name"), number_at(service, "port"),
      text_at(service, "path"), joined(labels), joined(expressions, ";"), joined(rules, ";"),
      text_at(hook, "failurePolicy"), text_at(hook, "matchPolicy"), text_at(hook, "sideEffects"),
      number_at(hook, "timeoutSeconds"), joined(list_at(hook, "admissionReviewVersions")),
      again.empty() ? "" : ' ' + again);
}

std::string lines_of(const json::object& configuration) {
  std::string out;
  for (const json::value& hook : list_at(configuration, "webhooks"))
    out += (out.empty() ? "" : ", ") + line_of(hook);
  return out;
}

// The mesh "blue", without or beside an OSM v1.2.
ChartOptions blue(bool beside) {
  return {
      .osm_namespace = "blue-system",
      .settings = {"osm.meshName=blue", beside ? "osm.besideOsmV1=true" : "osm.besideOsmV1=false"},
      .api_versions = {kPolicies}};
}

TEST_SUITE("install.chart") {
  TEST_CASE("the controller may get, list and watch each kind of the mesh") {
    std::set<std::string> granted;
    for (const char* kind : {"ClusterRole", "Role"})
      for (const json::object& role : objects(kind, {})) {
        if (!text_at(map_at(role, "metadata"), "name").starts_with("osm-controller")) continue;
        for (const json::value& rule : list_at(role, "rules"))
          for (const json::value& resource : list_at(rule, "resources"))
            for (const json::value& verb : list_at(rule, "verbs"))
              if (!rule.as_object().contains("resourceNames"))
                granted.insert(joined(list_at(rule, "apiGroups")) + '/' +
                               std::string(resource.as_string()) + ' ' +
                               std::string(verb.as_string()));
      }
    for (const spec::Kind& kind : spec::mesh_kinds())
      for (const char* verb : {"get", "list", "watch"}) {
        const std::string right = fmt::format("{}/{} {}", kind.name.group, kind.plural, verb);
        CHECK_MESSAGE(granted.contains(right), right);
      }
  }

  TEST_CASE("the chart holds the webhooks that the daemons want") {
    for (const bool beside : {false, true}) {
      const WebhookNames names{"blue", "blue-system", {}, beside};
      for (const json::object& wanted :
           {mutating_webhook(names), validating_webhook(names, spec::mesh_kinds())}) {
        const auto found = objects(text_at(wanted, "kind"), blue(beside));
        REQUIRE(found.size() == 1);
        CHECK(holds(found.front(), wanted));
      }
    }
  }

  TEST_CASE("the daemons may put back the webhooks that they want, and no others") {
    for (const bool beside : {false, true}) {
      const WebhookNames names{"blue", "blue-system", {}, beside};
      const auto policies = objects("ValidatingAdmissionPolicy", blue(beside));
      REQUIRE(policies.size() == 2);
      std::string installed;
      for (const json::value& variable : list_at(map_at(policies.front(), "spec"), "variables"))
        if (text_at(variable, "name") == "installed") installed = text_at(variable, "expression");
      CHECK(installed == "request.resource.resource == 'mutatingwebhookconfigurations' ? [ " +
                             lines_of(mutating_webhook(names)) + " ] : [ " +
                             lines_of(validating_webhook(names, spec::mesh_kinds())) + " ]");
    }
  }

  TEST_CASE("a cluster without admission policies gets none") {
    CHECK(objects("ValidatingAdmissionPolicy", {}).empty());
    CHECK(objects("ValidatingAdmissionPolicyBinding", {}).empty());
    CHECK(objects("ValidatingAdmissionPolicyBinding", {.api_versions = {kPolicies}}).size() == 2);
  }
}

}  // namespace
