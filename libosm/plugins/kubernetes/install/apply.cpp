#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <set>
#include <utility>

#include "base/json.hpp"
#include "kubernetes/client/api.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/install/installed.hpp"
#include "kubernetes/upkeep/labels.hpp"
#include "osm/kubernetes/install.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr const char* kAutoscale = "osm-autoscale";  // see settle_replicas

struct Object {
  Resource resource;
  json::object content;
  Metadata metadata;

  std::string name() const { return display_name(resource, metadata); }
};

Result<Object> object_of(const Manifest& manifest) {
  OSM_TRY(json::object content, parse_json_object(manifest.json, manifest.source));
  const std::string kind = text_at(content, "kind"), version = text_at(content, "apiVersion");
  const auto found =
      std::find_if(kInstalled.begin(), kInstalled.end(), [&](const Resource& resource) {
        return resource.kind == kind && resource.api_version() == version;
      });
  if (found == kInstalled.end())
    return Error{ErrorCode::kInvalidSyntax, fmt::format("{}: {} of {} is no kind of the chart",
                                                        manifest.source, kind, version)};
  Object object{*found, std::move(content), {}};
  object.metadata = metadata_of(object.content);
  return object;
}

bool has_condition(const json::object& object, std::string_view type) {
  const json::array& conditions = list_at(map_at(object, "status"), "conditions");
  return std::any_of(conditions.begin(), conditions.end(), [&](const json::value& condition) {
    return text_at(condition, "type") == type && text_at(condition, "status") == "True";
  });
}

std::int64_t count_at(const json::object& map, std::string_view name) {
  const json::value* value = member(map, name);
  return value == nullptr ? 0 : whole_number(*value).value_or(0);
}

// True if a manager that `accepted` takes has set `spec.replicas`.
template <class Accepts>
bool has_set_replicas(const json::object& deployment, Accepts accepts) {
  const json::array& managers = list_at(map_at(deployment, "metadata"), "managedFields");
  return std::any_of(managers.begin(), managers.end(), [&](const json::value& manager) {
    return map_at(map_at(manager, "fieldsV1"), "f:spec").contains("f:replicas") && accepts(manager);
  });
}

// A field that its only owner no longer applies gets its default, which is one replica. So another
// owner keeps the number when autoscaling begins. When it ends, that owner takes the number over
// from whoever scaled. Any other owner of the number stays, and is a conflict.
Status settle_replicas(Api& api, const Object& object, const json::object& present) {
  if (object.resource != kDeployments) return {};
  const std::int64_t live = count_at(map_at(present, "spec"), "replicas");
  const json::object& spec = map_at(object.content, "spec");
  std::int64_t wanted = live;
  if (!spec.contains("replicas")) {
    const auto own = [](const json::value& m) { return is_applied(m, kInstaller); };
    if (!has_set_replicas(present, own)) return {};
  } else {
    const auto scaled = [](const json::value& m) {
      return is_applied(m, kAutoscale) || text_at(m, "subresource") == "scale";
    };
    wanted = count_at(spec, "replicas");
    if (wanted == live || !has_set_replicas(present, scaled)) return {};
  }
  const json::object kept{
      {"apiVersion", object.resource.api_version()},
      {"kind", object.resource.kind},
      {"metadata", {{"name", object.metadata.name}, {"namespace", object.metadata.ns}}},
      {"spec", {{"replicas", wanted}}}};
  const auto done = api.patch(object.resource, object.metadata.ns, object.metadata.name,
                              {.type = PatchType::kApply,
                               .body = json::serialize(kept),
                               .field_manager = kAutoscale,
                               .force = true});
  return done.ok() ? Status() : Status(done.error());
}

// Empty: nothing.
std::string missing_pods(const json::object& deployment) {
  const json::object &spec = map_at(deployment, "spec"), &status = map_at(deployment, "status");
  const std::int64_t wanted = count_at(spec, "replicas");
  const std::int64_t ready =
      std::min(count_at(status, "updatedReplicas"), count_at(status, "availableReplicas"));
  const bool seen = count_at(status, "observedGeneration") >=
                    count_at(map_at(deployment, "metadata"), "generation");
  if (seen && ready >= wanted && count_at(status, "replicas") == wanted) return {};
  return fmt::format("{} of {} pods are available", seen ? ready : 0, wanted);
}

bool is_webhook(const Resource& resource) {
  return resource == kMutatingWebhooks || resource == kValidatingWebhooks;
}

bool is_waited_for(const Resource& resource) {
  return resource == kCrds || resource == kDeployments || is_webhook(resource);
}

bool lacks_ca(const json::object& configuration) {
  const json::array& hooks = list_at(configuration, "webhooks");
  return std::any_of(hooks.begin(), hooks.end(), [](const json::value& hook) {
    return text_at(map_at(hook, "clientConfig"), "caBundle").empty();
  });
}

// The first manifest is the namespace.
std::string namespace_of(const std::vector<Manifest>& manifests) {
  const auto first = object_of(manifests.front());
  return first.ok() ? first->metadata.name : std::string();
}

std::string missing_of(const Object& object, const json::object& present) {
  if (object.resource == kCrds && !has_condition(present, "Established"))
    return "the API server does not serve it yet";
  if (object.resource == kDeployments) return missing_pods(present);
  if (is_webhook(object.resource) && lacks_ca(present)) return "no daemon has set its caBundle yet";
  return {};
}

}  // namespace

Result<Application> apply_manifest(Cluster& cluster, const Manifest& manifest, bool force) {
  OSM_TRY(const Object object, object_of(manifest));
  const Metadata& metadata = object.metadata;
  Api& api = cluster.api();
  const auto before = api.get(object.resource, metadata.ns, metadata.name);
  if (!before.ok() && before.error().code != ErrorCode::kNotFound) return before.error();
  if (before.ok()) OSM_TRY(settle_replicas(api, object, *before));
  OSM_TRY(const json::object after, api.patch(object.resource, metadata.ns, metadata.name,
                                              {.type = PatchType::kApply,
                                               .body = manifest.json,
                                               .field_manager = kInstaller,
                                               .force = force}));
  const bool same = before.ok() && metadata_of(*before).version == metadata_of(after).version;
  return Application{object.name(), !before.ok() ? Change::kCreated
                                    : same       ? Change::kUnchanged
                                                 : Change::kChanged};
}

Result<std::string> missing_part(Cluster& cluster, const std::vector<Manifest>& manifests) {
  for (const Manifest& manifest : manifests) {
    OSM_TRY(const Object object, object_of(manifest));
    if (!is_waited_for(object.resource)) continue;
    const auto present =
        cluster.api().get(object.resource, object.metadata.ns, object.metadata.name);
    if (!present.ok()) return present.error();
    const std::string missing = missing_of(object, *present);
    if (!missing.empty()) return object.name() + ": " + missing;
  }
  const auto config = cluster.api().get(kMeshConfigs, namespace_of(manifests), "osm-mesh-config");
  if (config.ok()) return std::string();
  if (config.error().code != ErrorCode::kNotFound) return config.error();
  return std::string("MeshConfig osm-mesh-config: no controller has made it yet");
}

Status check_no_other_mesh(Cluster& cluster, const std::vector<Manifest>& manifests) {
  const std::string ns = namespace_of(manifests);
  for (const Manifest& manifest : manifests) {
    OSM_TRY(const Object object, object_of(manifest));
    if (!is_webhook(object.resource)) continue;
    const auto present = cluster.api().get(object.resource, {}, object.metadata.name);
    if (!present.ok() && present.error().code != ErrorCode::kNotFound) return present.error();
    if (!present.ok()) continue;
    for (const json::value& hook : list_at(*present, "webhooks")) {
      const std::string home =
          text_at(map_at(map_at(hook, "clientConfig"), "service"), "namespace");
      if (!home.empty() && home != ns)
        return Error{ErrorCode::kAlreadyExists,
                     fmt::format("a mesh of this name is installed in namespace {} ({}): use that "
                                 "namespace, or another osm.meshName",
                                 home, object.name())};
    }
  }
  return {};
}

Result<std::vector<std::string>> prune(Cluster& cluster, const std::vector<Manifest>& manifests) {
  std::set<std::string> wanted;
  std::string mesh;
  for (const Manifest& manifest : manifests) {
    OSM_TRY(const Object object, object_of(manifest));
    wanted.insert(object.name());
    if (is_webhook(object.resource))
      mesh = text_at(map_at(map_at(object.content, "metadata"), "labels"), kInstanceLabel);
  }
  std::vector<std::string> removed;
  for (const Resource& resource : kInstalled) {
    if (resource == kNamespaces || resource == kCrds) continue;
    OSM_TRY(const auto present,
            list_installed(cluster.api(), resource, mesh, namespace_of(manifests)));
    for (const json::object& each : present) {
      const Metadata metadata = metadata_of(each);
      const std::string name = display_name(resource, metadata);
      if (wanted.contains(name)) continue;
      OSM_TRY(cluster.api().remove(resource, metadata.ns, metadata.name, {.uid = metadata.uid}));
      removed.push_back(name);
    }
  }
  return removed;
}

}  // namespace osm::inline v1::kubernetes
