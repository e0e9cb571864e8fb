#include "kubernetes/upkeep/webhooks.hpp"

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "base/base64.hpp"
#include "base/json.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/upkeep/labels.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr const char* kNamespaceNameLabel = "kubernetes.io/metadata.name";  // set by Kubernetes

json::object expression(std::string_view key, std::string_view op, json::array values = {}) {
  json::object out{{"key", key}, {"operator", op}};
  if (!values.empty()) out["values"] = std::move(values);
  return out;
}

// Selects namespaces of the mesh: those that moved here from OSM v1.2, or those without such a
// label. A namespace that is labelled as a control plane's is exempt: some providers add that rule
// to every webhook.
json::object monitored(const WebhookNames& names, bool moved) {
  return {{"matchLabels", {{spec::kMonitoredByLabel, names.mesh_name}}},
          {"matchExpressions",
           json::array{moved ? expression(spec::kIgnoreLabel, "In", {spec::kMovedFromOsmV1})
                             : expression(spec::kIgnoreLabel, "DoesNotExist"),
                       expression(kNamespaceNameLabel, "NotIn",
                                  {json::value(names.osm_namespace), "kube-system", "kube-public"}),
                       expression("control-plane", "DoesNotExist")}}};
}

json::object rule(const Resource& resource, json::array operations) {
  return {{"apiGroups", json::array{json::value(resource.group)}},
          {"apiVersions", json::array{json::value(resource.version)}},
          {"resources", json::array{json::value(resource.plural)}},
          {"operations", std::move(operations)},
          {"scope", "Namespaced"}};
}

// Set every field: a selector or a condition that another writer adds could switch the webhook off.
json::object webhook(std::string_view name, json::object client, json::object namespaces,
                     json::array rules) {
  return {
      {"name", name},
      {"clientConfig", std::move(client)},
      {"namespaceSelector", std::move(namespaces)},
      {"objectSelector", json::object()},
      {"matchConditions", nullptr},  // must be absent; servers before 1.27 do not know the field
      {"rules", std::move(rules)},
      {"failurePolicy", "Fail"},
      {"admissionReviewVersions", json::array{"v1"}}};
}

json::object client(const WebhookNames& names, std::string_view service, int port,
                    std::string_view path) {
  json::object client{
      {"service",
       {{"name", service}, {"namespace", names.osm_namespace}, {"port", port}, {"path", path}}}};
  if (!names.ca_bundle_pem.empty()) client["caBundle"] = base64(names.ca_bundle_pem);
  return client;
}

// The reconciler of OSM v1.2 restores what has the label `openservicemesh.io/reconcile: "true"`: on
// one cluster with it, that label would undo each change of the caBundle.
json::object configuration(const Resource& resource, const std::string& name,
                           const WebhookNames& names, json::array webhooks) {
  return {{"apiVersion", resource.api_version()},
          {"kind", resource.kind},
          {"metadata",
           {{"name", name},
            {"labels", {{kNameLabel, kNameLabelValue}, {kInstanceLabel, names.mesh_name}}}}},
          {"webhooks", std::move(webhooks)}};
}

// Namespace and name of the Service that a webhook calls.
std::pair<std::string, std::string> service_of(const json::value& hook) {
  const json::object& service = map_at(map_at(hook, "clientConfig"), "service");
  return {text_at(service, "namespace"), text_at(service, "name")};
}

}  // namespace

json::object mutating_webhook(const WebhookNames& names) {
  json::array webhooks;
  const auto add = [&](std::string_view name, bool moved) {
    json::object inject = webhook(name, client(names, "osm-injector", 9090, "/mutate-pod-creation"),
                                  monitored(names, moved), {rule(kPods, {"CREATE"})});
    inject["matchPolicy"] = "Exact";
    inject["sideEffects"] = "NoneOnDryRun";
    inject["reinvocationPolicy"] = "IfNeeded";
    inject["timeoutSeconds"] = 20;
    webhooks.push_back(std::move(inject));
  };
  if (!names.beside_osm_v1) add("osm-inject.k8s.io", false);
  add("osm-inject-moved.k8s.io", true);
  return configuration(kMutatingWebhooks, "libosm-webhook-" + names.mesh_name, names,
                       std::move(webhooks));
}

json::object validating_webhook(const WebhookNames& names, const spec::Kinds& kinds) {
  json::array policies;
  json::array own_writes;
  json::array own_deletes;
  for (const spec::Kind& kind : kinds) {
    if (kind.review == spec::Review::kNone) continue;
    // An object of the control plane has no effect in other namespaces; its author is told so.
    policies.push_back(rule(resource_of(kind), {"CREATE", "UPDATE"}));
    if (spec::counts_in_control_plane(kind.scope)) own_writes.push_back(policies.back());
    if (kind.review == spec::Review::kWritesAndDeletes)
      own_deletes.push_back(rule(resource_of(kind), {"DELETE"}));
  }
  const json::object own{
      {"matchExpressions",
       json::array{expression(kNamespaceNameLabel, "In", {json::value(names.osm_namespace)})}}};
  json::array webhooks{
      webhook("osm-validator.k8s.io", client(names, "osm-validator", 9093, "/validate"),
              monitored(names, names.beside_osm_v1), std::move(policies)),
      webhook("osm-config-validator.k8s.io", client(names, "osm-validator", 9093, "/validate"), own,
              std::move(own_writes)),
      webhook("osm-root-validator.k8s.io", client(names, "osm-validator", 9093, "/validate"), own,
              std::move(own_deletes))};
  for (json::value& one : webhooks) {
    json::object& fields = one.as_object();
    fields["matchPolicy"] = "Equivalent";
    fields["sideEffects"] = "None";
    fields["timeoutSeconds"] = 10;
  }
  // Deleting the control plane's namespace ends the webhook's server. With "Fail", the deletion of
  // MeshRootCertificates and of the MeshConfig in it would then block for ever.
  webhooks.back().as_object()["failurePolicy"] = "Ignore";
  return configuration(kValidatingWebhooks, "libosm-validator-" + names.mesh_name, names,
                       std::move(webhooks));
}

json::object with_ca_of(const json::object& wanted, const json::object& live) {
  json::object mended = live;
  if (list_at(live, "webhooks").empty()) return {};
  bool changed = false;
  for (json::value& hook : mended.at("webhooks").as_array()) {
    for (const json::value& own : list_at(wanted, "webhooks")) {
      const std::string ca = text_at(map_at(own, "clientConfig"), "caBundle");
      if (ca.empty() || service_of(own) != service_of(hook)) continue;
      if (text_at(map_at(hook, "clientConfig"), "caBundle") == ca) continue;
      hook.as_object()["clientConfig"].as_object()["caBundle"] = ca;
      changed = true;
    }
  }
  return changed ? mended : json::object();
}

}  // namespace osm::inline v1::kubernetes
