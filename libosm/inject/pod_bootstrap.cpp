#include "inject/pod_bootstrap.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/digest.hpp"
#include "base/times.hpp"
#include "inject/pod_names.hpp"
#include "inject/refusal.hpp"
#include "model/names.hpp"
#include "osm/certificate/request.hpp"

namespace osm::inline v1::inject {
namespace {

constexpr std::uint16_t kAdsPort = 15128;

// After 7/12 to 2/3 of its time, depending on its fingerprint: certificates that were issued within
// one minute are not all renewed within one minute.
WallTime renew_after(const certificate::Certificate& certificate, std::chrono::seconds validity) {
  const auto times =
      certificate::proxy_certificate_times(certificate.not_before, certificate.not_after, validity);
  const std::chrono::nanoseconds third = times.served_until - times.renew_at;
  const int share = digest_of(certificate.fingerprint).bytes[0];
  return times.renew_at - third / 4 / 256 * share;
}

}  // namespace

Result<std::vector<BootstrapFile>> pod_bootstrap(EnvoyBootstrap input,
                                                 const std::vector<Probe>& probes,
                                                 const std::string& osm_namespace,
                                                 const std::string& cluster_domain) {
  if (input.certificate.private_key.empty()) return invalid("certificate", "has no private key");
  ProbeResources resources = probe_resources(probes);
  input.header = "# Envoy's bootstrap for one pod, written by osm-injector.\n";
  input.controller = {fmt::format("osm-controller.{}.svc.{}", osm_namespace, cluster_domain),
                      kAdsPort};
  input.directory = kBootstrapDirectory;
  input.wait_for_mesh = true;
  input.clusters = std::move(resources.clusters);
  input.listeners = std::move(resources.listeners);
  OSM_TRY(auto files, proxy_files(input));
  files.insert(files.begin(), key_file(input.certificate));
  return files;
}

std::string certificate_source(const std::string& issuer_id, const std::string& trust_bundle_pem,
                               const TrustDomains& trust_domain, std::chrono::seconds validity) {
  DigestBuilder digest;
  // With the form of the identity, so that an upgrade that changes the form renews the
  // certificates.
  const SpiffeId form = model::proxy_spiffe_id(trust_domain.signing, {{}, {}, WorkloadKind::kPod});
  digest.add(issuer_id).add(trust_bundle_pem).add(form.str());
  for (const TrustDomain& accepted : trust_domain.accepted) digest.add(accepted.str());
  digest.add(std::to_string(validity.count()));
  return digest.finish().hex();
}

Result<certificate::CertificatePtr> issue_for_pod(certificate::Manager& manager,
                                                  const TrustDomain& trust_domain,
                                                  const model::ProxyIdentity& proxy,
                                                  std::chrono::seconds validity,
                                                  const certificate::Requester& requester) {
  const certificate::Subject subject{model::pod_common_name(proxy.id, proxy.account.ns),
                                     model::proxy_spiffe_id(trust_domain, proxy),
                                     certificate::Usage::kProxy};
  auto issued =
      manager.issue_certificate(subject, certificate::proxy_certificate_life(validity), requester);
  // Only the Secret keeps the certificate.
  manager.release_certificate(subject.common_name);
  if (!issued.ok()) return issued.error().with_context("the proxy certificate");
  return issued;
}

BootstrapFile key_file(const certificate::Certificate& certificate) {
  return {std::string(kProxyKeyFile), 0600, true, certificate.private_key.pem()};
}

std::map<std::string, std::string> annotations_of(const certificate::Certificate& certificate,
                                                  const std::string& trust_bundle_pem,
                                                  const TrustDomains& trust_domain,
                                                  std::chrono::seconds validity) {
  return {{kCertificateSourceAnnotation,
           certificate_source(certificate.issuer_id, trust_bundle_pem, trust_domain, validity)},
          {kRenewCertificateAfterAnnotation, rfc3339(renew_after(certificate, validity))}};
}

Result<PodCertificate> issue_pod_certificate(certificate::Manager& manager,
                                             const TrustDomains& trust_domain, const ProxyId& proxy,
                                             const ServiceAccount& account,
                                             std::chrono::seconds validity) {
  OSM_TRY(const certificate::CertificatePtr issued,
          issue_for_pod(manager, trust_domain.signing, {proxy, account, WorkloadKind::kPod},
                        validity, {.reason = certificate::IssueReason::kRenewal}));
  const std::string bundle = manager.trust_bundle_pem();
  PodCertificate result{
      certificate_files(*issued, bundle, trust_domain, std::string(kBootstrapDirectory)),
      annotations_of(*issued, bundle, trust_domain, validity)};
  result.files.insert(result.files.begin(), key_file(*issued));
  return result;
}

}  // namespace osm::inline v1::inject
