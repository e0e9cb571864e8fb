#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <set>
#include <utility>

#include "base/json.hpp"
#include "install/installed.hpp"
#include "install/stored_versions.hpp"
#include "kubernetes/client/api.hpp"
#include "kubernetes/client/api_status.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/upkeep/crds.hpp"
#include "kubernetes/upkeep/labels.hpp"
#include "osm/kubernetes/install.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr const char* kAutoscale = "osm-autoscale";  // see settle_replicas

struct ClusterObject {
  Resource resource;
  json::object content;
  Metadata metadata;

  std::string name() const { return display_name(resource, metadata); }
};

Result<ClusterObject> object_of(const Manifest& manifest) {
  OSM_TRY(json::object content, parse_json_object(manifest.json, manifest.source));
  const std::string kind = text_at(content, "kind"), version = text_at(content, "apiVersion");
  const auto found =
      std::find_if(kInstalled.begin(), kInstalled.end(), [&](const Resource& resource) {
        return resource.kind == kind && resource.api_version() == version;
      });
  if (found == kInstalled.end())
    return Error{ErrorCode::kInvalidSyntax, fmt::format("{}: {} of {} is no kind of the chart",
                                                        manifest.source, kind, version)};
  ClusterObject object{*found, std::move(content), {}};
  object.metadata = metadata_of(object.content);
  return object;
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
Status settle_replicas(Api& api, const ClusterObject& object, const json::object& present) {
  if (object.resource != kDeployments) return {};
  const std::int64_t live = number_at(map_at(present, "spec"), "replicas");
  const json::object& spec = map_at(object.content, "spec");
  std::int64_t wanted = live;
  if (!spec.contains("replicas")) {
    const auto own = [](const json::value& m) { return is_applied(m, kInstaller); };
    if (!has_set_replicas(present, own)) return {};
  } else {
    const auto scaled = [](const json::value& m) {
      return is_applied(m, kAutoscale) || text_at(m, "subresource") == "scale";
    };
    wanted = number_at(spec, "replicas");
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

bool is_waited_for(const Resource& resource) {
  return resource == kCrds || resource == kDeployments || resource == kDaemonSets ||
         is_webhook(resource);
}

// The first manifest is the namespace.
std::string namespace_of(const std::vector<Manifest>& manifests) {
  const auto first = object_of(manifests.front());
  return first.ok() ? first->metadata.name : std::string();
}

// The mesh's name, which is a label of every object but the namespace and the CRDs.
std::string mesh_of(const std::vector<Manifest>& manifests) {
  const auto last = object_of(manifests.back());
  return last.ok() ? text_at(map_at(map_at(last->content, "metadata"), "labels"), kInstanceLabel)
                   : std::string();
}

// The body to apply. A namespace that was there before is not marked as made.
std::string body_of(const Manifest& manifest, const ClusterObject& object,
                    const Result<json::object>& before) {
  if (object.resource != kNamespaces) return manifest.json;
  const bool made =
      !before.ok() || map_at(map_at(*before, "metadata"), "annotations").contains(kMadeNamespace);
  if (!made) return manifest.json;
  json::object body = object.content;
  body["metadata"].as_object()["annotations"] = json::object{{kMadeNamespace, "true"}};
  return json::serialize(body);
}

// An object without what controllers write beside an application: its status and bookkeeping.
json::object what_it_asks(json::object object) {
  object.erase("status");
  if (const auto metadata = object.find("metadata");
      metadata != object.end() && metadata->value().is_object()) {
    metadata->value().as_object().erase("resourceVersion");
    metadata->value().as_object().erase("managedFields");
  }
  return object;
}

}  // namespace

Result<Application> apply_manifest(Cluster& cluster, const Manifest& manifest, bool force) {
  OSM_TRY(const ClusterObject object, object_of(manifest));
  const Metadata& metadata = object.metadata;
  Api& api = cluster.api();
  const auto before = api.get(object.resource, metadata.ns, metadata.name);
  if (!before.ok() && before.error().code != ErrorCode::kNotFound) return before.error();
  if (before.ok() && object.resource == kCrds && is_newer(*before))
    return Application{object.name(), Change::kKept};
  if (before.ok() && object.resource == kCrds) OSM_TRY(store_anew(api, *before, object.content));
  if (before.ok()) OSM_TRY(settle_replicas(api, object, *before));
  OSM_TRY(const json::object after, api.patch(object.resource, metadata.ns, metadata.name,
                                              {.type = PatchType::kApply,
                                               .body = body_of(manifest, object, before),
                                               .field_manager = kInstaller,
                                               .force = force || is_webhook(object.resource)}));
  const bool same = before.ok() && what_it_asks(*before) == what_it_asks(after);
  return Application{object.name(), !before.ok() ? Change::kCreated
                                    : same       ? Change::kUnchanged
                                                 : Change::kChanged};
}

Result<std::vector<std::string>> served_kinds(Cluster& cluster) {
  const Resource& policies = kAdmissionPolicies;
  OSM_TRY(const net::Response response,
          cluster.api().forward({.target = "/apis/" + policies.api_version()}));
  if (response.status >= 300)
    return error_of_response(response, "ask for the kinds of " + policies.api_version());
  OSM_TRY(const json::object served, parse_json_object(response.body, cluster.server()));
  for (const json::value& kind : list_at(served, "resources"))
    if (text_at(kind, "name") == policies.plural)
      return std::vector{policies.api_version() + '/' + std::string(policies.kind)};
  return std::vector<std::string>();
}

Result<std::string> missing_part(Cluster& cluster, const std::vector<Manifest>& manifests) {
  for (const Manifest& manifest : manifests) {
    OSM_TRY(const ClusterObject object, object_of(manifest));
    if (!is_waited_for(object.resource)) continue;
    const auto present =
        cluster.api().get(object.resource, object.metadata.ns, object.metadata.name);
    if (!present.ok()) return present.error();
    const std::string missing = missing_of(object.resource, *present);
    if (!missing.empty()) return object.name() + ": " + missing;
  }
  const auto config = cluster.api().get(kMeshConfigs, namespace_of(manifests), "osm-mesh-config");
  if (config.ok()) return std::string();
  if (config.error().code != ErrorCode::kNotFound) return config.error();
  return std::string("MeshConfig osm-mesh-config: no controller has made it yet");
}

Result<Installation> find_installation(Cluster& cluster, const std::string& osm_namespace) {
  const auto found = cluster.api().get(kConfigMaps, osm_namespace, kValuesConfigMap);
  if (!found.ok() && found.error().code == ErrorCode::kNotFound)
    return Error{ErrorCode::kNotFound,
                 fmt::format("`osm install` has installed no mesh in namespace {}; `helm upgrade` "
                             "upgrades a mesh that Helm installed",
                             osm_namespace)};
  if (!found.ok()) return found.error();
  const json::object& labels = map_at(map_at(*found, "metadata"), "labels");
  Installation installation{text_at(labels, kInstanceLabel),
                            text_at(labels, kVersionLabel),
                            {fmt::format("ConfigMap {}/{}", osm_namespace, kValuesConfigMap),
                             text_at(map_at(*found, "data"), kValuesKey)}};
  if (installation.mesh_name.empty() || installation.values.text.empty())
    return Error{
        ErrorCode::kStorage,
        fmt::format("{}: its label {} or its key {} is missing: run `osm install` with all "
                    "values of the mesh",
                    installation.values.name, kInstanceLabel, kValuesKey)};
  return installation;
}

Status check_no_other_mesh(Cluster& cluster, const std::vector<Manifest>& manifests) {
  const std::string ns = namespace_of(manifests), mesh = mesh_of(manifests);
  const auto installed = find_installation(cluster, ns);
  if (!installed.ok() && installed.error().code != ErrorCode::kNotFound) return installed.error();
  if (installed.ok() && installed->mesh_name != mesh)
    return Error{ErrorCode::kAlreadyExists,
                 fmt::format("namespace {} has mesh {}: a mesh keeps its name; mesh {} needs "
                             "another namespace",
                             ns, installed->mesh_name, mesh)};
  for (const Manifest& manifest : manifests) {
    OSM_TRY(const ClusterObject object, object_of(manifest));
    if (!is_webhook(object.resource)) continue;
    const auto present = cluster.api().get(object.resource, {}, object.metadata.name);
    if (!present.ok() && present.error().code != ErrorCode::kNotFound) return present.error();
    if (!present.ok()) continue;
    for (const std::string& home : homes_of(*present)) {
      if (home != ns)
        return Error{ErrorCode::kAlreadyExists,
                     fmt::format("a mesh of this name is installed in namespace {} ({}): use that "
                                 "namespace, or another osm.meshName",
                                 home, object.name())};
    }
  }
  return {};
}

Result<std::vector<std::string>> prune(Cluster& cluster, const std::vector<Manifest>& manifests,
                                       PrunedKinds kinds) {
  std::set<std::string> wanted;
  const std::string mesh = mesh_of(manifests);
  for (const Manifest& manifest : manifests) {
    OSM_TRY(const ClusterObject object, object_of(manifest));
    wanted.insert(object.name());
  }
  std::vector<std::string> removed;
  for (const Resource& resource : kInstalled) {
    const bool scales = resource.kind == "HorizontalPodAutoscaler";
    if (resource == kNamespaces || resource == kCrds) continue;
    if (scales != (kinds == PrunedKinds::kAutoscalers)) continue;
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
