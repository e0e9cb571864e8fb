// The objects of an installation on Kubernetes: the chart charts/osm with an operator's values.
//
//   const auto manifests = kubernetes::render_chart({.settings = {"osm.injector.replicaCount=3"}});
//   for (const auto& manifest : *manifests) kubernetes::apply_manifest(*cluster, manifest, false);
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::kubernetes {

// Values in YAML, as `helm install -f` takes them.
struct ValuesFile {
  std::string name;  // for messages
  std::string text;
};

// The namespace of an installation, and its differences from the chart's values.
struct ChartOptions {
  std::string osm_namespace = "osm-system";
  std::vector<ValuesFile> values_files{};  // later ones win
  // "osm.osmController.autoScale.enable=true", as `helm install --set` takes them; they win over
  // the files. OpenServiceMesh is another name of osm.
  std::vector<std::string> settings{};
  // Kinds that the cluster has and others have not: of served_kinds().
  std::vector<std::string> api_versions{};
};

// One object.
struct Manifest {
  std::string source;  // "crds", "templates/osm-controller.yaml"
  std::string yaml;    // with the comments of the chart
  std::string json;    // the same object
};

// The kinds of the chart that only some supported versions of Kubernetes serve:
// "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy" of 1.30. Result: those of this
// cluster. Failure, thread, blocking: as apply_manifest.
OSM_API Result<std::vector<std::string>> served_kinds(Cluster& cluster);

// The objects in the order in which they are applied: the namespace, the CRDs, ConfigMap
// osm-values with `options`, accounts and settings, Deployments, webhook configurations. Without
// the namespace and osm-values they equal the output of `helm template --include-crds`. Failure:
// kInvalidSyntax (a file, a setting), kInvalidArgument, kInvalidField: the path of a wrong value
// and what it must be. Thread: any. Blocking: no.
OSM_API Result<std::vector<Manifest>> render_chart(const ChartOptions& options);

// Difference that an application made.
enum class Change {
  kCreated,    // it was not there
  kChanged,    // it differed
  kUnchanged,  // it was as wanted
  kKept,  // a CRD that a newer version applied: an older one would drop fields of stored objects
};

// The result for one object.
struct Application {
  std::string object;  // "Deployment osm-system/osm-controller"
  Change change = Change::kUnchanged;
};

// Applies one object by server-side apply, as the field manager "osm-install". Fields that others
// own stay, and a field that differs from another owner's is a conflict, unless `force` takes it
// over. Webhook configurations are always taken over: daemons of another version keep them up.
// Failure: kConflict, naming the owner; kPermissionDenied, kInvalidField, kUnavailable,
// kDeadlineExceeded, with the server's message; kInvalidSyntax: not an object of the chart.
// Thread: any but an event loop's. Blocking: until the server answers.
OSM_API Result<Application> apply_manifest(Cluster& cluster, const Manifest& manifest, bool force);

// The mesh of a namespace, as it was applied last.
struct Installation {
  std::string mesh_name;
  std::string version;  // of the library that applied it
  ValuesFile values;    // what ChartOptions changed
};

// Failure: kNotFound: the namespace has no ConfigMap osm-values; kStorage: the ConfigMap is not as
// it was written; as apply_manifest. Thread, blocking: as apply_manifest.
OSM_API Result<Installation> find_installation(Cluster& cluster, const std::string& osm_namespace);

// Failure: kAlreadyExists: a mesh of the same name is installed in another namespace, or another
// mesh in this one; as apply_manifest. `manifests` is a result of render_chart. Thread, blocking:
// as apply_manifest.
OSM_API Status check_no_other_mesh(Cluster& cluster, const std::vector<Manifest>& manifests);

// The objects that prune() looks at. Autoscalers go before the objects are applied: each would
// change the number of replicas again. All others go when the new programs run: the former ones
// need their rights until they have ended.
enum class PrunedKinds { kAutoscalers, kOthers };

// Deletes objects of the chart that an earlier installation of the mesh applied and that
// `manifests`, a result of render_chart, no longer has: an autoscaler, say. CRDs stay.
// Result: what was deleted, "HorizontalPodAutoscaler osm-system/osm-injector". Failure, thread,
// blocking: as apply_manifest.
OSM_API Result<std::vector<std::string>> prune(Cluster& cluster,
                                               const std::vector<Manifest>& manifests,
                                               PrunedKinds kinds);

// The first thing that an installation still lacks: a CRD that is not served yet, a Deployment
// without all its pods, a webhook configuration without the CA by which the API server calls it,
// the MeshConfig. Empty: nothing. Failure: as apply_manifest. Thread, blocking: as apply_manifest.
OSM_API Result<std::string> missing_part(Cluster& cluster, const std::vector<Manifest>& manifests);

// The mesh that `uninstall` deletes, and the parts that it leaves.
struct UninstallOptions {
  std::string osm_namespace = "osm-system";
  std::string mesh_name = "osm";
  bool delete_crds = false;     // deletes the policies of every mesh of the cluster with them
  bool keep_namespace = false;  // else a namespace that `osm install` made is deleted
  std::chrono::milliseconds timeout = std::chrono::minutes(2);
  // Each object that was deleted: "Deployment osm-system/osm-controller". May be empty.
  std::function<void(const std::string&)> on_removed{};
};

// Deletes what apply_manifest applied for a mesh, the webhook configurations first, and what the
// daemons made in their namespace, the CA included. Sidecars go on until their pods are restarted.
// Result: the number of deleted objects. Failure: kNotFound: nothing is installed;
// kDeadlineExceeded; as apply_manifest. Thread: any but an event loop's. Blocking: until the
// daemons have ended, at most `timeout`.
OSM_API Result<std::size_t> uninstall(Cluster& cluster, const UninstallOptions& options);

// values.yaml: every value with its default and a comment. Thread: any. Blocking: no.
OSM_API std::string_view chart_values();

}  // namespace osm::inline v1::kubernetes
