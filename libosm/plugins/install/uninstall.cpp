#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <thread>
#include <utility>

#include "base/json.hpp"
#include "install/installed.hpp"
#include "kubernetes/client/api.hpp"
#include "kubernetes/upkeep/crds.hpp"
#include "kubernetes/upkeep/labels.hpp"
#include "osm/kubernetes/install.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPoll{300};
constexpr std::string_view kReconciler = "osm-reconciler";
// Objects that the daemons make in their namespace.
constexpr std::array kMade{kMeshConfigs, kConfigMaps, kSecrets, kLeases};

class Uninstallation {
 public:
  Uninstallation(Api& api, const UninstallOptions& options)
      : api_(api), options_(options), deadline_(steady_clock::now() + options.timeout) {}

  Result<std::size_t> run() {
    OSM_TRY(const bool any, is_anything_installed());
    if (!any)
      return Error{ErrorCode::kNotFound,
                   fmt::format("`osm install` has installed no mesh {} in namespace {}; `helm "
                               "uninstall` removes a mesh that Helm installed",
                               options_.mesh_name, options_.osm_namespace)};
    OSM_TRY(check_home());
    OSM_TRY(const bool owned, owns_namespace());
    // It would restore what is deleted next.
    OSM_TRY(remove_reconciler());
    const auto programs = std::find(kInstalled.begin(), kInstalled.end(), kDeployments) + 1;
    for (auto each = kInstalled.begin(); each != programs; ++each) {
      if (*each == kDaemonSets) OSM_TRY(clear_nodes());
      OSM_TRY(remove_installed(*each));
    }
    OSM_TRY(wait_for_pods("app=osm-cni"));
    // A controller that still runs would make its objects again. After a time-out here, another run
    // finds the rest of the installation and goes on.
    OSM_TRY(wait_for_pods("app in (osm-controller,osm-injector)"));
    for (const Resource& resource : kMade) OSM_TRY(remove_made(resource));
    for (auto each = programs; each != kInstalled.end(); ++each) OSM_TRY(remove_installed(*each));
    if (options_.delete_crds) OSM_TRY(remove_crds());
    if (owned && !options_.keep_namespace) OSM_TRY(remove_namespace());
    return removed_;
  }

 private:
  Result<bool> is_anything_installed() {
    for (const Resource& resource : kInstalled) {
      if (resource == kCrds || resource == kNamespaces) continue;
      OSM_TRY(const auto objects, installed(resource));
      if (!objects.empty()) return true;
    }
    return false;
  }

  // Objects outside of namespaces tell by their mesh's name only that they are of this mesh. Those
  // that go first and those that go last are looked at, so that an interrupted run can go on.
  Status check_home() {
    for (const Resource& resource : kInstalled) {
      if (resource.namespaced || resource == kCrds || resource == kNamespaces) continue;
      OSM_TRY(const auto objects, installed(resource));
      for (const json::object& each : objects)
        for (const std::string& home : homes_of(each))
          if (home != options_.osm_namespace)
            return Error{
                ErrorCode::kNotFound,
                fmt::format("mesh {} is installed in namespace {} ({}), and not in {}: "
                            "name it by --osm-namespace",
                            options_.mesh_name, home, display_name(resource, metadata_of(each)),
                            options_.osm_namespace)};
    }
    return {};
  }

  Result<bool> owns_namespace() {
    const auto found = api_.get(kNamespaces, {}, options_.osm_namespace);
    if (found.ok())
      return map_at(map_at(*found, "metadata"), "annotations").contains(kMadeNamespace);
    if (found.error().code == ErrorCode::kNotFound) return false;
    return found.error();
  }

  Status remove(const Resource& resource, const Metadata& metadata) {
    const Status done = api_.remove(resource, metadata.ns, metadata.name, {.uid = metadata.uid});
    if (!done.ok() && done.error().code == ErrorCode::kNotFound) return {};
    if (!done.ok()) return done;
    ++removed_;
    if (options_.on_removed) options_.on_removed(display_name(resource, metadata));
    return {};
  }

  Result<std::vector<json::object>> installed(const Resource& resource) {
    return list_installed(api_, resource, options_.mesh_name, options_.osm_namespace);
  }

  Status remove_reconciler() {
    OSM_TRY(const auto deployments, installed(kDeployments));
    for (const json::object& each : deployments) {
      const Metadata metadata = metadata_of(each);
      if (metadata.name != kReconciler) continue;
      OSM_TRY(remove(kDeployments, metadata));
    }
    return wait_for_pods(fmt::format("app={}", kReconciler));
  }

  // The pods of osm-cni take the plugin from their nodes before they go.
  Status clear_nodes() {
    OSM_TRY(const auto sets, installed(kDaemonSets));
    for (const json::object& each : sets) {
      const Metadata set = metadata_of(each);
      const auto present = api_.get(kDaemonSets, set.ns, set.name);
      if (!present.ok()) return present.error();
      const json::object& pod = map_at(map_at(map_at(*present, "spec"), "template"), "spec");
      json::array containers = list_at(pod, "containers");
      for (json::value& container : containers) {
        container.as_object()["command"] = {"/usr/bin/osm-cni", "remove", "--stay"};
        container.as_object().erase("readinessProbe");
      }
      const json::object patch{
          {"spec", {{"template", {{"spec", {{"containers", std::move(containers)}}}}}}}};
      const auto done = api_.patch(kDaemonSets, set.ns, set.name,
                                   {.body = json::serialize(patch), .field_manager = kInstaller});
      if (!done.ok()) return done.error();
      OSM_TRY(wait_until(
          fmt::format(
              "nodes still have the CNI plugin; to leave it there, where it does nothing to "
              "pods without a sidecar: kubectl delete daemonset {} -n {}",
              set.name, set.ns),
          [&] {
            const auto now = api_.get(kDaemonSets, set.ns, set.name);
            return now.ok() ? missing_of(kDaemonSets, *now).empty()
                            : now.error().code == ErrorCode::kNotFound;
          }));
    }
    return {};
  }

  Status remove_installed(const Resource& resource) {
    if (resource == kCrds || resource == kNamespaces) return {};
    OSM_TRY(const auto objects, installed(resource));
    for (const json::object& each : objects) OSM_TRY(remove(resource, metadata_of(each)));
    return {};
  }

  // A kind that the cluster lacks has no objects.
  Status remove_made(const Resource& resource) {
    const auto objects =
        list_all(api_, {.resource = resource,
                        .ns = options_.osm_namespace,
                        .label_selector = std::string(kNameLabel) + '=' + kNameLabelValue,
                        .metadata_only = true});
    if (!objects.ok() && objects.error().code == ErrorCode::kNotFound) return {};
    if (!objects.ok()) return objects.error();
    for (const json::object& each : *objects) OSM_TRY(remove(resource, metadata_of(each)));
    return {};
  }

  Status remove_crds() {
    for (const json::object& crd : crds()) {
      const auto present = api_.get(kCrds, {}, metadata_of(crd).name);
      if (present.ok()) OSM_TRY(remove(kCrds, metadata_of(*present)));
    }
    return {};
  }

  Status remove_namespace() {
    OSM_TRY(
        remove(kNamespaces, {.ns = {}, .name = options_.osm_namespace, .uid = {}, .version = {}}));
    return wait_until("namespace " + options_.osm_namespace + " is being deleted", [this] {
      const auto present = api_.get(kNamespaces, {}, options_.osm_namespace);
      return !present.ok() && present.error().code == ErrorCode::kNotFound;
    });
  }

  Status wait_for_pods(const std::string& selector) {
    return wait_until("pods of namespace " + options_.osm_namespace + " still run", [&] {
      const auto pods = list_all(api_, {.resource = kPods,
                                        .ns = options_.osm_namespace,
                                        .label_selector = selector,
                                        .metadata_only = true});
      return pods.ok() && pods->empty();
    });
  }

  template <class Done>
  Status wait_until(const std::string& what, Done done) {
    while (!done()) {
      if (steady_clock::now() >= deadline_)
        return Error{ErrorCode::kDeadlineExceeded, what + ": run the command again to go on"};
      std::this_thread::sleep_for(kPoll);
    }
    return {};
  }

  Api& api_;
  const UninstallOptions& options_;
  const steady_clock::time_point deadline_;
  std::size_t removed_ = 0;
};

}  // namespace

Result<std::size_t> uninstall(Cluster& cluster, const UninstallOptions& options) {
  return Uninstallation(cluster.api(), options).run();
}

}  // namespace osm::inline v1::kubernetes
