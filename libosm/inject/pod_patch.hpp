// Whether a pod gets a sidecar, and what it is with one. Pure.
//
// A pod that has a sidecar already (a copy by kubectl debug, a backup, a webhook called again)
// loses it first: so nothing is there twice, a copy has a UUID of its own, and nobody can bring a
// sidecar of their own making along.
#pragma once

#include <boost/json/object.hpp>
#include <map>
#include <string>
#include <vector>

#include "inject/pod_containers.hpp"
#include "inject/probes.hpp"
#include "osm/ids.hpp"
#include "osm/inject/injector.hpp"
#include "osm/result.hpp"
#include "osm/values/mesh_config.hpp"

namespace osm::inline v1::inject {

// Which namespaces are in the mesh.
struct MeshMembership {
  std::string mesh_name;
  std::string osm_namespace;
};

// Result: false for pods of the host's network, of Windows, of namespaces outside the mesh, and
// where annotations say so; the pod's own beats its namespace's. Failure: kInvalidField for an
// annotation that is neither enabled nor disabled.
Result<bool> wants_sidecar(const boost::json::object& pod, const InjectionNamespace& ns,
                           const MeshMembership& mesh);

// Whether the namespace's pods are to be scraped. Failure: kInvalidField, as above.
Result<bool> wants_metrics(const InjectionNamespace& ns);

struct PodPatchInput {
  boost::json::object pod;
  std::string ns;  // of the request: the pod itself may lack it
  ProxyId proxy_id;
  std::string hook_key;  // of the paths of lifecycle hooks: nobody can guess it
  const MeshConfig& config;
  ContainerImages images;  // the injector's own; those of `config` go first
  bool native_sidecars = false;
  bool metrics = false;  // the namespace's pods are to be scraped
};

struct PatchedPod {
  boost::json::object pod;
  ServiceAccount account;
  std::vector<Probe> probes;  // and hooks, that its bootstrap has to serve
  std::vector<std::string> warnings;
};

// Failure: kInvalidField naming fields and remedies of the pod; kInvalidArgument: no image.
Result<PatchedPod> patch_pod(PodPatchInput input);

}  // namespace osm::inline v1::inject
