#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "cert_manager/requester.hpp"
#include "cert_manager/signer.hpp"
#include "osm/certificate/request.hpp"
#include "osm/notifier.hpp"

namespace osm::inline v1::cert_manager {
namespace {

using certificate::SigningRequest;

// Validity of the discarded first certificate.
constexpr std::chrono::hours kFirstValidity{1};

class CertManagerIssuer final : public certificate::Issuer {
 public:
  CertManagerIssuer(const IssuerOptions& options, const Sleep& sleep)
      : clock_(options.runtime.clock),
        log_(options.runtime.log),
        trust_domain_(options.trust_domain),
        given_bundle_(!options.trust_bundle_pem.empty()),
        requester_(options, sleep),
        bundle_(options.trust_bundle_pem) {}

  // Identifies the CA by its first answer.
  Status start() {
    const certificate::Subject subject{
        .common_name = CommonName("init-cert." + trust_domain_.str()),
        .spiffe_id = SpiffeId("spiffe://" + trust_domain_.str() + "/osm/init-cert"),
        .usage = certificate::Usage::kController};
    OSM_TRY(const auto made, certificate::make_request(subject));
    const SigningRequest request{subject, made.request_pem, kFirstValidity};
    OSM_TRY(const Answer answer, requester_.ask(request));
    if (bundle_.empty()) bundle_ = answer.ca_pem;
    if (bundle_.empty())
      return Error{ErrorCode::kInvalidCertificate,
                   requester_.issuer_name() +
                       " does not say which CA it signs with (status.ca is empty): give the "
                       "root as the trust bundle"};
    if (const Status fits = check(request, answer); !fits.ok())
      return Error{fits.error().code,
                   fits.error().with_context(requester_.issuer_name()).message +
                       (given_bundle_ ? "; give the root that it signs below as the trust bundle"
                                      : "; its status.ca must be a root: put the root into the "
                                        "issuer's chain, or give it as the trust bundle")};
    OSM_TRY(signer_, signer_of(answer));
    log_.info("cert-manager signs for the mesh",
              {{"issuer", requester_.issuer_name()}, {"ca", signer_.fingerprint}});
    return {};
  }

  Result<std::string> sign(const SigningRequest& request) override {
    SigningRequest within = request;
    // No certificate outlives its CA; an expired CA may have been renewed meanwhile.
    const auto left = std::chrono::floor<std::chrono::seconds>(not_after() - clock_.wall_now());
    if (left >= std::chrono::seconds(1)) within.validity = std::min(within.validity, left);
    OSM_TRY(Answer answer, requester_.ask(within));
    OSM_TRY(const Signer signer, signer_of(answer));
    if (!is_known(signer)) OSM_TRY(follow(within, answer, signer));
    return std::move(answer.certificate_pem);
  }

  std::string trust_bundle_pem() const override {
    std::lock_guard lock(mutex_);
    return bundle_;
  }
  std::string id() const override {
    std::lock_guard lock(mutex_);
    return "cert-manager:" + signer_.fingerprint;
  }
  WallTime not_after() const override {
    std::lock_guard lock(mutex_);
    return signer_.not_after;
  }
  Subscription subscribe(std::function<void()> on_change) override {
    return changed_.subscribe(std::move(on_change));
  }

 private:
  Status check(const SigningRequest& request, const Answer& answer) const {
    const std::string bundle = trust_bundle_pem();
    const auto checked = certificate::check_answer(
        {request.subject, request.request_pem, answer.certificate_pem, bundle, request.validity},
        clock_);
    return checked.ok() ? Status() : Status(checked.error());
  }

  Result<Signer> signer_of(const Answer& answer) const {
    const auto signer =
        find_signer(answer.certificate_pem, answer.ca_pem + '\n' + trust_bundle_pem());
    if (!signer.ok()) return signer.error().with_context(requester_.issuer_name());
    return *signer;
  }

  bool is_known(const Signer& signer) const {
    std::lock_guard lock(mutex_);
    return signer.fingerprint == signer_.fingerprint;
  }

  // Another certificate signs. If peers that trust the known bundle accept its certificates (the CA
  // was renewed over its key, or is another one below the root), nothing breaks, and the change is
  // announced.
  Status follow(const SigningRequest& request, const Answer& answer, const Signer& signer) {
    if (const Status fits = check(request, answer); !fits.ok())
      return Error{ErrorCode::kUnavailable,
                   requester_.issuer_name() + " signs with another CA (" + signer.fingerprint +
                       ") than the mesh trusts (" + id().substr(id().find(':') + 1) +
                       "): declare it with a MeshRootCertificate, which rotates to it, or let the "
                       "issuer sign with the former one"};
    {
      std::lock_guard lock(mutex_);
      signer_ = signer;
      if (!given_bundle_ && !answer.ca_pem.empty() &&
          bundle_.find(answer.ca_pem) == std::string::npos)
        bundle_ += (bundle_.ends_with('\n') ? "" : "\n") + answer.ca_pem;
    }
    log_.info("cert-manager's CA was renewed",
              {{"issuer", requester_.issuer_name()}, {"ca", signer.fingerprint}});
    std::lock_guard one_at_a_time(announcing_);
    changed_.notify();
    return {};
  }

  const Clock& clock_;
  LogSink& log_;
  const TrustDomain trust_domain_;
  const bool given_bundle_;
  Requester requester_;
  mutable std::mutex mutex_;
  std::string bundle_;
  Signer signer_{};
  std::mutex announcing_;
  Notifier<> changed_;
};

}  // namespace

Result<std::unique_ptr<certificate::Issuer>> make_issuer(const IssuerOptions& options,
                                                         const Sleep& sleep) {
  auto issuer = std::make_unique<CertManagerIssuer>(options, sleep);
  OSM_TRY(issuer->start());
  return std::unique_ptr<certificate::Issuer>(std::move(issuer));
}

Result<std::unique_ptr<certificate::Issuer>> make_issuer(const IssuerOptions& options) {
  return make_issuer(options,
                     [](std::chrono::nanoseconds time) { std::this_thread::sleep_for(time); });
}

}  // namespace osm::inline v1::cert_manager
