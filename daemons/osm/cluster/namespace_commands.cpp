// `osm namespace`: the namespaces that take part in a mesh.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "cluster/commands.hpp"
#include "cluster/namespace_marks.hpp"
#include "cluster_flags.hpp"
#include "osm/kubernetes/objects.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "show.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;
using kubernetes::Cluster;
using kubernetes::ObjectKind;

constexpr const char* kInjection = "openservicemesh.io/sidecar-injection";

ObjectKind deployment_kind() { return {"apps", "v1", "deployments", "Deployment"}; }

// -- add, remove, ignore --

struct NamespaceFlags {
  std::vector<std::string> names;
  std::string mesh_name = "osm";
  bool disable_injection = false;
};

// Failure: the namespace cannot join the mesh.
Status check_may_join(Cluster& cluster, const Marks& ns, const NamespaceFlags& flags) {
  const auto controller =
      kubernetes::get_object(cluster, deployment_kind(), ns.name, "osm-controller");
  if (controller.ok())
    return Error{ErrorCode::kConflict,
                 fmt::format("namespace {} has a control plane, which is in no mesh", ns.name)};
  if (controller.error().code != ErrorCode::kNotFound) return controller.error();
  const std::string mesh = text_at(ns.labels, spec::kMonitoredByLabel);
  if (!mesh.empty() && mesh != flags.mesh_name)
    return Error{ErrorCode::kConflict,
                 fmt::format("namespace {0} is in mesh {1}; `osm namespace remove {0} --mesh-name "
                             "{1}` takes it out",
                             ns.name, mesh)};
  const json::value* ignored = member(ns.labels, spec::kIgnoreLabel);
  if (ignored && text_at(ns.labels, spec::kIgnoreLabel) != spec::kMovedFromOsmV1)
    return Error{ErrorCode::kConflict,
                 fmt::format("namespace {0} is ignored; `kubectl label namespace {0} {1}-` removes "
                             "the label",
                             ns.name, spec::kIgnoreLabel)};
  return {};
}

Status add_to_mesh(Cluster& cluster, const std::string& name, const NamespaceFlags& flags) {
  OSM_TRY(const Marks ns, read_namespace(cluster, name));
  OSM_TRY(check_may_join(cluster, ns, flags));
  const char* injection = flags.disable_injection ? "disabled" : "enabled";
  if (text_at(ns.labels, spec::kMonitoredByLabel) == flags.mesh_name &&
      text_at(ns.annotations, kInjection) == injection) {
    std::cout << fmt::format("Namespace [{}] is in mesh [{}] already\n", name, flags.mesh_name);
    return {};
  }
  OSM_TRY(change_marks(cluster, namespace_kind(), {}, name,
                       {{spec::kMonitoredByLabel, flags.mesh_name}}, {{kInjection, injection}}));
  std::cout << fmt::format("Namespace [{}] successfully added to mesh [{}]\n", name,
                           flags.mesh_name);
  if (!flags.disable_injection)
    std::cout << fmt::format(
        "  New pods get a sidecar; running ones do with: kubectl rollout restart deployment -n "
        "{}\n",
        name);
  return {};
}

Status remove_from_mesh(Cluster& cluster, const std::string& name, const NamespaceFlags& flags) {
  OSM_TRY(const Marks ns, read_namespace(cluster, name));
  const std::string mesh = text_at(ns.labels, spec::kMonitoredByLabel);
  if (mesh != flags.mesh_name)
    return Error{ErrorCode::kNotFound,
                 fmt::format("namespace {} is not in mesh {}{}", name, flags.mesh_name,
                             mesh.empty() ? "" : ", but in mesh " + mesh + "; use --mesh-name")};
  OSM_TRY(change_marks(cluster, namespace_kind(), {}, name, {{spec::kMonitoredByLabel, nullptr}},
                       {{kInjection, nullptr}, {kMetricsMark, nullptr}}));
  std::cout << fmt::format(
      "Namespace [{0}] successfully removed from mesh [{1}]\n"
      "  Pods keep their sidecars until: kubectl rollout restart deployment -n {0}\n",
      name, flags.mesh_name);
  return {};
}

Status ignore(Cluster& cluster, const std::string& name, const NamespaceFlags&) {
  OSM_TRY(change_marks(cluster, namespace_kind(), {}, name, {{spec::kIgnoreLabel, "true"}}, {}));
  std::cout << fmt::format("Namespace [{}] is ignored: its new pods get no sidecar\n", name);
  return {};
}

// -- list --

Result<json::value> list_namespaces(const ClusterFlags& flags, const std::string& mesh_name) {
  OwnRuntime runtime({.least = LogLevel::kError});
  OSM_TRY(const auto cluster, connect(flags, runtime));
  std::string selector = spec::kMonitoredByLabel;
  if (!mesh_name.empty()) selector += '=' + mesh_name;
  OSM_TRY(const auto texts,
          kubernetes::list_objects(*cluster, namespace_kind(), {{}, selector, true}));
  json::array namespaces;
  for (const std::string& text : texts) {
    OSM_TRY(const Marks ns, marks_of(text));
    OSM_TRY(const auto pods, pods_of(*cluster, ns.name));
    std::int64_t sidecars = 0;
    for (const Marks& pod : pods) sidecars += pod.labels.contains(kProxyUuid) ? 1 : 0;
    namespaces.push_back(json::object{{"name", ns.name},
                                      {"mesh", text_at(ns.labels, spec::kMonitoredByLabel)},
                                      {"sidecar_injection", text_at(ns.annotations, kInjection)},
                                      {"metrics", text_at(ns.annotations, kMetricsMark)},
                                      {"ignored", ns.labels.contains(spec::kIgnoreLabel)},
                                      {"pods", pods.size()},
                                      {"pods_with_sidecar", sidecars}});
  }
  return json::value(json::object{{"namespaces", std::move(namespaces)}});
}

void add_list(CLI::App& group, Flags& flags) {
  auto mesh_name = std::make_shared<std::string>();
  CLI::App* app = cluster_command(group, flags, "list",
                                  "Namespaces of the meshes, with the number of their pods",
                                  "osm namespace list\n"
                                  "  osm namespace list --mesh-name osm -o json");
  app->add_option("--mesh-name", *mesh_name, "Only namespaces of this mesh (default: all meshes)");
  app->callback([&flags, mesh_name] {
    flags.exit_code =
        print(flags, list_namespaces(flags.mesh.cluster, *mesh_name), show_namespaces);
  });
}

}  // namespace

void add_namespace(CLI::App& root, Flags& flags) {
  CLI::App* group =
      root.add_subcommand("namespace", "Namespaces of a mesh on Kubernetes")->require_subcommand(1);
  const auto add_change = [&](CLI::App* app, auto what, bool names_mesh) {
    auto options = std::make_shared<NamespaceFlags>();
    app->add_option("NAMESPACE", options->names, "One namespace or several")->required();
    if (names_mesh)
      app->add_option("--mesh-name", options->mesh_name, "Name of the mesh")->capture_default_str();
    app->callback([&flags, options, what] { flags.exit_code = for_each(flags, *options, what); });
    return options;
  };
  CLI::App* add = cluster_command(*group, flags, "add",
                                  "Add namespaces to the mesh; their new pods get a sidecar",
                                  "osm namespace add shop store\n"
                                  "  osm namespace add ingress --disable-sidecar-injection",
                                  false);
  const auto options = add_change(add, add_to_mesh, true);
  add->add_flag("--disable-sidecar-injection", options->disable_injection,
                "New pods get no sidecar, unless their own annotation says so");
  add_change(cluster_command(*group, flags, "remove",
                             "Take namespaces out of the mesh; running sidecars stay",
                             "osm namespace remove shop", false),
             remove_from_mesh, true);
  add_change(cluster_command(*group, flags, "ignore",
                             "Keep the injector away from namespaces, also from pods that ask for "
                             "a sidecar",
                             "osm namespace ignore kube-public", false),
             ignore, false);
  add_list(*group, flags);
}

}  // namespace osm::cli
