#include "ads/session.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace osm::ads {
namespace {

// CDS and LDS responses carry the whole set, and a request without names means all of it. EDS, RDS
// and SDS carry changed or newly asked resources only, and no names means none.
bool carries_whole_set(XdsType type) {
  return type == XdsType::kCluster || type == XdsType::kListener;
}

bool is_wildcard(XdsType type, const std::vector<std::string_view>& names) {
  return carries_whole_set(type) &&
         (names.empty() || std::find(names.begin(), names.end(), "*") != names.end());
}

Digest raw_digest(const std::vector<std::string_view>& names) {
  DigestBuilder digest;
  for (std::string_view name : names) digest.add(name);
  return digest.finish();
}

void add_references(const std::vector<EncodedPtr>& resources, XdsType type, NameSet& names) {
  for (const EncodedPtr& resource : resources)
    for (const auto& reference : resource->references)
      if (reference.type == type) names.push_back(reference.name);
}

NameSet ordered(NameSet names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace

Session::Effect Session::on_request(const Request& request) {
  const std::optional<XdsType> type = xds_type_of(request.type_url);
  if (!type) return Effect::kUnknownType;
  TypeState& s = of(*type);
  if (!s.subscribed) {
    // Initial whatever its nonce: one from an earlier stream means nothing here.
    s.subscribed = s.asked = true;
    s.uncertain = doubts_[index_of(*type)];
    if (!request.version.empty() && !request.error && !s.uncertain)
      s.claim = std::string(request.version);
    subscribe(*type, request);
    return Effect::kInitial;
  }
  // An empty nonce can come again before the first response arrived; it then only changes names.
  if (!request.nonce.empty() && !s.nonce.empty() && request.nonce != s.nonce) {
    if (!request.error) return Effect::kStale;
    // Parts of what was refused are applied: what it holds is unknown. Sent again at once, it would
    // be overtaken by the answers still to come.
    s.overtaken_nack = true;
    if (*type == XdsType::kCluster)
      of(XdsType::kSecret).delivered = of(XdsType::kEndpoint).delivered = nullptr;
    if (*type == XdsType::kListener)
      of(XdsType::kSecret).delivered = of(XdsType::kRoute).delivered = nullptr;
    return Effect::kNack;
  }
  const bool answers = s.awaiting && request.nonce == s.nonce;
  Effect effect = Effect::kSubscription;
  if (answers && request.error) {
    on_nack(*type, *request.error);
    effect = Effect::kNack;
  }
  const bool renamed = subscribe(*type, request);
  // Repeated though nothing is unanswered: the proxy dropped and renewed a subscription. Clusters
  // that re-warm make such requests for endpoints all the time; those are followed up on CDS's
  // side.
  if (!renamed && !answers && !s.awaiting &&
      (*type == XdsType::kSecret || *type == XdsType::kRoute))
    s.delivered = nullptr;
  // After a NACK Envoy changes subscriptions under the refused nonce and the old version, without
  // an error: only the version tells an ACK.
  if (answers && !request.error && request.version == s.announced) {
    on_ack(*type);
    effect = Effect::kAck;
  }
  return effect;
}

bool Session::subscribe(XdsType type, const Request& request) {
  TypeState& s = of(type);
  const Digest raw = raw_digest(request.names);
  if (raw == s.raw_names) return false;
  s.raw_names = raw;
  s.names = is_wildcard(type, request.names) ? nullptr : pool_.intern(request.names);
  if (!s.names) return true;
  // What is no longer subscribed the proxy forgets; subscribed again, it must be sent again.
  for (ResourceSetPtr* set : {&s.delivered, &s.sent, &s.acked, &s.good})
    if (*set) *set = only(*set, *s.names);
  if (s.names->empty()) s.uncertain = false;
  return true;
}

void Session::on_ack(XdsType type) {
  TypeState& s = of(type);
  s.awaiting = false;
  if (type == XdsType::kCluster) NameSet().swap(warming_);
  s.uncertain = std::exchange(s.overtaken_nack, false);
  if (s.uncertain) s.delivered = nullptr;
  s.acked = s.sent;
  std::vector<Responded>().swap(s.responded);  // `= {}` would keep the memory
  if (withheld(type)) {
    s.good = s.acked;
  } else {
    s.good = nullptr;
    s.refused_base.clear();
    s.refusals.clear();
    s.nack_detail.clear();
  }
}

void Session::on_nack(XdsType type, std::string_view detail) {
  TypeState& s = of(type);
  const bool stand_in_refused = carries_whole_set(type) && withheld(type) && s.sent == s.good;
  s.good = stand_in_refused ? nullptr : s.acked;
  if (type == XdsType::kCluster) NameSet().swap(warming_);
  // A kept cluster may be the culprit: the set without it gets a chance of its own.
  if (type == XdsType::kCluster && sent_expanded_) {
    expansion_refused_ = s.sent_base;
  } else {
    s.refused_base = s.sent_base;
  }
  if (!s.responded.empty()) s.refusals.push_back({std::exchange(s.responded, {})});
  s.nack_detail = detail.empty() ? "refused without a reason" : std::string(detail);
  s.awaiting = s.overtaken_nack = false;
  s.uncertain = true;
  // Envoy applies the good members of a refused response: nothing is known to be delivered.
  s.acked = s.delivered = nullptr;
}

void Session::set_resources(const ResourceSets& sets) {
  for (XdsType type : kXdsTypes) of(type).base = sets[index_of(type)];
}

void Session::judge_claim(XdsType type) {
  TypeState& s = of(type);
  if (!s.claim || !s.base) return;
  const std::string claim = *std::exchange(s.claim, std::nullopt);
  // Whoever names them must have been skipped too: a cluster that is sent waits for its endpoints
  // again, and what a proxy stopped naming for a while it dropped, but still claims.
  const bool clusters = skipped_[index_of(XdsType::kCluster)];
  const bool listeners = skipped_[index_of(XdsType::kListener)];
  if (type == XdsType::kEndpoint && !clusters) return;
  if (type == XdsType::kRoute && !listeners) return;
  if (type == XdsType::kSecret && (!clusters || (of(XdsType::kListener).subscribed && !listeners)))
    return;
  if (claim != wanted(s)->version()) return;
  s.delivered = s.sent = s.acked = wanted(s);
  s.announced = claim;
  s.asked = false;
  skipped_[index_of(type)] = true;
}

std::optional<Response> Session::next_response(SteadyTime now) {
  if (writing_) return std::nullopt;
  for (XdsType type : {XdsType::kCluster, XdsType::kListener, XdsType::kSecret, XdsType::kEndpoint,
                       XdsType::kRoute})
    judge_claim(type);
  for (XdsType type : kXdsTypes)
    if (auto response = due(type, now)) return response;
  return std::nullopt;
}

std::optional<Response> Session::due(XdsType type, SteadyTime now) {
  TypeState& s = of(type);
  if (!s.subscribed || !s.base) return std::nullopt;
  const ResourceSetPtr goal = held_back(type, target(type, now), now);
  if (!goal) return std::nullopt;
  if (carries_whole_set(type)) {
    if (!s.asked && s.delivered && goal->version() == s.announced) return std::nullopt;
    if (!s.asked && goal->empty() && s.sent && !s.sent->empty()) {
      emptied_ = true;
      return std::nullopt;
    }
    return respond(type, goal, goal->resources(), now);
  }
  std::vector<EncodedPtr> news = changed(s.delivered, *goal);
  if (news.empty()) {
    // After a removal the proxy still claims the version of the larger set, and would be sent
    // everything when it reconnects. One unchanged resource brings it the new version.
    if (goal->empty() || goal->version() == s.announced) return std::nullopt;
    news.push_back(goal->resources().front());
  }
  return respond(type, goal, std::move(news), now);
}

Response Session::respond(XdsType type, const ResourceSetPtr& goal,
                          std::vector<EncodedPtr> resources, SteadyTime now) {
  TypeState& s = of(type);
  undeliver_dependants(type, *goal);
  skipped_[index_of(type)] = false;
  s.responded.clear();
  if (!carries_whole_set(type))
    for (const EncodedPtr& resource : resources)
      s.responded.push_back({resource, s.base->find(resource->name)->hash});
  if (type == XdsType::kCluster) {
    sent_expanded_ = !withheld(type) && goal->version() != wanted(s)->version();
    note_warming(*goal);
  }
  s.asked = false;
  s.awaiting = writing_ = true;
  s.sent = s.delivered = goal;
  s.sent_base = s.base->version();
  s.announced = goal->version();
  s.nonce = std::to_string(++last_nonce_);
  s.sent_at = now;
  return Response{type, s.announced, s.nonce, std::move(resources)};
}

// What the proxy will wait for again because of this response. Envoy re-asks with a request that
// cannot be told from an ACK, or drops and renews a subscription between two requests: so these
// count as undelivered, and follow at once.
void Session::undeliver_dependants(XdsType type, const ResourceSet& goal) {
  if (!carries_whole_set(type)) return;
  const ResourceSetPtr& before = of(type).delivered;
  const auto undeliver = [this](XdsType dependent, NameSet names) {
    TypeState& s = of(dependent);
    if (s.delivered && !names.empty()) s.delivered = without(s.delivered, names);
  };
  // Every changed cluster waits for its endpoints.
  NameSet rewarmed;
  add_references(changed(before, goal), XdsType::kEndpoint, rewarmed);
  undeliver(XdsType::kEndpoint, ordered(std::move(rewarmed)));
  // Routes and secrets outlive a change of who names them, but not a time when nobody does.
  for (XdsType dependent : {XdsType::kSecret, XdsType::kRoute}) {
    NameSet now;
    NameSet then;
    NameSet added;
    add_references(goal.resources(), dependent, now);
    // Clusters and listeners share their secrets: what the others hold is not asked for anew.
    for (const ResourceSetPtr& held :
         {before, of(type == XdsType::kCluster ? XdsType::kListener : XdsType::kCluster).delivered})
      if (held) add_references(held->resources(), dependent, then);
    now = ordered(std::move(now));
    then = ordered(std::move(then));
    std::set_difference(now.begin(), now.end(), then.begin(), then.end(),
                        std::back_inserter(added));
    undeliver(dependent, std::move(added));
  }
}

const ResourceSetPtr& Session::wanted(TypeState& s) {
  if (s.wanted_base != s.base || s.wanted_names != s.names) {
    s.wanted_base = s.base;
    s.wanted_names = s.names;
    s.wanted = s.names ? only(s.base, *s.names) : s.base;
  }
  return s.wanted;
}

bool Session::withheld(XdsType type) const {
  const TypeState& s = of(type);
  if (!s.base) return false;
  if (carries_whole_set(type)) return s.refused_base == s.base->version();
  return std::any_of(s.refusals.begin(), s.refusals.end(),
                     [&](const Refusal& refusal) { return refusal.holds_for(*s.base); });
}

bool Session::Refusal::holds_for(const ResourceSet& base) const {
  return std::all_of(response.begin(), response.end(), [&](const Responded& part) {
    const EncodedPtr now = base.find(part.resource->name);
    return now && now->hash == part.input;
  });
}

ResourceSetPtr Session::target(XdsType type, SteadyTime now) {
  TypeState& s = of(type);
  const ResourceSetPtr& all = wanted(s);
  if (carries_whole_set(type)) {
    if (withheld(type)) {
      if (type == XdsType::kCluster) expanded_since_.reset();
      return s.good;
    }
    return type == XdsType::kCluster ? expanded(all, now) : all;
  }
  std::erase_if(s.refusals, [&](const Refusal& r) { return !r.holds_for(*s.base); });
  if (s.refusals.empty()) return all;
  std::set<Digest> refused;
  for (const Refusal& refusal : s.refusals)
    for (const Responded& part : refusal.response) refused.insert(part.resource->hash);
  std::vector<EncodedPtr> acceptable;
  for (const EncodedPtr& resource : all->resources()) {
    if (!refused.contains(resource->hash)) {
      acceptable.push_back(resource);
    } else if (s.good) {
      EncodedPtr last_good = s.good->find(resource->name);
      if (last_good && !refused.contains(last_good->hash)) acceptable.push_back(last_good);
    }
  }
  return ResourceSet::make(std::move(acceptable));
}

// Make before break: clusters that left the set stay while listeners or routes that the proxy
// holds, or may hold, still name them.
ResourceSetPtr Session::expanded(const ResourceSetPtr& base, SteadyTime now) {
  const ResourceSetPtr& sent = of(XdsType::kCluster).sent;
  if (base != expanded_base_) {
    expanded_base_ = base;
    expanded_since_.reset();
  }
  if (!sent || sent == base || expansion_refused_ == of(XdsType::kCluster).base->version()) {
    expanded_since_.reset();
    return base;
  }
  std::vector<EncodedPtr> leaving;
  for (const EncodedPtr& cluster : sent->resources())
    if (!base->find(cluster->name)) leaving.push_back(cluster);
  if (!leaving.empty()) {
    const NameSet in_use = clusters_in_use();
    std::erase_if(leaving, [&](const EncodedPtr& cluster) {
      return !std::binary_search(in_use.begin(), in_use.end(), cluster->name);
    });
  }
  if (leaving.empty()) {
    expanded_since_.reset();
    return base;
  }
  if (!expanded_since_) expanded_since_ = now;
  // A proxy that does not answer is waited for so long; one that refused keeps using what it has.
  const bool refused = withheld(XdsType::kListener) || withheld(XdsType::kRoute);
  if (!refused && now - *expanded_since_ >= kExpandedBound) return base;
  return merged(base, std::move(leaving));
}

NameSet Session::clusters_in_use() const {
  NameSet names;
  for (XdsType type : {XdsType::kListener, XdsType::kRoute}) {
    const TypeState& s = of(type);
    for (const ResourceSetPtr& set : {s.acked, s.sent, s.good})
      if (set) add_references(set->resources(), XdsType::kCluster, names);
  }
  return ordered(std::move(names));
}

// A cluster that is new to the proxy is of use once CDS is acknowledged. One that went and came
// back between two answers is new again.
void Session::note_warming(const ResourceSet& goal) {
  const ResourceSetPtr& before = of(XdsType::kCluster).sent;
  NameSet warming;
  for (const EncodedPtr& cluster : goal.resources())
    if (!before || !before->find(cluster->name) ||
        std::binary_search(warming_.begin(), warming_.end(), cluster->name))
      warming.push_back(cluster->name);
  warming_ = std::move(warming);
}

// Make before break: a listener or route that the proxy holds keeps its older version while the new
// one starts to name clusters that warm. Traffic sent to those would get 503.
ResourceSetPtr Session::held_back(XdsType type, const ResourceSetPtr& goal, SteadyTime now) {
  TypeState& s = of(type);
  std::vector<EncodedPtr> older;
  const bool may_wait = type == XdsType::kListener || type == XdsType::kRoute;
  if (may_wait && goal && s.delivered && !s.asked && !warming_.empty()) {
    const auto is_warming = [&](const auto& reference) {
      return reference.type == XdsType::kCluster &&
             std::binary_search(warming_.begin(), warming_.end(), reference.name);
    };
    for (const EncodedPtr& resource : changed(s.delivered, *goal)) {
      const EncodedPtr held = s.delivered->find(resource->name);
      if (held && std::any_of(resource->references.begin(), resource->references.end(),
                              [&](const auto& reference) {
                                return is_warming(reference) &&
                                       !std::binary_search(held->references.begin(),
                                                           held->references.end(), reference);
                              }))
        older.push_back(held);
    }
  }
  if (older.empty()) {
    s.held_since.reset();
    return goal;
  }
  if (!s.held_since) s.held_since = now;
  if (now - *s.held_since >= kWarmingBound) return goal;
  return merged(goal, std::move(older));
}

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
  // Envoy does not answer for a type of which it watches nothing any more.
  if (!s.subscribed || (s.names && s.names->empty())) return state;
  state.state = withheld(type) ? SyncState::kStale
                : s.awaiting   ? SyncState::kPending
                : s.sent       ? SyncState::kSynced
                               : SyncState::kNotSubscribed;  // there was nothing to send
  state.last_sent_version = s.announced;
  if (s.acked) state.last_applied_version = s.acked->version();
  state.last_nonce = s.nonce;
  state.nack_detail = s.nack_detail;
  if (state.state == SyncState::kPending) state.sent_at = s.sent_at;
  return state;
}

bool Session::settled() const {
  return std::none_of(kXdsTypes.begin(), kXdsTypes.end(), [&](XdsType type) {
    return of(type).subscribed && (of(type).awaiting || withheld(type));
  });
}

Doubts Session::doubts() const {
  Doubts doubts = doubts_;
  for (XdsType type : kXdsTypes) {
    const TypeState& s = of(type);
    bool& doubt = doubts[index_of(type)];
    if (!s.subscribed || s.claim) {
      // What names it was sent, and it was not answered: an older claim says nothing of it.
      const XdsType named_by = type == XdsType::kRoute ? XdsType::kListener : XdsType::kCluster;
      if (!carries_whole_set(type) && !of(named_by).nonce.empty()) doubt = true;
      continue;
    }
    // Asked for and not sent yet: the proxy may have dropped it, and would claim to have it.
    const bool undelivered = !carries_whole_set(type) && s.base && s.names &&
                             !changed(s.delivered, *only(s.base, *s.names)).empty();
    doubt = s.awaiting || s.uncertain || undelivered;
  }
  return doubts;
}

}  // namespace osm::ads
