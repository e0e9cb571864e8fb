// Sidecar injection: the response of a mutating webhook for Pods. The host serves HTTPS, knows the
// namespaces and writes Secrets; osm-injector is such a host.
//
//   auto injector = inject::make_injector({.certificates = *manager, ...});
//   AdmissionAnswer answer = injector->review(request.body);   // POST /mutate-pod-creation
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "osm/certificate/manager.hpp"
#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/inject/admission.hpp"
#include "osm/inject/vm_bootstrap.hpp"
#include "osm/result.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/values/denylist.hpp"
#include "osm/values/mesh_config.hpp"
#include "osm/values/proxy.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1::inject {

// A namespace, as it is now.
struct InjectionNamespace {
  std::string name;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
};

// Bootstrap of an injected pod's sidecar: the content of one Secret, with a private key in it.
struct BootstrapSecret {
  std::string ns;
  std::string name;  // "envoy-bootstrap-config-<uuid>"
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string>
      annotations;                   // source and renewal time of the proxy certificate
  std::vector<BootstrapFile> files;  // each becomes one entry of `data`
};

// Annotations of a bootstrap Secret: certificate_source() of its proxy certificate, and the time to
// renew it. The time is RFC 3339 in UTC without fractions, so that times compare as text.
inline constexpr const char* kCertificateSourceAnnotation = "openservicemesh.io/certificate-source";
inline constexpr const char* kRenewCertificateAfterAnnotation =
    "openservicemesh.io/renew-certificate-after";

// Hex text that identifies a CA (Issuer::id()) together with the trust bundle, the trust domains
// and the validity in effect (MeshConfig's of proxy certificates). It holds no secret. Failure:
// none. Thread: any. Blocking: no.
OSM_API std::string certificate_source(const std::string& issuer_id,
                                       const std::string& trust_bundle_pem,
                                       const TrustDomains& trust_domain,
                                       std::chrono::seconds validity);

// The part of a bootstrap Secret that depends on the pod's proxy certificate.
struct PodCertificate {
  std::vector<BootstrapFile> files;  // the key first; the writer of the Secret erases it
  std::map<std::string, std::string> annotations;
};

// Issues the next proxy certificate of a pod that runs as `account`, with a new key. The manager
// does not keep it. The audit log calls it a renewal. `validity`: MeshConfig's of proxy
// certificates; the renewal time is after about two thirds of it, with jitter. Failure: the
// manager's. Thread: any but an event loop's. Blocking: until the CA answers.
OSM_API Result<PodCertificate> issue_pod_certificate(certificate::Manager& manager,
                                                     const TrustDomains& trust_domain,
                                                     const ProxyId& proxy,
                                                     const ServiceAccount& account,
                                                     std::chrono::seconds validity);

// Bounds of injections that write a Secret; dry runs write none. Bursts of five seconds' worth
// pass. Beyond a bound, a pod is refused with HTTP status 429, and its creator tries again.
struct InjectionLimits {
  std::size_t per_second = 100;
  std::size_t per_second_per_namespace = 20;
  // Secrets whose pod has not come.
  std::size_t waiting_secrets = 5000;
  std::size_t waiting_secrets_per_namespace = 1000;
};

// Number of bootstrap Secrets whose pod has not come.
struct WaitingSecrets {
  std::size_t all = 0;
  std::map<std::string, std::size_t> by_namespace{};

  friend bool operator==(const WaitingSecrets&, const WaitingSecrets&) = default;
};

// Inputs of an injector. Functions are called in review()'s thread, concurrently, and may block
// there. Lifetime: everything borrowed outlives the injector.
struct InjectorOptions {
  certificate::Manager& certificates;
  // A failure refuses the pod: kNotFound, kUnavailable, ...
  std::function<Result<InjectionNamespace>(const std::string& name)> find_namespace;
  // Sidecars resolve the controller's name in its `proxy.cluster_domain`.
  std::function<Result<MeshConfig>()> mesh_config;
  // Pods that run as a denied account are refused. Null: none are.
  std::function<Denials()> denials{};
  // Creates the Secret. If a Secret of that name exists, the result is success: the same request
  // came before.
  std::function<Status(const BootstrapSecret& secret)> write_secret;
  Runtime runtime;
  InjectionLimits limits{};
  // Secrets that the cluster holds, at most ten seconds old; nullopt: not known, and the injector
  // counts each of its own. Must not block. Null: their number has no bound.
  std::function<std::optional<WaitingSecrets>()> waiting_secrets{};

  TrustDomain trust_domain{"cluster.local"};  // the mesh's first one; proxies' UUIDs derive from it
  // The trust domains in effect, if roots are rotated: RootRotation::trust_domains(). Null: the one
  // above.
  std::function<TrustDomains()> trust_domains{};
  std::string mesh_name = "osm";
  std::string osm_namespace = "osm-system";  // the control plane's namespace, never injected
  bool beside_osm_v1 = false;  // OSM v1.2 injects all namespaces but those that have moved here
  std::string version{};       // for the labels on Secrets
  std::string envoy_image{};   // unless MeshConfig has spec.sidecar.envoyImage
  std::string init_container_image{};  // unless it has spec.sidecar.initContainerImage
  std::string image_pull_policy = "IfNotPresent";
  // True while sidecars are to be init containers that go on, which every node must support
  // (Kubernetes 1.29). A pod's annotation takes precedence. Must not block. Null: false.
  std::function<bool()> native_sidecars{};
  // True: the CNI plugin osm-cni of each node installs the interception of pods, and their init
  // container only checks it, without rights.
  bool cni = false;
  XdsVariant xds = XdsVariant::kDelta;
};

class OSM_API Injector {
 public:
  virtual ~Injector() = default;

  // Answers one AdmissionReview. If the pod is to have a sidecar, the injector writes its bootstrap
  // Secret (except in a dry run) and returns a patch. The same request gets the same answer again.
  // Any failure refuses the pod, with a message that says what to do. At most 7 MB, 66 levels and
  // 200,000 values of JSON are read. `client`: the caller's address, for the audit log.
  // Thread: any but an event loop's, concurrently. Blocking: until the CA and the host's functions
  // have answered.
  virtual AdmissionAnswer review(std::string_view body, std::string_view client = {}) = 0;
};

// Failure: none.
OSM_API std::unique_ptr<Injector> make_injector(InjectorOptions options);

}  // namespace osm::inline v1::inject
