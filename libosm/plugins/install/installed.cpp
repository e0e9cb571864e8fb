#include "install/installed.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.hpp"
#include "kubernetes/upkeep/labels.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr std::string_view kEventsNamespace = "default";  // of the injector's Role for Events

bool has_condition(const json::object& object, std::string_view type) {
  const json::array& conditions = list_at(map_at(object, "status"), "conditions");
  return std::any_of(conditions.begin(), conditions.end(), [&](const json::value& condition) {
    return text_at(condition, "type") == type && text_at(condition, "status") == "True";
  });
}

std::string missing_pods(const json::object& deployment) {
  const json::object &spec = map_at(deployment, "spec"), &status = map_at(deployment, "status");
  const std::int64_t wanted = number_at(spec, "replicas");
  const std::int64_t ready =
      std::min(number_at(status, "updatedReplicas"), number_at(status, "availableReplicas"));
  const bool seen = number_at(status, "observedGeneration") >=
                    number_at(map_at(deployment, "metadata"), "generation");
  if (seen && ready >= wanted && number_at(status, "replicas") == wanted) return {};
  return fmt::format("{} of {} pods are available", seen ? ready : 0, wanted);
}

std::string missing_nodes(const json::object& daemon_set) {
  const json::object& status = map_at(daemon_set, "status");
  const std::int64_t wanted = number_at(status, "desiredNumberScheduled");
  const std::int64_t ready =
      std::min(number_at(status, "updatedNumberScheduled"), number_at(status, "numberReady"));
  const bool seen = number_at(status, "observedGeneration") >=
                    number_at(map_at(daemon_set, "metadata"), "generation");
  if (seen && ready >= wanted) return {};
  return seen ? fmt::format("{} of {} nodes are ready", ready, wanted) : "no node is ready";
}

bool lacks_ca(const json::object& configuration) {
  const json::array& hooks = list_at(configuration, "webhooks");
  return std::any_of(hooks.begin(), hooks.end(), [](const json::value& hook) {
    return text_at(map_at(hook, "clientConfig"), "caBundle").empty();
  });
}

}  // namespace

bool is_webhook(const Resource& resource) {
  return resource == kMutatingWebhooks || resource == kValidatingWebhooks;
}

std::set<std::string> homes_of(const json::object& object) {
  std::set<std::string> homes;
  for (const json::value& hook : list_at(object, "webhooks"))
    homes.insert(text_at(map_at(map_at(hook, "clientConfig"), "service"), "namespace"));
  for (const json::value& subject : list_at(object, "subjects"))
    homes.insert(text_at(subject, "namespace"));
  homes.erase("");
  return homes;
}

std::string missing_of(const Resource& resource, const json::object& present) {
  if (resource == kCrds && !has_condition(present, "Established"))
    return "the API server does not serve it yet";
  if (resource == kDeployments) return missing_pods(present);
  if (resource == kDaemonSets) return missing_nodes(present);
  if (is_webhook(resource) && lacks_ca(present)) return "no daemon has set its caBundle yet";
  return {};
}

std::string display_name(const Resource& resource, const Metadata& metadata) {
  return fmt::format("{} {}{}{}", resource.kind, metadata.ns, metadata.ns.empty() ? "" : "/",
                     metadata.name);
}

bool is_applied(const json::value& manager, std::string_view by) {
  return text_at(manager, "manager") == by && text_at(manager, "operation") == "Apply";
}

bool is_installed(const json::object& object) {
  const json::array& managers = list_at(map_at(object, "metadata"), "managedFields");
  return std::any_of(managers.begin(), managers.end(),
                     [](const json::value& manager) { return is_applied(manager, kInstaller); });
}

Result<std::vector<json::object>> list_installed(Api& api, const Resource& resource,
                                                 const std::string& mesh_name,
                                                 const std::string& osm_namespace) {
  auto listed = list_all(api, {.resource = resource, .label_selector = mesh_selector(mesh_name)});
  if (!listed.ok() && listed.error().code == ErrorCode::kNotFound)
    return std::vector<json::object>();
  OSM_TRY(std::vector<json::object> objects, std::move(listed));
  std::erase_if(objects, [&](const json::object& object) {
    const std::string ns = metadata_of(object).ns;
    const bool elsewhere = !ns.empty() && ns != osm_namespace && ns != kEventsNamespace;
    return elsewhere || !is_installed(object);
  });
  return objects;
}

}  // namespace osm::inline v1::kubernetes
