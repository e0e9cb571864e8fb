// Bootstrap of a pod's sidecar, as the content of its Secret. Its proxy certificate is issued at
// admission, and renewed while the pod lives.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "inject/envoy_bootstrap.hpp"
#include "inject/probes.hpp"
#include "model/names.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/inject/injector.hpp"
#include "osm/inject/vm_bootstrap.hpp"
#include "osm/result.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1::inject {

// The files of a proxy with its key, and with what a pod's sidecar has besides `input`: a listener
// for its probes and the controller's address. `osm_namespace`: the controller's.
// `cluster_domain`: the domain of the cluster's DNS. Failure: kInvalidArgument naming the field.
Result<std::vector<BootstrapFile>> pod_bootstrap(EnvoyBootstrap input,
                                                 const std::vector<Probe>& probes,
                                                 const std::string& osm_namespace,
                                                 const std::string& cluster_domain);

// As issue_pod_certificate(), for callers that also make the rest of the Secret.
Result<certificate::CertificatePtr> issue_for_pod(certificate::Manager& manager,
                                                  const TrustDomain& trust_domain,
                                                  const model::ProxyIdentity& proxy,
                                                  std::chrono::seconds validity,
                                                  const certificate::Requester& requester);

// The file of the certificate's key.
BootstrapFile key_file(const certificate::Certificate& certificate);

// Annotations of the Secret that contains the certificate.
std::map<std::string, std::string> annotations_of(const certificate::Certificate& certificate,
                                                  const std::string& trust_bundle_pem,
                                                  const TrustDomains& trust_domain,
                                                  std::chrono::seconds validity);

}  // namespace osm::inline v1::inject
