#include "ads/admission.hpp"

#include <algorithm>
#include <utility>

#include "ads/metrics.hpp"
#include "osm/certificate/request.hpp"

namespace osm::inline v1::ads {
namespace {

constexpr Gauge kProxyConnectCount{"osm_proxy_connect_count", "Proxies connected now"};

constexpr const char* kSuperseded = "superseded: a newer stream uses this proxy certificate";
constexpr const char* kServedLongEnough =
    "the proxy certificate may only renew itself now: run `osm vm renew` on the machine; a pod "
    "gets another one in its Secret";

}  // namespace

Result<std::shared_ptr<const model::WorkloadEntry>> Admission::workload_of(const Peer& peer) const {
  if (peer.not_after <= deps_.runtime.clock.wall_now())
    return Error{ErrorCode::kCertificateExpired,
                 "the proxy certificate has ended; issue a new one (osm vm bootstrap)"};
  if (!snapshot_) return Error{ErrorCode::kNotReady, "the mesh is not known yet; try again"};
  const model::ProxyIdentity& who = peer.identity;
  auto workload = snapshot_->workloads.find(peer.key());
  if (!workload)
    return Error{ErrorCode::kUnknownProxy,
                 std::string("no ") + (who.kind == WorkloadKind::kPod ? "pod" : "machine") +
                     " in namespace " + who.account.ns + " has proxy UUID " + who.id.str()};
  if (workload->workload.account != who.account)
    return Error{ErrorCode::kIdentityMismatch,
                 "the certificate is for account " + who.account.str() + ", workload " +
                     workload->workload.name.str() + " runs as " +
                     workload->workload.account.str() + "; issue a new proxy certificate"};
  if (!workload->denied.empty())
    return Error{ErrorCode::kPermissionDenied,
                 workload->workload.name.str() + " may not be served: " + workload->denied};
  return workload;
}

Admission::Verdict Admission::judge(const Peer& peer) const {
  const auto refuse = [](const Error& why) {
    return Verdict{Verdict::kRefuse, close_code(why.code), why.text(), {}};
  };
  auto workload = workload_of(peer);
  if (!workload) {
    Verdict verdict = refuse(workload.error());
    if (workload.error().code == ErrorCode::kUnknownProxy) verdict.what = Verdict::kWait;
    return verdict;
  }
  if (served_until(peer) <= deps_.runtime.clock.wall_now())
    return refuse({ErrorCode::kCertificateExpired, kServedLongEnough});
  if (full_ && !deps_.streams.serving().contains(peer.key())) {
    deps_.runtime.metrics.add(kProxyMaxConnectionsRejected, {}, 1);
    Verdict verdict = refuse(
        {ErrorCode::kUnavailable,
         "this replica serves " + std::to_string(deps_.streams.serving().size()) +
             " proxies; MeshConfig spec.sidecar.maxDataPlaneConnections allows no more: raise it, "
             "or add replicas"});
    verdict.code = CloseCode::kResourceExhausted;
    return verdict;
  }
  return Verdict{Verdict::kServe, {}, {}, *std::move(workload)};
}

bool Admission::admit(Stream& stream) {
  Verdict verdict = judge(stream.peer);
  const auto pause = memory_.pause(stream.key(), deps_.runtime.clock.steady_now());
  if (verdict.what == Verdict::kServe && pause > pause.zero()) {
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(pause).count();
    const Error why{ErrorCode::kUnavailable,
                    "it named far more resources than its configuration has; try again in " +
                        std::to_string(seconds) + " s"};
    verdict = {Verdict::kRefuse, CloseCode::kResourceExhausted, why.text(), {}};
  }
  if (verdict.what == Verdict::kRefuse) {
    deps_.close(stream.id, verdict.code, verdict.text, false);
  } else if (verdict.what == Verdict::kServe) {
    stream.wait.reset();
    supersede(stream);
    deps_.streams.set_workload(stream, std::move(verdict.workload));
    deps_.streams.serve(stream);
    return true;
  } else if (!stream.wait) {
    for (StreamId id : deps_.streams.wait(stream))
      deps_.close(id, CloseCode::kAborted, kSuperseded, false);
    stream.wait = deps_.strand.post_after(
        deps_.unknown_workload_wait,
        [this, id = stream.id, verdict] { deps_.close(id, verdict.code, verdict.text, false); });
  }
  return false;
}

bool Admission::keep(Stream& stream) {
  Verdict verdict = judge(stream.peer);
  const bool serves = verdict.what == Verdict::kServe;
  if (serves)
    deps_.streams.set_workload(stream, std::move(verdict.workload));
  else
    deps_.close(stream.id, verdict.code, verdict.text, false);
  return serves;
}

void Admission::supersede(const Stream& newer) {
  for (const StreamId id : deps_.streams.supersede(newer)) {
    const Stream* older = deps_.streams.find(id);
    if (!older) continue;
    // A write in flight to a half-dead connection would hold the status back.
    const bool cut = older->write_started.has_value();
    deps_.close(id, CloseCode::kAborted, kSuperseded, cut);
  }
}

void Admission::on_snapshot(std::shared_ptr<const model::MeshSnapshot> snapshot) {
  snapshot_ = std::move(snapshot);
  note_serving();
}

void Admission::note_serving() {
  const std::size_t most = snapshot_->config.max_proxies;
  full_ = most != 0 && deps_.streams.serving().size() >= most;
  deps_.runtime.metrics.set(kProxyConnectCount, {}, deps_.streams.serving().size());
}

void Admission::accept(std::vector<TrustDomain> domains) {
  accepted_domains_ = std::move(domains);
  std::vector<StreamId> others;
  for (const auto& [id, stream] : deps_.streams)
    if (std::ranges::find(accepted_domains_, stream.peer.trust_domain) == accepted_domains_.end())
      others.push_back(id);
  for (StreamId id : others)
    deps_.close(
        id, CloseCode::kPermissionDenied,
        "wrong-certificate-kind: its trust domain is none of the mesh's any more; issue a new one",
        false);
}

WallTime Admission::served_until(const Peer& peer) const {
  // Asked for every stream each second: do not copy the MeshConfig.
  const auto validity = snapshot_ ? snapshot_->config.certificates.proxy_validity
                                  : CertificateSettings().proxy_validity;
  return certificate::proxy_certificate_times(peer.not_before, peer.not_after, validity)
      .served_until;
}

}  // namespace osm::inline v1::ads
