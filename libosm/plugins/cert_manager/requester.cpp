#include "cert_manager/requester.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/hex.hpp"

namespace osm::inline v1::cert_manager {
namespace {

// cert-manager answers within some ten milliseconds if its CA is local.
constexpr std::chrono::milliseconds kFirstLook{50};
constexpr std::chrono::milliseconds kLastLook{1000};
// No caller waits as long as this, so older requests are abandoned.
constexpr std::chrono::minutes kLeftBehind{10};

std::string name_of(const IssuerRef& issuer, const std::string& ns) {
  std::string name = issuer.kind + ' ';
  if (issuer.kind != "ClusterIssuer") name += ns + '/';
  name += issuer.name;
  return issuer.group == "cert-manager.io" ? name : name + " of " + issuer.group;
}

bool may_pass(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kDeadlineExceeded;
}

}  // namespace

Requester::Requester(const IssuerOptions& options, Sleep sleep)
    : options_(options),
      issuer_name_(name_of(options.issuer, options.osm_namespace)),
      sleep_(std::move(sleep)) {}

Result<Progress> Requester::ask(const certificate::SigningRequest& request) {
  collect_now_and_then();
  const std::string name = new_name();
  // Deletes the request, which may have been created, however this function is left.
  const std::shared_ptr<void> at_end(nullptr, [this, &name](void*) { remove(name); });
  const auto created = kubernetes::create_object(
      options_.cluster, request_kind(),
      request_json(options_.osm_namespace, name, options_.issuer, request));
  if (!created.ok()) return refused_by_server(created.error());
  return wait(name);
}

// The client chooses the name, so that the request can be deleted although the answer was lost.
std::string Requester::new_name() {
  std::array<std::uint8_t, 10> bytes;
  std::lock_guard lock(mutex_);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(options_.runtime.rng.next());
  return "osm-" + hex_of(bytes);
}

Result<Progress> Requester::wait(const std::string& name) const {
  const SteadyTime end = options_.runtime.clock.steady_now() + options_.deadline;
  std::chrono::milliseconds delay = kFirstLook;
  std::string why = "nobody has looked at it: is cert-manager running?";
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - options_.runtime.clock.steady_now());
    if (left <= std::chrono::milliseconds(0)) return late(name, why);
    sleep_(std::min(delay, left));
    delay = std::min(delay * 2, kLastLook);

    const auto got =
        kubernetes::get_object(options_.cluster, request_kind(), options_.osm_namespace, name);
    if (!got.ok() && may_pass(got.error())) {
      why = got.error().message;
      continue;
    }
    if (!got.ok()) return refused_by_server(got.error());
    OSM_TRY(Progress progress, read_progress(*got));
    switch (progress.phase) {
      case Phase::kReady:
        return progress;
      case Phase::kPending:
        why = std::move(progress.why);
        continue;
      case Phase::kDenied:
        return Error{ErrorCode::kPermissionDenied,
                     issuer_name_ + ": the request was denied by an approver (" + progress.why +
                         "); let its policy approve requests of namespace " +
                         options_.osm_namespace};
      case Phase::kInvalid:
        return Error{ErrorCode::kInvalidArgument,
                     issuer_name_ + " does not sign such a request (" + progress.why + ")"};
      case Phase::kFailed:
        return Error{ErrorCode::kUnavailable,
                     issuer_name_ + " failed to sign (" + progress.why +
                         "); `kubectl describe` of the issuer and cert-manager's log say more"};
    }
  }
}

Error Requester::late(const std::string& name, const std::string& why) const {
  return {ErrorCode::kUnavailable,
          issuer_name_ + " did not answer CertificateRequest " + options_.osm_namespace + '/' +
              name + " within " + std::to_string(options_.deadline.count()) + " s (" + why + ")"};
}

Error Requester::refused_by_server(const Error& error) const {
  Error out = error.with_context(issuer_name_);
  if (error.code == ErrorCode::kPermissionDenied)
    out.message +=
        "; let this daemon's ServiceAccount create, get, list and delete "
        "certificaterequests.cert-manager.io in " +
        options_.osm_namespace + " (deploy/kubernetes-cert-manager)";
  if (error.code == ErrorCode::kNotFound) {
    out.code = ErrorCode::kUnavailable;
    out.message +=
        "; either cert-manager is not installed in this cluster, or somebody deletes our requests";
  }
  return out;
}

void Requester::remove(const std::string& name) const {
  const Status removed =
      kubernetes::delete_object(options_.cluster, request_kind(), options_.osm_namespace, name);
  if (!removed.ok() && removed.error().code != ErrorCode::kNotFound)
    options_.runtime.log.debug("a CertificateRequest is left for later",
                               {{"request", name}, {"cause", removed.error().message}});
}

// Deletes requests of processes that were killed while they waited.
void Requester::collect_now_and_then() {
  {
    std::lock_guard lock(mutex_);
    const SteadyTime now = options_.runtime.clock.steady_now();
    if (collected_ && now - *collected_ < kLeftBehind) return;
    collected_ = now;
  }
  const auto old =
      kubernetes::list_older_objects(options_.cluster, request_kind(), options_.osm_namespace,
                                     kLabels, options_.runtime.clock.wall_now() - kLeftBehind);
  if (!old.ok()) {
    options_.runtime.log.debug("CertificateRequests cannot be listed",
                               {{"cause", old.error().message}});
    return;
  }
  for (const std::string& name : *old) remove(name);
  if (!old->empty())
    options_.runtime.log.info("CertificateRequests that were left behind are deleted",
                              {{"count", std::to_string(old->size())}});
}

}  // namespace osm::inline v1::cert_manager
