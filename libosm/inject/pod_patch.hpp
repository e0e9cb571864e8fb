// Decides if a pod gets a sidecar, and patches it. Pure.
//
// A sidecar that the pod has already (a copy by kubectl debug, a backup, a repeated webhook call)
// is removed first. So nothing is there twice, a copy has its own UUID, and no pod can bring its
// own sidecar.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "inject/pod_containers.hpp"
#include "inject/probes.hpp"
#include "osm/ids.hpp"
#include "osm/inject/injector.hpp"
#include "osm/result.hpp"
#include "osm/values/mesh_config.hpp"

namespace osm::inline v1::inject {

// Membership of namespaces in the mesh. A namespace that is labelled `openservicemesh.io/ignore`
// gets no sidecars, unless the value says that it has moved here from OSM v1.2.
struct MeshMembership {
  std::string mesh_name;
  std::string osm_namespace;
  bool beside_osm_v1 = false;  // true: moved namespaces only; OSM v1.2 injects the others
};

struct SidecarDecision {
  bool wanted = false;
  // Why a pod that is to have a sidecar gets none; empty: nothing to tell its author.
  std::string warning{};
};

// Wanted in namespaces of the mesh, where annotations say so; the pod's annotation takes precedence
// over its namespace's. Pods of the host's network and Windows pods get a warning instead.
// Failure: kInvalidField for an annotation that is neither enabled nor disabled.
Result<SidecarDecision> wants_sidecar(const boost::json::object& pod, const InjectionNamespace& ns,
                                      const MeshMembership& mesh);

// True if the namespace's pods are to be scraped. Failure: kInvalidField, as above.
Result<bool> wants_metrics(const InjectionNamespace& ns);

struct PodPatchInput {
  boost::json::object pod;
  std::string ns;  // namespace of the request; the pod itself may lack it
  ProxyId proxy_id;
  std::string hook_key;  // part of the paths of lifecycle hooks; cannot be guessed
  const MeshConfig& config;
  ContainerImages images;        // the injector's default images; those of `config` take precedence
  bool native_sidecars = false;  // unless the pod's annotation says otherwise
  bool cni = false;              // true: a CNI plugin installs the interception
  bool metrics = false;          // true: the namespace's pods are to be scraped
};

struct PatchedPod {
  boost::json::object pod;
  ServiceAccount account;
  std::vector<Probe> probes;  // probes and hooks that its bootstrap has to serve
  std::vector<std::string> warnings;
};

// Failure: kInvalidField naming the pod's fields and remedies; kInvalidArgument: no image.
Result<PatchedPod> patch_pod(PodPatchInput input);

}  // namespace osm::inline v1::inject
