// A pod's proxy certificate: issued at admission, and again for as long as the pod lives.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "osm/certificate/manager.hpp"
#include "osm/ids.hpp"
#include "osm/inject/injector.hpp"
#include "osm/result.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1::inject {

// As issue_pod_certificate(), for who makes the rest of the Secret as well.
Result<certificate::CertificatePtr> issue_for_pod(certificate::Manager& manager,
                                                  const TrustDomain& trust_domain,
                                                  const ProxyId& proxy,
                                                  const ServiceAccount& account);

// Its key.
BootstrapFile key_file(const certificate::Certificate& certificate);

// What the Secret that holds it says of it.
std::map<std::string, std::string> annotations_of(const certificate::Certificate& certificate,
                                                  const TrustDomains& trust_domain);

}  // namespace osm::inline v1::inject
