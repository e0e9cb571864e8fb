#include "ads/session.hpp"

#include <algorithm>
#include <utility>

namespace osm::inline v1::ads {

NameSet references(const std::vector<EncodedPtr>& resources, XdsType type) {
  NameSet names;
  for (const EncodedPtr& resource : resources)
    for (const auto& reference : resource->references)
      if (reference.type == type) names.push_back(reference.name);
  return ordered(std::move(names));
}

// --- messages of the proxy ---

Result<Session::Heard> Session::on_message(std::string_view bytes) {
  const auto about = [this](const auto& request) {
    Heard heard{{}, request.type_url, xds_type_of(request.type_url), request.error, {}};
    if (heard.type) heard.sent_at = state(*heard.type).sent_at;
    return heard;
  };
  if (variant_ == XdsVariant::kDelta) {
    OSM_TRY(const DeltaRequest request, parse_delta_request(bytes));
    Heard heard = about(request);
    OSM_TRY(heard.effect, on_request(request));
    return heard;
  }
  OSM_TRY(const Request request, parse_request(bytes));
  Heard heard = about(request);
  heard.effect = on_request(request);
  return heard;
}

// The first request of a type counts as first, whatever its nonce: nonces of earlier streams have
// no meaning here.
void Session::begin(XdsType type, Claim claim) {
  TypeState& s = of(type);
  const Doubt& doubt = doubts_[index_of(type)];
  s.subscribed = true;
  s.names = pool_.intern(NameSet());
  s.uncertain = doubt.unsure;
  s.leftovers = doubt.unclaimed;
  if (doubt.unsure) {
    for (const auto& [name, version] : claim.versions) s.leftovers.push_back(name);
    s.leftovers = ordered(std::move(s.leftovers));
  } else if (!claim.version.empty() || !claim.versions.empty()) {
    s.claim = std::move(claim);
  }
}

// A proxy forgets resources that it no longer subscribes to; if it subscribes again, they must be
// sent again.
void Session::keep_only_subscribed(TypeState& s) {
  if (s.wildcard) return;
  for (ResourceSetPtr* set : {&s.delivered, &s.sent, &s.acked, &s.good, &s.lingering})
    if (*set) *set = only(*set, *s.names);
  if (s.names->empty()) s.uncertain = false;
}

void Session::on_ack(XdsType type) {
  TypeState& s = of(type);
  s.awaiting = false;
  if (type == XdsType::kCluster) NameSet().swap(warming_);
  s.acked = s.sent;
  s.uncertain = std::exchange(s.overtaken_nack, false);
  if (s.uncertain) {
    s.delivered = nullptr;
    NameSet accepted;
    for (const Responded& part : s.responded) accepted.push_back(part.resource->name);
    s.acked = without(s.sent, minus(s.unanswered, accepted));
    s.leftovers = joined(s.leftovers, s.unanswered);
  }
  NameSet().swap(s.unanswered);  // `= {}` would keep the memory
  std::vector<Responded>().swap(s.responded);
  if (s.base) end_refusals(s);
  if (withheld(type)) {
    if (variant_ == XdsVariant::kSotw) s.good = s.acked;
  } else {
    s.good = nullptr;
    s.refused_base.clear();
    s.refusals.clear();
    s.nack_detail.clear();
  }
}

void Session::on_nack(XdsType type, std::string_view detail) {
  TypeState& s = of(type);
  if (type == XdsType::kCluster) NameSet().swap(warming_);
  variant_ == XdsVariant::kDelta ? refuse_delta(type) : refuse_sotw(type);
  s.nack_detail = detail.empty() ? "refused without a reason" : std::string(detail);
  s.awaiting = s.overtaken_nack = false;
  s.uncertain = true;
}

// A response before the last one was refused, and parts of it are applied: the proxy's content is
// unknown. Do not send it again at once: answers that are still on their way would be taken for
// answers to it.
void Session::on_overtaken_nack(XdsType type) {
  of(type).overtaken_nack = true;
  if (type == XdsType::kCluster)
    of(XdsType::kSecret).delivered = of(XdsType::kEndpoint).delivered = nullptr;
  if (type == XdsType::kListener)
    of(XdsType::kSecret).delivered = of(XdsType::kRoute).delivered = nullptr;
}

// --- responses ---

void Session::set_resources(const ResourceSets& sets) {
  for (XdsType type : kXdsTypes) of(type).base = sets[index_of(type)];
}

std::optional<Response> Session::next_response(SteadyTime now) {
  if (writing_) return std::nullopt;
  for (XdsType type : {XdsType::kCluster, XdsType::kListener, XdsType::kSecret, XdsType::kEndpoint,
                       XdsType::kRoute}) {
    if (!of(type).claim || !of(type).base) continue;
    variant_ == XdsVariant::kDelta ? judge_delta(type) : judge_sotw(type);
  }
  for (XdsType type : kXdsTypes)
    if (auto response = due(type, now)) return response;
  return std::nullopt;
}

std::optional<Response> Session::due(XdsType type, SteadyTime now) {
  TypeState& s = of(type);
  if (!s.subscribed || !s.base) return std::nullopt;
  const ResourceSetPtr goal = held_back(type, target(type, now), now);
  if (!goal) return std::nullopt;
  return variant_ == XdsVariant::kDelta ? due_delta(type, goal, now) : due_sotw(type, goal, now);
}

Response Session::respond(XdsType type, const ResourceSetPtr& goal,
                          std::vector<EncodedPtr> resources, SteadyTime now) {
  TypeState& s = of(type);
  undeliver_dependants(type, *goal);
  s.responded.clear();
  if (!refused_as_a_whole(type))
    for (const EncodedPtr& resource : resources)
      // A kept resource that left the mesh was accepted before, so it cannot be the refused one.
      if (const EncodedPtr input = s.base->find(resource->name))
        s.responded.push_back({resource, input->hash});
  if (type == XdsType::kCluster) note_warming(*goal);
  if (type == XdsType::kRoute && s.sent)
    s.lingering =
        filtered(merged(s.lingering ? s.lingering : ResourceSet::none(), s.sent->resources()),
                 [&](const EncodedResource& route) { return !goal->find(route.name); });
  s.asked = false;
  s.awaiting = writing_ = true;
  s.sent = s.delivered = goal;
  s.sent_base = s.base->version();
  s.announced = goal->version();
  s.nonce = std::to_string(++last_nonce_);
  s.sent_at = now;
  return Response{type, s.announced, s.nonce, std::move(resources), variant_, {}};
}

// Resources that the proxy will wait for again because of this response. In SotW Envoy requests
// them with a message that looks like an ACK, or drops and renews a subscription between two
// requests. In delta it requests what it renews, but not the endpoints of a changed cluster. So
// they count as undelivered and follow at once.
void Session::undeliver_dependants(XdsType type, const ResourceSet& goal) {
  if (!is_whole(type)) return;
  const ResourceSetPtr& before = of(type).delivered;
  undeliver(XdsType::kEndpoint, references(changed(before, goal), XdsType::kEndpoint));
  if (variant_ == XdsVariant::kDelta) return;
  // Routes and secrets survive a change of the resources that name them, but not a time without
  // any.
  for (XdsType dependent : {XdsType::kSecret, XdsType::kRoute}) {
    NameSet then;
    // Clusters and listeners share their secrets: the proxy does not request again secrets that the
    // other type holds.
    for (const ResourceSetPtr& held :
         {before, of(type == XdsType::kCluster ? XdsType::kListener : XdsType::kCluster).delivered})
      if (held) then = joined(then, references(held->resources(), dependent));
    undeliver(dependent, minus(references(goal.resources(), dependent), then));
  }
}

void Session::undeliver(XdsType type, const NameSet& names) {
  TypeState& s = of(type);
  if (names.empty()) return;
  if (s.delivered) s.delivered = without(s.delivered, names);
  const bool unheard = !s.subscribed || s.claim;
  if (variant_ == XdsVariant::kDelta && unheard) rewarmed_ = joined(rewarmed_, names);
}

// --- reports ---

std::optional<SteadyTime> Session::deadline() const {
  std::optional<SteadyTime> first;
  const auto consider = [&](const std::optional<SteadyTime>& since, std::chrono::seconds bound) {
    if (since && (!first || *since + bound < *first)) first = *since + bound;
  };
  consider(expanded_since_, kExpandedBound);
  for (const TypeState& s : types_) consider(s.held_since, kWarmingBound);
  return first;
}

ProxyTypeState Session::state(XdsType type) const {
  const TypeState& s = of(type);
  ProxyTypeState state;
  if (!s.subscribed || (!s.wildcard && s.names->empty())) return state;
  state.state = withheld(type) ? SyncState::kStale
                : awaits(s)    ? SyncState::kPending
                : s.sent       ? SyncState::kSynced
                               : SyncState::kNotSubscribed;  // nothing was sent
  state.last_sent_version = s.announced;
  if (s.acked) state.last_applied_version = s.acked->version();
  state.last_nonce = s.nonce;
  state.nack_detail = s.nack_detail;
  if (state.state == SyncState::kPending) state.sent_at = s.sent_at;
  return state;
}

// Envoy does not answer an empty response of a type of which it watches nothing. In SotW it answers
// other responses of that type with a request that does not look like an answer.
bool Session::awaits(const TypeState& s) { return s.awaiting && (s.wildcard || !s.names->empty()); }

bool Session::settled() const {
  return std::none_of(kXdsTypes.begin(), kXdsTypes.end(), [&](XdsType type) {
    return of(type).subscribed && (awaits(of(type)) || withheld(type));
  });
}

bool Session::unanswered() const { return std::any_of(types_.begin(), types_.end(), awaits); }

bool Session::holds_newest(XdsType type) const {
  const TypeState& s = of(type);
  if (!s.subscribed || s.awaiting || s.uncertain || s.claim || !s.base || withheld(type))
    return false;
  return s.wildcard ? s.delivered == s.base : changed(s.delivered, *only(s.base, *s.names)).empty();
}

Doubts Session::doubts() const {
  Doubts doubts = doubts_;
  for (XdsType type : kXdsTypes) {
    const TypeState& s = of(type);
    Doubt& doubt = doubts[index_of(type)];
    if (!s.subscribed || s.claim) {
      // A response that names this type was sent and not answered yet, so an older claim proves
      // nothing.
      const XdsType named_by = type == XdsType::kRoute ? XdsType::kListener : XdsType::kCluster;
      if (!is_whole(type) && !of(named_by).nonce.empty()) doubt.unsure = true;
      continue;
    }
    // Requested and not sent yet: the proxy may have dropped it and would still claim it.
    const bool undelivered =
        !is_whole(type) && s.base && !changed(s.delivered, *only(s.base, *s.names)).empty();
    doubt.unsure = s.awaiting || s.uncertain || undelivered;
    doubt.unclaimed = joined(s.leftovers, s.unanswered);
  }
  return doubts;
}

}  // namespace osm::inline v1::ads
