// The hub's answers about its proxies: the generation of which each stream holds everything, its
// certificates, its state; members of Hub.
//
// A settled stream holds everything that its class holds, so it is as far as its class, and a
// generation that does not touch the class costs nothing. When the class gets other content, the
// stream records how far it was.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "ads/hub.hpp"
#include "base/maps.hpp"

namespace osm::inline v1::ads {
namespace {

constexpr Histogram kPropagation{"osm_propagation_seconds",
                                 "Seconds from a change until a proxy has acknowledged it"};

}  // namespace

std::uint64_t Hub::applied(const Stream& stream) const {
  return std::max(stream.applied, reached(stream, classes_.generation_of(*stream.proxy_class)));
}

// The oldest of what it holds of each type; its class is at `generation`. A type that does not
// concern it holds nothing back.
std::uint64_t Hub::reached(const Stream& stream, std::uint64_t generation) const {
  if (!stream.whole) return 0;
  for (XdsType type : kXdsTypes) {
    const Stream::Step& step = stream.steps[index_of(type)];
    if (step.kept || !stream.session->subscribed(type)) continue;
    generation = std::min(generation, std::max(step.left, stream.session->confirmed(type)));
  }
  return generation;
}

// The stream is about to get other content; its present content was current until `generation`.
void Hub::unsettle(Stream& stream, std::uint64_t generation) {
  stream.applied = std::max(stream.applied, reached(stream, generation));
  stream.settled = false;
}

// The same for one type, after unsettle().
void Hub::leave(Stream& stream, XdsType type, std::uint64_t generation) {
  Stream::Step& step = stream.steps[index_of(type)];
  if (std::exchange(step.kept, false)) step.left = generation;
}

// Changes may come faster than a proxy acknowledges them, so that it never holds the newest ones.
void Hub::note_acknowledged(Stream& stream) {
  if (trials_.on_trial(stream) || !stream.proxy_class->ready()) return;
  stream.whole = is_whole(stream);
  const std::uint64_t before = stream.applied;
  stream.applied = applied(stream);
  stream.progressed |= stream.applied > before;
  note_ready(stream);
  observe_change(stream);
}

void Hub::tell_progress(Stream& stream) {
  if (!std::exchange(stream.progressed, false)) return;
  const model::ProxyKey key = stream.key();
  progressed_.notify(&key);
}

// The class of the stream has a change that was announced at `since`; max(): it has none.
void Hub::note_change(Stream& stream, SteadyTime since) {
  if (since == SteadyTime::max()) return;
  Stream::PendingChange& change =
      stream.change.since == SteadyTime::max() ? stream.change : stream.later_changes;
  change.since = std::min(change.since, since);
  change.generation = snapshot_->generation;
}

void Hub::observe_change(Stream& stream) {
  if (stream.change.since == SteadyTime::max() || stream.applied < stream.change.generation) return;
  deps_.runtime.metrics.observe(kPropagation, {},
                                deps_.runtime.clock.steady_now() - stream.change.since);
  stream.change = std::exchange(stream.later_changes, {});
}

// The stream is as far as its class without a new response.
void Hub::on_class_unchanged(const ProxyClassPtr& entry) {
  for (StreamId id : entry->members()) {
    Stream* stream = streams_.find(id);
    if (!stream) continue;
    if (!trials_.on_trial(*stream)) note_ready(*stream);
    if (!stream->settled) continue;
    const model::ProxyKey key = stream->key();
    progressed_.notify(&key);
  }
  trials_.release();
}

// No response is due for the stream.
void Hub::note_settled(Stream& stream) {
  const bool of_class = !trials_.on_trial(stream) && stream.proxy_class->ready();
  if (of_class) {
    stream.whole = is_whole(stream);
    for (XdsType type : kXdsTypes)
      if (stream.session->at_rest(type)) stream.steps[index_of(type)].kept = true;
  }
  if (of_class) note_ready(stream);
  if (!stream.session->settled()) return;
  if (!stream.settled && of_class && stream.whole) stream.settled = stream.progressed = true;
  stream.given_at.reset();
  stream.change.since = std::min(stream.change.since, stream.later_changes.since);
  stream.change.generation = 0;
  stream.later_changes = {};
  observe_change(stream);
}

// A proxy asks for listeners when its clusters are warm, and for routes when it has listeners. So a
// proxy that answered everything may not have asked for everything yet. The check is repeated only
// after other clusters or listeners were sent.
bool Hub::is_whole(Stream& stream) const {
  const ResourceSetPtr clusters = stream.session->acknowledged(XdsType::kCluster);
  const ResourceSetPtr listeners = stream.session->acknowledged(XdsType::kListener);
  // A gRPC library that is only a server has no clusters.
  if (streams_.is_library(stream))
    return listeners && holds_what_listeners_name(*stream.session) &&
           (!clusters || holds_what_clusters_name(*stream.session));
  if (!clusters || !listeners) return false;
  if (clusters == stream.whole_clusters && listeners == stream.whole_listeners) return true;
  if (!holds_what_clusters_name(*stream.session) || !holds_what_listeners_name(*stream.session))
    return false;
  stream.whole_clusters = clusters;
  stream.whole_listeners = listeners;
  return true;
}

std::vector<ProxyProgress> Hub::progress(const std::vector<model::ProxyKey>& proxies) const {
  std::vector<ProxyProgress> out;
  for (const model::ProxyKey& key : proxies) {
    const std::vector<StreamId> ids = streams_.served(key);
    if (ids.empty()) {
      // It still has resources that it will be told to remove.
      if (endings_.returning().contains(key)) out.push_back({key, 0, false, {}});
      continue;
    }
    ProxyProgress& one = out.emplace_back();
    one.proxy = key;
    one.generation = applied(streams_.at(ids.front()));
    for (const StreamId id : ids) {
      const Stream& stream = streams_.at(id);
      one.generation = std::min(one.generation, applied(stream));
      if (stream.settled) continue;
      for (XdsType type : kXdsTypes) {
        ProxyTypeState state = stream.session->state(type);
        if (state.state != SyncState::kStale) continue;
        one.refused = true;
        one.detail = std::move(state.nack_detail);
      }
    }
  }
  return out;
}

std::vector<ReportedProxy> Hub::report() const {
  std::set<model::ProxyKey> keys;
  for (const auto& [key, id] : streams_.serving()) keys.insert(key);
  for (const auto& [key, since] : endings_.returning()) keys.insert(key);
  std::vector<ReportedProxy> out;
  for (ProxyProgress& one : progress({keys.begin(), keys.end()})) {
    const Stream* stream = streams_.serving(one.proxy);
    out.push_back({std::move(one), stream ? std::optional(view(*stream).proxy) : std::nullopt});
  }
  return out;
}

// --- certificates, as root rotation asks for them ---

// A proxy's content may come from a previous replica that knew fewer trust domains.
void Hub::note_domains(const model::MeshSnapshot* before) {
  const auto& accepted = snapshot_->accepted_domains;
  const auto& allowed = snapshot_->allowed_domains;
  const bool others =
      before ? before->accepted_domains != accepted || before->allowed_domains != allowed
             : accepted.size() > 1 || allowed.size() > 1;
  if (others) domains_changed_ = snapshot_->generation;
}

// True if it applied configuration that names the peers of `domains`.
bool Hub::has_domains(const Stream& stream, const TrustDomains& domains) const {
  return snapshot_->accepted_domains == domains.accepted &&
         snapshot_->allowed_domains == domains.allowed && applied(stream) >= domains_changed_ &&
         !stream.proxy_class->may_freeze();
}

model::CertificateProgress Hub::certificate_progress(const model::CertificateGoal& goal) const {
  const Digest bundle = digest_of(goal.trust_bundle_pem);
  model::CertificateProgress progress;
  progress.known = snapshot_ != nullptr;
  if (!progress.known) return progress;
  progress.workloads = snapshot_->workloads;
  progress.proxies.reserve(streams_.serving().size());
  for (const auto& [key, id] : streams_.serving()) {
    const Stream& stream = streams_.at(id);
    const SecretFacts* facts = classes_.secret_facts(stream.proxy_class->proxy_class().identity);
    // A proxy that has not asked for secrets may hold some from before, until its whole content is
    // known.
    const bool holds_none = stream.settled && stream.session->state(XdsType::kSecret).state ==
                                                  SyncState::kNotSubscribed;
    const bool newest = facts && (holds_none || stream.session->holds_newest(XdsType::kSecret));
    const bool trusts =
        newest && classes_.trust_bundle() == bundle && has_domains(stream, goal.trust_domains);
    const TrustDomain& signing = goal.trust_domains.signing;
    const bool of_signer =
        newest && facts->issuer_id == goal.issuer_id && facts->trust_domain == signing &&
        stream.peer.issuer_key_id == goal.issuer_key_id && stream.peer.trust_domain == signing;
    progress.proxies.emplace_back(key, model::CertificateLag{!trusts, !of_signer});
  }
  return progress;
}

// --- views ---

Hub::View Hub::view(const Stream& stream) const {
  View view;
  view.proxy.id = stream.key().id;
  view.proxy.common_name = stream.peer.common_name;
  view.proxy.identity = identity_of(stream.peer.identity.account);
  view.proxy.workload = stream.workload->workload.name;
  view.proxy.kind = stream.peer.identity.kind;
  view.proxy.services = stream.workload->workload.services;
  view.proxy.peer_address = stream.peer.address;
  view.proxy.connected_at = stream.connected_at;
  view.proxy.certificate_not_after = stream.peer.not_after;
  view.proxy.certificate_served_until = admission_.served_until(stream.peer);
  view.proxy.xds = stream.session->variant();
  for (XdsType type : kXdsTypes) {
    view.proxy.types[index_of(type)] = stream.session->state(type);
    view.sent[index_of(type)] = stream.session->sent(type);
    view.acknowledged[index_of(type)] = stream.session->acknowledged(type);
  }
  view.updated = stream.updated;
  return view;
}

std::vector<Proxy> Hub::list() const {
  std::vector<Proxy> proxies;
  for (const auto& [key, id] : streams_.serving()) proxies.push_back(view(streams_.at(id)).proxy);
  std::sort(proxies.begin(), proxies.end(),
            [](const Proxy& a, const Proxy& b) { return a.workload < b.workload; });
  return proxies;
}

std::vector<Hub::View> Hub::find(const std::string& name) const {
  std::vector<View> views;
  for (const auto& [key, id] : streams_.serving()) {
    const Stream& stream = streams_.at(id);
    const WorkloadName& workload = stream.workload->workload.name;
    if (key.id.str() == name || workload.str() == name || workload.name == name)
      views.push_back(view(stream));
  }
  return views;
}

void Hub::check_certificate(Stream& stream, WallTime now, std::vector<StreamId>& expired) {
  const Peer& peer = stream.peer;
  const WallTime end = admission_.served_until(peer);
  if (now >= end) expired.push_back(stream.id);
  if (stream.warned || end - now > (end - peer.not_before) / 5) return;
  stream.warned = true;
  say(LogLevel::kWarning,
      "a proxy certificate expires soon; issue a new one before its stream is closed", stream,
      {{"code", "certificate-ending"},
       {"seconds_left",
        std::to_string(std::chrono::duration_cast<std::chrono::seconds>(end - now).count())}});
}

}  // namespace osm::inline v1::ads
