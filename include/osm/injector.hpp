// Sidecar injection: what a mutating webhook for Pods answers. The host serves HTTPS, knows the
// namespaces and writes Secrets; osm-injector is such a host.
//
//   auto injector = inject::make_injector({.certificates = *manager, ...});
//   AdmissionAnswer answer = injector->review(request.body);   // POST /mutate-pod-creation
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "osm/admission.hpp"
#include "osm/api.hpp"
#include "osm/certificate.hpp"
#include "osm/clock.hpp"
#include "osm/ids.hpp"
#include "osm/log.hpp"
#include "osm/mesh_config.hpp"
#include "osm/metrics.hpp"
#include "osm/proxy.hpp"
#include "osm/result.hpp"
#include "osm/vm_bootstrap.hpp"

namespace osm::inline v1::inject {

// A namespace as it is now.
struct InjectionNamespace {
  std::string name;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
};

// What an injected pod's sidecar starts with: the content of one Secret, a key among it.
struct BootstrapSecret {
  std::string ns;
  std::string name;  // "envoy-bootstrap-config-<uuid>"
  std::map<std::string, std::string> labels;
  std::vector<BootstrapFile> files;  // each is one entry of `data`
};

// What an injector is made of. Functions are called in review()'s thread, concurrently, and may
// block there; what is borrowed outlives the injector.
struct InjectorOptions {
  certificate::Manager& certificates;
  // Failure refuses the pod: kNotFound, kUnavailable, ...
  std::function<Result<InjectionNamespace>(const std::string& name)> find_namespace;
  std::function<Result<MeshConfig>()> mesh_config;
  // Creates it. One of that name that is there is success: the same request was asked before.
  std::function<Status(const BootstrapSecret& secret)> write_secret;
  const Clock& clock;
  LogSink& log;
  MetricsSink& metrics;

  TrustDomain trust_domain{"cluster.local"};
  std::string mesh_name = "osm";
  std::string osm_namespace = "osm-system";  // the control plane's: never injected, and where it is
  std::string version{};                     // of the labels on Secrets
  std::string envoy_image{};                 // unless MeshConfig has spec.sidecar.envoyImage
  std::string init_container_image{};        // unless it has spec.sidecar.initContainerImage
  std::string image_pull_policy = "IfNotPresent";
  bool native_sidecars = false;  // the API server is 1.29 or newer
  XdsVariant xds = XdsVariant::kDelta;
};

class OSM_API Injector {
 public:
  virtual ~Injector() = default;

  // Answers one AdmissionReview. A pod that is to have a sidecar gets a patch, and its bootstrap
  // Secret is written first, unless it is a dry run; the same request asked again gets the same
  // answer. Any failure refuses the pod with a message that says what to mend. At most 7 MB, 66
  // levels and 200,000 values of JSON are read.
  // Thread: any but an event loop's, concurrently. Blocking: until the CA and the host's functions
  // have answered.
  virtual AdmissionAnswer review(std::string_view body) = 0;
};

// Failure: none.
OSM_API std::unique_ptr<Injector> make_injector(InjectorOptions options);

}  // namespace osm::inline v1::inject
