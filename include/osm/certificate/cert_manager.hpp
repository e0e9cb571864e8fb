// cert-manager as the mesh's CA: an Issuer or ClusterIssuer of a Kubernetes cluster signs the
// certificate manager's requests.
//
//   auto issuer = cert_manager::make_issuer({.cluster = **cluster, .issuer = {.name = "osm-ca"},
//                                            .trust_domain = ..., ...});
//
// docs/certificates.md says how to prepare cert-manager.
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

// The signing issuer: spec.issuerRef of a CertificateRequest.
struct IssuerRef {
  std::string name = "osm-ca";
  std::string kind = "Issuer";            // in the requests' namespace; or "ClusterIssuer"
  std::string group = "cert-manager.io";  // an external issuer has its own group
};

// The signing issuer, and the settings of requests to it.
struct IssuerOptions {
  kubernetes::Cluster& cluster;  // these outlive the issuer
  Runtime runtime;
  TrustDomain trust_domain;
  std::string osm_namespace = "osm-system";  // namespace of the requests
  IssuerRef issuer{};
  // The roots, PEM. Empty: the `ca` of the issuer's first answer.
  std::string trust_bundle_pem{};
  std::chrono::seconds deadline{60};  // per request, approval included
};

// Result: an issuer that has signed one certificate, which is discarded, so its CA is known. Every
// request is deleted after its answer or its deadline. Requests of a killed process are deleted by
// any replica when they are ten minutes old.
//
// If the issuer begins to sign with another CA, which peers do not trust, sign() refuses the
// answers (kUnavailable, naming both CAs), and certificates in use stay. A CA that was renewed over
// its key is followed and announced.
//
// Failure: kPermissionDenied (RBAC; an approver that denies), kUnavailable (no cert-manager, not
// approved or signed in time, failed), kInvalidCertificate (an answer without `ca` and no
// configured bundle, or a `ca` that is no root), kInvalidArgument; each with the remedy.
// Thread: any but an event loop's. Blocking: until there is an answer, at most `deadline`.
OSM_API Result<std::unique_ptr<certificate::Issuer>> make_issuer(const IssuerOptions& options);

}  // namespace osm::inline v1::cert_manager
