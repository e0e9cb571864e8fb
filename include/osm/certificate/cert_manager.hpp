// cert-manager as the mesh's CA: an Issuer or ClusterIssuer of a Kubernetes cluster signs what the
// certificate manager asks for.
//
//   auto issuer = cert_manager::make_issuer({.cluster = **cluster, .issuer = {.name = "osm-ca"},
//                                            .trust_domain = ..., ...});
//
// docs/certificates.md has what cert-manager needs.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "osm/certificate/issuer.hpp"
#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/result.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::cert_manager {

// Who signs: spec.issuerRef of a CertificateRequest.
struct IssuerRef {
  std::string name = "osm-ca";
  std::string kind = "Issuer";            // of the requests' namespace; or "ClusterIssuer"
  std::string group = "cert-manager.io";  // of an external issuer: its own
};

// Which issuer signs, and what it is asked with.
struct IssuerOptions {
  kubernetes::Cluster& cluster;  // these outlive the issuer
  Runtime runtime;
  TrustDomain trust_domain;
  std::string osm_namespace = "osm-system";  // where requests are made
  IssuerRef issuer{};
  // The roots, PEM. Empty: the `ca` of the issuer's first answer.
  std::string trust_bundle_pem{};
  std::chrono::seconds deadline{60};  // of each request, approval included
};

// Result: an issuer that has been asked once, for a certificate that is thrown away: so it knows
// which CA signs. Every request is deleted when it was answered, and when it was not; what a killed
// process left behind is deleted by whoever looks next, ten minutes old.
//
// Should the issuer begin to sign with another CA, which peers do not trust, sign() refuses what it
// answers (kUnavailable, naming both) and certificates in use stay; a CA that was renewed over its
// key is followed and announced.
// Failure: kPermissionDenied (RBAC; an approver that denies), kUnavailable (no cert-manager, not
// approved or signed in time, failed), kInvalidCertificate (an answer without `ca` where there is
// no bundle, or with a `ca` that is no root), kInvalidArgument; each with the remedy. Thread: any
// but an event loop's. Blocking: until there is an answer, `deadline` at most.
OSM_API Result<std::unique_ptr<certificate::Issuer>> make_issuer(const IssuerOptions& options);

}  // namespace osm::inline v1::cert_manager
