// A pod's proxy certificate: issued at admission, and renewed while the pod lives.
#pragma once

#include <map>
#include <string>

#include "osm/certificate/manager.hpp"
#include "osm/ids.hpp"
#include "osm/inject/injector.hpp"
#include "osm/result.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1::inject {

// As issue_pod_certificate(), for callers that also make the rest of the Secret.
Result<certificate::CertificatePtr> issue_for_pod(certificate::Manager& manager,
                                                  const TrustDomain& trust_domain,
                                                  const ProxyId& proxy,
                                                  const ServiceAccount& account);

// The file of its key.
BootstrapFile key_file(const certificate::Certificate& certificate);

// Annotations of the Secret that contains it.
std::map<std::string, std::string> annotations_of(const certificate::Certificate& certificate,
                                                  const std::string& trust_bundle_pem,
                                                  const TrustDomains& trust_domain);

}  // namespace osm::inline v1::inject
