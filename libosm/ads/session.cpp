#include "ads/session.hpp"

#include <algorithm>
#include <utility>

#include "base/numbers.hpp"

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
    heard.excess = excess(
        heard.type, request.subscribe.size() + request.unsubscribe.size() + request.held.size());
    OSM_TRY(heard.effect, on_request(request));
    return heard;
  }
  OSM_TRY(const Request request, parse_request(bytes));
  Heard heard = about(request);
  heard.excess = excess(heard.type, request.names.size());
  heard.effect = on_request(request);
  return heard;
}

// The first request of a type counts as first, whatever its nonce: nonces of earlier streams have
// no meaning here.
void Session::begin(XdsType type, Claim claim) {
  TypeState& s = of(type);
  const Doubt& doubt = doubts_[index_of(type)];
  s.names = pool_.intern(NameSet());
  s.uncertain = doubt.unsure;
  const bool claims = !claim.version.empty() || !claim.versions.empty();
  resumed_ = resumed_ || !claim.versions.empty();
  if (type == XdsType::kCluster) users_known_ = !claims && doubt.unclaimed.empty();
  if (claims && !doubt.unsure) s.claim = std::move(claim);
}

// A proxy forgets resources that it no longer subscribes to; if it subscribes again, they must be
// sent again.
void Session::keep_only_subscribed(TypeState& s) {
  if (s.wildcard) return;
  for (ResourceSetPtr* set : {&s.delivered, &s.sent, &s.acked, &s.good, &s.lingering})
    if (*set) *set = only(*set, *s.names);
  for (Overtaken& response : s.overtaken) response.content = only(response.content, *s.names);
  if (s.names->empty()) {
    s.uncertain = false;
    s.overtaken.clear();  // it answers none of them
  }
}

std::size_t Session::excess(const std::optional<XdsType>& type, std::size_t names) const {
  const ResourceSetPtr base = type ? of(*type).base : nullptr;
  const std::size_t usual = kSpareNames + (base ? 2 * base->resources().size() : 0);
  return names > usual ? names - usual : 0;
}

void Session::on_ack(XdsType type) {
  TypeState& s = of(type);
  s.awaiting = false;
  if (type == XdsType::kCluster) end_warming(last_nonce_);
  s.acked = s.sent;
  s.overtaken.clear();
  s.uncertain = std::exchange(s.overtaken_nack, false);
  if (!s.uncertain) {
    s.confirmed = std::max(s.confirmed, s.generation);
    NameSet().swap(s.passed_clusters);
    NameSet().swap(s.passed_routes);
  } else {
    s.delivered = nullptr;
    NameSet accepted;
    for (const Responded& part : s.responded) accepted.push_back(part.resource->name);
    s.acked = without(s.sent, minus(delta_part(s).unanswered, accepted));
  }
  if (variant_ == XdsVariant::kDelta) {
    DeltaState& own = delta(type);
    if (s.uncertain) own.leftovers = joined(own.leftovers, own.unanswered);
    NameSet().swap(own.unanswered);  // `= {}` would keep the memory
  }
  std::vector<Responded>().swap(s.responded);
  if (s.base) end_refusals(s);
  if (withheld(type)) {
    if (variant_ == XdsVariant::kSotw) s.good = s.acked;
  } else {
    if (variant_ == XdsVariant::kSotw) sotw(type).refused_base.clear();
    s.good = nullptr;
    s.refusals.clear();
    s.nack_detail.clear();
  }
}

void Session::on_nack(XdsType type, std::string_view detail) {
  TypeState& s = of(type);
  if (type == XdsType::kCluster) end_warming(last_nonce_);
  variant_ == XdsVariant::kDelta ? refuse_delta(type) : refuse_sotw(type);
  s.nack_detail = detail.empty() ? "refused without a reason" : std::string(detail);
  s.awaiting = s.overtaken_nack = false;
  s.overtaken.clear();
  s.uncertain = true;
}

// A proxy that is slower than the changes answers the last response seldom. It answers in order:
// it has accepted this response, and those before it.
void Session::on_overtaken_ack(XdsType type, std::string_view nonce, std::string_view version) {
  TypeState& s = of(type);
  const auto answered =
      std::find_if(s.overtaken.begin(), s.overtaken.end(), [&](const Overtaken& response) {
        return response.nonce == nonce &&
               (variant_ == XdsVariant::kDelta || response.content->version() == version);
      });
  if (answered == s.overtaken.end()) return;
  if (type == XdsType::kCluster) end_warming(number_of<std::uint64_t>(nonce).value_or(0));
  if (!s.overtaken_nack && !s.uncertain) {
    s.acked = answered->content;
    s.confirmed = std::max(s.confirmed, answered->generation);
  }
  s.overtaken.erase(s.overtaken.begin(), answered + 1);
}

// Bounds the memory of a proxy that does not answer: some of its answers will be late.
void Session::keep_overtaken(TypeState& s) {
  if (s.overtaken.size() >= kMaxOvertaken) {
    std::size_t at = 0;
    std::erase_if(s.overtaken, [&](const Overtaken&) { return at++ % 2 == 1; });
  }
  s.overtaken.push_back({s.nonce, s.sent, s.generation, *s.sent_at});
}

// A refusal of the next response would leave the proxy with what this one names.
void Session::note_passed(XdsType type, const ResourceSetPtr& goal) {
  TypeState& s = of(type);
  const std::vector<EncodedPtr> passed = changed(goal, *s.sent);
  s.passed_clusters = joined(s.passed_clusters, references(passed, XdsType::kCluster));
  s.passed_routes = joined(s.passed_routes, references(passed, XdsType::kRoute));
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

std::optional<Response> Session::next_response(SteadyTime now, std::uint64_t generation) {
  if (writing_) return std::nullopt;
  generation_ = generation;
  expire_warming(now);
  if (resumed_ && !resumed_at_) resumed_at_ = now;
  awaits_clusters_ =
      resumed_ && !of(XdsType::kCluster).subscribed() && now - *resumed_at_ < kWarmingBound;
  for (XdsType type : {XdsType::kCluster, XdsType::kListener, XdsType::kSecret, XdsType::kEndpoint,
                       XdsType::kRoute}) {
    if (!of(type).claim || !of(type).base) continue;
    variant_ == XdsVariant::kDelta ? judge_delta(type) : judge_sotw(type);
  }
  keep_promised_endpoints();
  for (XdsType type : kXdsTypes)
    if (auto response = due(type, now)) return response;
  return std::nullopt;
}

std::optional<Response> Session::due(XdsType type, SteadyTime now) {
  TypeState& s = of(type);
  if (!s.subscribed() || !s.base) return std::nullopt;
  const ResourceSetPtr goal = held_back(type, target(type, now), now);
  if (!goal) return std::nullopt;
  auto response =
      variant_ == XdsVariant::kDelta ? due_delta(type, goal, now) : due_sotw(type, goal, now);
  s.sent_generation = withheld(type) ? 0 : generation_;
  return response;
}

Response Session::respond(XdsType type, const ResourceSetPtr& goal,
                          std::vector<EncodedPtr> resources, SteadyTime now) {
  TypeState& s = of(type);
  undeliver_dependants(type, *goal);
  s.responded.clear();
  const auto accepted = [&](const EncodedPtr& resource) {
    return (s.acked && s.acked->find(resource->name) == resource) ||
           (s.good && s.good->find(resource->name) == resource);
  };
  if (!refused_as_a_whole(type)) {
    for (const EncodedPtr& resource : resources) {
      // A kept resource that left the mesh cannot be the refused one if it was accepted before;
      // else it is not kept after a refusal, which then says nothing about the others.
      if (const EncodedPtr input = s.base->find(resource->name))
        s.responded.push_back({resource, input->hash});
      else if (!accepted(resource))
        s.responded.push_back({resource, Digest()});
    }
  }
  if (s.awaiting && s.sent) {
    keep_overtaken(s);
    if (type == XdsType::kListener || type == XdsType::kRoute) note_passed(type, goal);
  }
  s.generation = withheld(type) ? 0 : generation_;
  for (const auto& [name, hold] : s.held) s.generation = std::min(s.generation, hold.complete);
  s.nonce = std::to_string(++last_nonce_);
  if (type == XdsType::kCluster) note_warming(*goal, now);
  if (type == XdsType::kRoute && s.sent)
    s.lingering =
        filtered(merged(s.lingering ? s.lingering : ResourceSet::none(), s.sent->resources()),
                 [&](const EncodedResource& route) { return !goal->find(route.name); });
  s.asked = false;
  s.awaiting = writing_ = true;
  s.sent = s.delivered = goal;
  // An older version that was never accepted may be the refused one. Then the newer one is tried.
  const bool tells = std::all_of(s.held.begin(), s.held.end(), [&](const auto& hold) {
    const EncodedPtr former = goal->find(hold.first);
    return !former || accepted(former);
  });
  s.sent_base = tells ? s.base->version() : std::string();
  s.announced = goal->version();
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
  if (variant_ == XdsVariant::kSotw || (s.sent && !s.claim)) return;
  doubt_endpoints(names);
  if (!s.base) return;
  const ResourceSetPtr now = only(s.base, names);
  promised_ = promised_ ? merged(promised_, now->resources()) : now;
}

// --- reports ---

std::optional<SteadyTime> Session::deadline() const {
  std::optional<SteadyTime> first;
  const auto consider = [&](const std::optional<SteadyTime>& since, std::chrono::seconds bound) {
    if (since && (!first || *since + bound < *first)) first = *since + bound;
  };
  consider(expanded_since_, kExpandedBound);
  consider(leftovers_since_, kExpandedBound);
  bool waits = false;
  for (const TypeState& s : types_)
    for (const auto& [name, hold] : s.held) {
      consider(hold.since, kHeldBound);
      waits = true;
    }
  if (awaits_clusters_) consider(resumed_at_, kWarmingBound);
  if (!waits) return first;
  for (const SentNames* names : {&warming_, &changing_})
    for (const Sent& sent : *names) consider(sent.at, kWarmingBound);
  return first;
}

ProxyTypeState Session::state(XdsType type) const {
  const TypeState& s = of(type);
  ProxyTypeState state;
  if (!s.subscribed() || (!s.wildcard && s.names->empty())) return state;
  state.state = withheld(type) ? SyncState::kStale
                : awaits(s)    ? SyncState::kPending
                : s.sent       ? SyncState::kSynced
                               : SyncState::kNotSubscribed;  // nothing was sent
  state.last_sent_version = s.announced;
  if (s.acked) state.last_applied_version = s.acked->version();
  state.last_nonce = s.nonce;
  state.nack_detail = s.nack_detail;
  if (state.state == SyncState::kPending)
    state.sent_at = s.overtaken.empty() ? s.sent_at : s.overtaken.front().sent_at;
  return state;
}

// Envoy does not answer an empty response of a type of which it watches nothing. In SotW it answers
// other responses of that type with a request that does not look like an answer.
bool Session::awaits(const TypeState& s) { return s.awaiting && (s.wildcard || !s.names->empty()); }

bool Session::settled() const {
  return std::none_of(kXdsTypes.begin(), kXdsTypes.end(), [&](XdsType type) {
    return of(type).subscribed() && (awaits(of(type)) || withheld(type) || !of(type).held.empty());
  });
}

bool Session::at_rest(XdsType type) const {
  const TypeState& s = of(type);
  return s.subscribed() && !awaits(s) && !withheld(type) && s.held.empty();
}

bool Session::unanswered() const { return std::any_of(types_.begin(), types_.end(), awaits); }

bool Session::holds_newest(XdsType type) const {
  const TypeState& s = of(type);
  if (!s.subscribed() || s.awaiting || s.uncertain || s.claim || !s.base || withheld(type))
    return false;
  return s.wildcard ? s.delivered == s.base : changed(s.delivered, *only(s.base, *s.names)).empty();
}

// SotW: a proxy that drops resources keeps their version, and would claim it. It has dropped those
// that its clusters or listeners name and that it does not ask for.
bool Session::unasked(XdsType type) const {
  if (variant_ == XdsVariant::kDelta) return false;
  const TypeState& s = of(type);
  const auto is_unasked = [&](const EncodedResource::Reference& reference) {
    return reference.type == type && !contains(*s.names, reference.name) &&
           s.base->find(reference.name);
  };
  for (XdsType parent : {XdsType::kCluster, XdsType::kListener})
    if (const ResourceSetPtr& named_by = of(parent).sent)
      for (const EncodedPtr& resource : named_by->resources())
        if (std::any_of(resource->references.begin(), resource->references.end(), is_unasked))
          return true;
  return false;
}

Doubts Session::doubts() const {
  Doubts doubts = doubts_;
  for (XdsType type : kXdsTypes) {
    const TypeState& s = of(type);
    Doubt& doubt = doubts[index_of(type)];
    if (!s.subscribed() || s.claim) {
      // A response that names this type was sent and not answered yet, so an older claim proves
      // nothing.
      const XdsType named_by = type == XdsType::kRoute ? XdsType::kListener : XdsType::kCluster;
      if (!is_whole(type) && !of(named_by).nonce.empty()) doubt.unsure = true;
      continue;
    }
    // Requested and not sent yet: the proxy may have dropped it and would still claim it.
    const bool undelivered =
        !is_whole(type) && s.base &&
        (unasked(type) || !changed(s.delivered, *only(s.base, *s.names)).empty());
    doubt.unsure = s.awaiting || s.uncertain || undelivered;
    if (variant_ == XdsVariant::kDelta)
      doubt.unclaimed = joined(delta_part(s).leftovers, delta_part(s).unanswered);
  }
  return doubts;
}

}  // namespace osm::inline v1::ads
