// Faults of a cluster that keep a mesh from being installed, or from working. The command `osm
// check` prints them.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::kubernetes {

// Judgement of one part.
enum class Verdict {
  kFine,     // in order
  kWarning,  // the mesh works, and something is not as it looks
  kFault,    // a part of the mesh does not work
};

// One checked part of the cluster.
struct Finding {
  Verdict verdict = Verdict::kFine;
  std::string subject;   // "Deployment osm-system/osm-controller"
  std::string text;      // "1 of 2 pods are available"
  std::string remedy{};  // a command, or a change; empty: none is needed
};

// The mesh to check.
struct CheckOptions {
  std::string osm_namespace = "osm-system";
  std::string mesh_name = "osm";
};

// Before an installation: the API server's version, the caller's permissions, and other meshes that
// would get in the way. Failure: kUnavailable, kPermissionDenied, kDeadlineExceeded: the API server
// cannot be asked. Thread: any but an event loop's. Blocking: until the server answers.
OSM_API Result<std::vector<Finding>> check_before_install(Cluster& cluster,
                                                          const CheckOptions& options);

// An installation: its Deployments, CRDs, webhooks and MeshConfig, and the namespaces of the mesh.
// Failure, thread, blocking: as check_before_install().
OSM_API Result<std::vector<Finding>> check_installation(Cluster& cluster,
                                                        const CheckOptions& options);

// The pods of osm-controller: if they answer, are ready, and reach the API server. Failure, thread,
// blocking: as check_before_install(), and 5 seconds for each pod that does not answer.
OSM_API Result<std::vector<Finding>> check_controllers(Cluster& cluster,
                                                       const CheckOptions& options);

// Running pods of the mesh whose sidecars are not among the `connected` proxies (UUIDs) of all
// controllers, with the cause: a certificate that is not valid `now`, or roots that are not the
// mesh's. At most 20 are explained. Failure, thread, blocking: as check_before_install().
OSM_API Result<std::vector<Finding>> check_sidecars(Cluster& cluster, const CheckOptions& options,
                                                    const std::set<std::string>& connected,
                                                    WallTime now);

}  // namespace osm::inline v1::kubernetes
