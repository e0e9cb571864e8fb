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

#include "osm/certificate/manager.hpp"
#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/inject/admission.hpp"
#include "osm/inject/vm_bootstrap.hpp"
#include "osm/log.hpp"
#include "osm/metrics.hpp"
#include "osm/result.hpp"
#include "osm/values/mesh_config.hpp"
#include "osm/values/proxy.hpp"
#include "osm/values/trust_domains.hpp"

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
  std::map<std::string, std::string> annotations;  // of what the proxy certificate is
  std::vector<BootstrapFile> files;                // each is one entry of `data`
};

// On a bootstrap Secret: certificate_source() of its proxy certificate, and when that is to be
// renewed, RFC 3339 in UTC without fractions, whose order as text is that of time.
inline constexpr const char* kCertificateSourceAnnotation = "openservicemesh.io/certificate-source";
inline constexpr const char* kRenewCertificateAfterAnnotation =
    "openservicemesh.io/renew-certificate-after";

// Names a CA (Issuer::id()), and the trust bundle and trust domains that went with what it signed:
// hex, no secret. Failure: none. Thread: any. Blocking: no.
OSM_API std::string certificate_source(const std::string& issuer_id,
                                       const std::string& trust_bundle_pem,
                                       const TrustDomains& trust_domain);

// What of a bootstrap Secret is its pod's proxy certificate.
struct PodCertificate {
  std::vector<BootstrapFile> files;  // the key first: whoever has written it erases it
  std::map<std::string, std::string> annotations;
};

// Issues the proxy certificate of a pod that runs as `account`, with a new key. The manager does
// not keep it. To be renewed after about two thirds of its life, never the same of two.
// Failure: the manager's. Thread: any but an event loop's. Blocking: until the CA answers.
OSM_API Result<PodCertificate> issue_pod_certificate(certificate::Manager& manager,
                                                     const TrustDomains& trust_domain,
                                                     const ProxyId& proxy,
                                                     const ServiceAccount& account);

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

  TrustDomain trust_domain{"cluster.local"};  // the mesh's first: proxies' UUIDs derive from it
  // Those of now, where roots are rotated: RootRotation::trust_domains(). Null: the one above.
  std::function<TrustDomains()> trust_domains{};
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
