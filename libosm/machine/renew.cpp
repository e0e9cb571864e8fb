#include "osm/machine/renew.hpp"

#include <openssl/sha.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "base/backoff.hpp"
#include "base/times.hpp"
#include "machine/proxy_files.hpp"
#include "machine/proxy_user.hpp"
#include "machine/renewal_client.hpp"
#include "machine/workload_files.hpp"
#include "osm/certificate/request.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::machine {
namespace {

constexpr Backoff kRetry{std::chrono::seconds(1), std::chrono::minutes(5)};

std::string sha256(const std::string& text) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

// The controller decides on less.
constexpr std::chrono::seconds kLongestLife =
    certificate::proxy_certificate_life(std::chrono::hours(24 * 365 * 10));

struct Renewed {
  NewProxyFiles files;
  certificate::Certificate certificate;
};

// A new key, certified; `told` is what the controller wants.
Result<Renewed> obtain(const ProxyFiles& files, const RenewalResponse& told,
                       const RenewOptions& options, const Clock& clock) {
  OSM_TRY(const certificate::KeyParameters parameters, key_parameters(told));
  const certificate::Subject subject{CommonName(told.common_name()), SpiffeId(told.spiffe_id()),
                                     certificate::Usage::kProxy};
  OSM_TRY(certificate::KeyAndRequest made, certificate::make_request(subject, parameters));
  RenewalRequest request;
  request.set_trust_bundle_sha256(sha256(files.trust_bundle_pem));
  request.set_request_pem(made.request_pem);
  OSM_TRY(const RenewalResponse answer, ask_controller(files, request, options.timeout));
  OSM_TRY(certificate::Certificate certificate,
          certificate::check_answer({.subject = subject,
                                     .request_pem = made.request_pem,
                                     .chain_pem = answer.certificate_chain_pem(),
                                     .trust_bundle_pem = answer.trust_bundle_pem(),
                                     .validity = kLongestLife},
                                    clock));
  return Renewed{{std::move(made.key), certificate.chain_pem, answer.trust_bundle_pem()},
                 std::move(certificate)};
}

// True if Envoy must know the controller by other names. An older controller does not send any.
bool other_names(const ProxyFiles& files, const RenewalResponse& told) {
  const auto& names = told.controller_spiffe_ids();
  return !names.empty() &&
         !std::equal(names.begin(), names.end(), files.named_ids.begin(), files.named_ids.end());
}

}  // namespace

Result<RenewResult> renew(const RenewOptions& options, const Clock& clock) {
  OSM_TRY(const ProxyFilesLock lock, ProxyFilesLock::take(options.directory));
  OSM_TRY(ProxyFiles files, lock.read());
  if (!options.controller.empty()) files.controller = options.controller;
  if (files.not_after <= clock.wall_now())
    return Error{ErrorCode::kCertificateExpired,
                 options.directory + "/sds_cert.pem ended at " + rfc3339(files.not_after, 3) +
                     ", so it proves nothing any more: run `osm vm bootstrap` for this machine "
                     "again"};
  WallTime not_before = files.not_before;
  RenewResult result{.not_after = files.not_after, .served_until = files.not_after};
  NewProxyFiles fresh;
  // The proxy's user may be unable to reach the directory.
  const std::optional<WorkloadFiles> held = read_workload_files(options.directory);
  WorkloadFiles workload;
  {
    const AsProxyUser user(options.as_proxy_user, files);
    const GrpcScope grpc;
    RenewalRequest question;
    question.set_trust_bundle_sha256(sha256(files.trust_bundle_pem));
    OSM_TRY(const RenewalResponse told, ask_controller(files, question, options.timeout));
    const bool renews = options.force || !told.certificate_current();
    if (!renews) {
      fresh.trust_bundle_pem = told.trust_bundle_pem();
      if (!fresh.trust_bundle_pem.empty())
        result.renewal = Renewal::kTrustBundleReplaced;
      else if (other_names(files, told))
        result.renewal = Renewal::kNamesReplaced;
    } else {
      OSM_TRY(Renewed renewed, obtain(files, told, options, clock));
      fresh = std::move(renewed.files);
      not_before = renewed.certificate.not_before;
      result = {Renewal::kRenewed, renewed.certificate.not_after, renewed.certificate.not_after,
                renewed.certificate.serial_number};
    }
    if (const std::chrono::seconds validity(told.proxy_validity_seconds()); validity.count() > 0)
      result.served_until =
          certificate::proxy_certificate_times(not_before, result.not_after, validity).served_until;
    if (other_names(files, told))
      fresh.controller_ids = {told.controller_spiffe_ids().begin(),
                              told.controller_spiffe_ids().end()};
    if (held) {
      OSM_TRY(workload,
              obtain_workload_files(*held, {files, told, renews, options.timeout}, clock));
    }
  }
  if (result.renewal != Renewal::kCurrent) OSM_TRY(lock.replace(fresh));
  OSM_TRY(const bool wrote, write_workload_files(options.directory, files, workload));
  if (wrote && result.renewal == Renewal::kCurrent)
    result.renewal = Renewal::kWorkloadCertificateReplaced;
  return result;
}

std::chrono::nanoseconds RenewalPace::pause_after(bool succeeded) {
  const std::chrono::nanoseconds pause = every_ - random_part(every_ / 2, rng_);
  failures_ = succeeded ? 0 : failures_ + 1;
  return failures_ > 0 ? std::min(pause, kRetry.delay(failures_, rng_)) : pause;
}

}  // namespace osm::inline v1::machine
