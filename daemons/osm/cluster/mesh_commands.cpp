// `osm mesh list`: the meshes of a cluster.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <map>
#include <string>
#include <utility>

#include "base/json.hpp"
#include "cluster/commands.hpp"
#include "cluster_flags.hpp"
#include "osm/kubernetes/admin_access.hpp"
#include "osm/kubernetes/install.hpp"
#include "osm/kubernetes/objects.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "show.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;
using kubernetes::Cluster;

// {name of a mesh: its namespaces}
Result<std::map<std::string, json::array>> members_of(Cluster& cluster) {
  std::map<std::string, json::array> members;
  OSM_TRY(const auto texts,
          kubernetes::list_objects(cluster, {"", "v1", "namespaces", "Namespace"},
                                   {{}, spec::kMonitoredByLabel, /*metadata_only=*/true}));
  for (const std::string& text : texts) {
    OSM_TRY(const json::object ns, parse_json_object(text, "the API server's answer"));
    const json::object& metadata = map_at(ns, "metadata");
    members[text_at(map_at(metadata, "labels"), spec::kMonitoredByLabel)].emplace_back(
        text_at(metadata, "name"));
  }
  return members;
}

// The version that `osm install` noted; otherwise that of the label, or else the tag of the image.
std::string version_of(Cluster& cluster, const json::object& deployment) {
  const json::object& metadata = map_at(deployment, "metadata");
  const auto installed = kubernetes::find_installation(cluster, text_at(metadata, "namespace"));
  if (installed.ok()) return installed->version;
  const std::string label = text_at(map_at(metadata, "labels"), "app.kubernetes.io/version");
  if (!label.empty()) return label;
  const json::object& pod = map_at(map_at(map_at(deployment, "spec"), "template"), "spec");
  for (const json::value& container : list_at(pod, "containers")) {
    const std::string image = text_at(container, "image");
    const auto tag = image.rfind(':');
    if (tag != std::string::npos && image.find('/', tag) == std::string::npos &&
        image.find('@') == std::string::npos)
      return image.substr(tag + 1);
  }
  return {};
}

Result<json::array> controllers_of(Cluster& cluster, const std::string& ns) {
  OSM_TRY(const auto pods, kubernetes::list_running(cluster, ns, "osm-controller"));
  json::array controllers;
  for (const kubernetes::RunningPod& pod : pods)
    controllers.push_back(json::object{{"name", pod.name}, {"ready", pod.ready}});
  return controllers;
}

Result<json::value> list_meshes(const ClusterFlags& flags) {
  OwnRuntime runtime({.least = LogLevel::kError});
  OSM_TRY(const auto cluster, connect(flags, runtime));
  OSM_TRY(const auto texts,
          kubernetes::list_objects(*cluster, {"apps", "v1", "deployments", "Deployment"},
                                   {{}, "app=osm-controller", false}));
  OSM_TRY(auto members, members_of(*cluster));
  json::array meshes;
  for (const std::string& text : texts) {
    OSM_TRY(const json::object deployment, parse_json_object(text, "the API server's answer"));
    const json::object& metadata = map_at(deployment, "metadata");
    const std::string ns = text_at(metadata, "namespace");
    const std::string name = text_at(map_at(metadata, "labels"), "app.kubernetes.io/instance");
    OSM_TRY(json::array controllers, controllers_of(*cluster, ns));
    meshes.push_back(json::object{{"name", name},
                                  {"namespace", ns},
                                  {"version", version_of(*cluster, deployment)},
                                  {"controllers", std::move(controllers)},
                                  {"namespaces", members[name]}});
  }
  return json::value(json::object{{"meshes", std::move(meshes)}});
}

}  // namespace

void add_mesh(CLI::App& root, Flags& flags) {
  CLI::App* group =
      root.add_subcommand("mesh", "Meshes of a Kubernetes cluster")->require_subcommand(1);
  cluster_command(*group, flags, "list",
                  "Each mesh with its control plane and the namespaces that take part",
                  "osm mesh list")
      ->callback([&flags] {
        flags.exit_code = print(flags, list_meshes(flags.mesh.cluster), show_meshes);
      });
}

}  // namespace osm::cli
