// Answers proxies' questions about their own certificate: tells if it is current, and certifies a
// request. Identity, workload and limits were checked before (ads).
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "ads/renewals.hpp"
#include "base/strand.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/result.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/values/trust_domains.hpp"
#include "osm/values/workload.hpp"

namespace osm::inline v1::control_plane {

// Lifetime: all outlive it.
struct ProxyRenewalsOptions {
  certificate::Manager& certificates;
  MeshSpec& spec;
  Runtime runtime;  // issuing waits for the CA on `blocking`, one at a time
  // As ControlPlane::trust_domains().
  std::function<TrustDomains()> trust_domains;
  std::function<certificate::Subject(const Workload&)> proxy_subject;
  std::function<Result<certificate::CertificatePtr>(const Workload&, const std::string& request_pem,
                                                    std::chrono::seconds validity,
                                                    const certificate::Requester&)>
      issue;
  // Certificate of the workload itself, by the rules of `issue`.
  std::function<certificate::Subject(const Workload&)> workload_subject{};
  std::function<Result<certificate::CertificatePtr>(const Workload&, const std::string& request_pem,
                                                    std::chrono::seconds validity,
                                                    const certificate::Requester&)>
      issue_workload{};
};

class ProxyRenewals {
 public:
  explicit ProxyRenewals(const ProxyRenewalsOptions& options)
      : options_(options), strand_(options.runtime.blocking) {}
  ~ProxyRenewals() { stop(); }

  // Answers a question at once, and a request when the CA has answered.
  // Thread: one call at a time. Blocking: no.
  void answer(ads::RenewalQuestion question, std::function<void(ads::RenewalAnswer)> done);

  // Ends answering, and waits for a running call of the CA. Idempotent.
  void stop() { strand_.stop(); }

 private:
  using Response = openservicemesh::certificate::v1::RenewCertificateResponse;

  Response describe(const ads::RenewalQuestion& question);
  bool is_current(const ads::Peer& peer, const certificate::Subject& subject);
  std::chrono::seconds proxy_validity() const;
  std::string signing_key_id(const TrustDomain& domain);
  ads::RenewalAnswer certify(const ads::RenewalQuestion& question, Response response);
  Status certify_proxy(const ads::RenewalQuestion& question, Response& response);
  Status certify_workload(const ads::RenewalQuestion& question, Response& response);

  const ProxyRenewalsOptions options_;
  // The signing CA and the id of its key: "" until it has signed something. Used in answer()'s
  // thread.
  std::string signer_;
  std::string signing_key_id_;
  SteadyTime looked_at_{};
  Strand strand_;
};

}  // namespace osm::inline v1::control_plane
