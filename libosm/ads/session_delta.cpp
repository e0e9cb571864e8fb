// Delta: DeltaAggregatedResources. A response carries changed resources and the names of removed
// ones. A request changes the subscription and answers one response; the first of a type names the
// version of each resource that the proxy holds. Resources outside a refused response are not
// affected.
#include <algorithm>
#include <utility>

#include "ads/session.hpp"

namespace osm::inline v1::ads {
namespace {

constexpr std::string_view kAll = "*";

// Only clusters and listeners can be requested without names.
bool asks_for_all(XdsType type, const std::vector<std::string_view>& names) {
  return is_whole(type) && std::find(names.begin(), names.end(), kAll) != names.end();
}

NameSet named(XdsType type, const std::vector<std::string_view>& names) {
  std::vector<std::string> all;
  for (std::string_view name : names)
    if (!is_whole(type) || name != kAll) all.emplace_back(name);
  return ordered(std::move(all));
}

// Types whose resources refer to resources of this type.
std::vector<XdsType> parents_of(XdsType type) {
  if (type == XdsType::kEndpoint) return {XdsType::kCluster};
  if (type == XdsType::kSecret) return {XdsType::kCluster, XdsType::kListener};
  return {};
}

}  // namespace

const DeltaState& Session::delta_part(const TypeState& s) {
  static const DeltaState kNone;
  const auto* own = std::get_if<DeltaState>(&s.own);
  return own ? *own : kNone;
}

Result<Session::Effect> Session::on_request(const DeltaRequest& request) {
  const std::optional<XdsType> type = xds_type_of(request.type_url);
  if (!type) return Effect::kUnknownType;
  TypeState& s = of(*type);
  DeltaState& own = delta(*type);
  Effect effect = Effect::kSubscription;
  NameSet held;  // by the first request
  if (!s.subscribed()) {
    effect = Effect::kInitial;
    Claim claim;
    for (const DeltaRequest::Held& one : request.held)
      claim.versions.insert_or_assign(std::string(one.name), std::string(one.version));
    for (const auto& [name, version] : claim.versions) held.push_back(name);
    const Doubt& doubt = doubts_[index_of(*type)];
    own.leftovers = doubt.unsure ? joined(doubt.unclaimed, held) : doubt.unclaimed;
    begin(*type, std::move(claim));
    s.wildcard = s.asked = is_whole(*type) && request.subscribe.empty();
  } else if (s.awaiting && request.nonce == s.nonce) {
    effect = request.error ? Effect::kNack : Effect::kAck;
    request.error ? on_nack(*type, *request.error) : on_ack(*type);
  } else if (!request.nonce.empty() && request.nonce != s.nonce) {
    effect = request.error ? Effect::kNack : Effect::kStale;
    request.error ? on_overtaken_nack(*type) : on_overtaken_ack(*type, request.nonce, {});
  }
  OSM_TRY(subscribe(*type, request));
  if (!held.empty()) own.owed = minus(own.owed, held);  // also of names that it claims in vain
  return effect;
}

Status Session::subscribe(XdsType type, const DeltaRequest& request) {
  if (request.subscribe.empty() && request.unsubscribe.empty()) return {};
  TypeState& s = of(type);
  DeltaState& own = delta(type);
  const NameSet added = named(type, request.subscribe);
  const NameSet dropped = named(type, request.unsubscribe);
  NameSet names = joined(minus(*s.names, dropped), added);
  if (names.size() > kMaxNames)
    return Error{ErrorCode::kInvalidArgument, "a subscription of " + std::to_string(names.size()) +
                                                  " names of " + std::string(xds_type_text(type)) +
                                                  " is more than " + std::to_string(kMaxNames)};
  if (asks_for_all(type, request.unsubscribe)) s.wildcard = false;
  if (asks_for_all(type, request.subscribe)) s.asked = !std::exchange(s.wildcard, true);
  s.names = pool_.intern(names);
  keep_only_subscribed(s);
  if (!s.wildcard) {
    const auto forgotten = [&](const std::string& name) { return !contains(*s.names, name); };
    std::erase_if(own.leftovers, forgotten);
    std::erase_if(own.owed, forgotten);
    std::erase_if(own.unanswered, forgotten);  // if it is refused, it is not removed again
    if (own.leftovers.empty() && !s.awaiting)
      s.uncertain = false;  // the proxy dropped the refused resources
  }
  // A name that is requested again may have been dropped in between. If the proxy drops a name
  // beside a wildcard, it waits to learn if the wildcard includes the name.
  const NameSet asked = s.wildcard ? joined(added, dropped) : added;
  if (s.delivered) s.delivered = without(s.delivered, asked);
  own.owed = joined(own.owed, asked);
  if (!s.claim) return {};
  // The proxy waits for nothing that it claims to hold.
  std::erase_if(own.owed,
                [&](const std::string& name) { return s.claim->versions.contains(name); });
  return {};
}

// Envoy applies the good members of a refused response and claims none of them, so of each it may
// hold the old or the new version. Resources that it had accepted before are sent again; new ones
// stay applied if they were good.
void Session::refuse_delta(XdsType type) {
  TypeState& s = of(type);
  DeltaState& own = delta(type);
  const NameSet names = std::exchange(own.unanswered, {});
  const std::vector<Responded> responded = std::exchange(s.responded, {});
  const bool kept = type == XdsType::kCluster && sent_expanded_;
  // Do not repeat refused removals, unless a response before them was refused too.
  if (responded.empty() && !kept && !s.overtaken_nack) return;
  std::vector<EncodedPtr> held;
  for (const std::string& name : names) {
    const EncodedPtr applied = s.acked ? s.acked->find(name) : nullptr;
    const EncodedPtr stand_in = !applied && s.good ? s.good->find(name) : applied;
    if (stand_in) held.push_back(stand_in);
  }
  NameSet undelivered = names;
  // Do not send a refused stand-in a third time.
  for (const Responded& part : responded)
    if (std::find(held.begin(), held.end(), part.resource) != held.end())
      std::erase(undelivered, part.resource->name);
  s.good = merged(s.good ? s.good : ResourceSet::none(), held);
  s.sent = merged(without(s.sent, names), std::move(held));
  own.leftovers = joined(own.leftovers, names);
  if (s.acked) s.acked = without(s.acked, names);
  if (s.delivered) s.delivered = without(s.delivered, undelivered);
  // A kept cluster may be the cause: send the response once more without it.
  if (kept) {
    expansion_refused_ = s.sent_base;
  } else if (!responded.empty()) {
    s.refusals.push_back({responded});
  }
}

// Judge per resource. A proxy that drops a resource drops its version, so claims are true. The
// exceptions are endpoints: a cluster that was already sent on this stream waits for them again,
// and so does some cluster if the proxy has not asked for clusters yet.
void Session::judge_delta(XdsType type) {
  TypeState& s = of(type);
  NameSet& leftovers = delta(type).leftovers;
  const auto versions = std::exchange(s.claim, std::nullopt)->versions;
  const ResourceSetPtr kept = filtered(wanted(s), [&](const EncodedResource& resource) {
    const auto claimed = versions.find(resource.name);
    // A name that was left over by the last stream may be held in a version that is not claimed.
    return claimed != versions.end() && claimed->second == resource_version(resource) &&
           !contains(leftovers, resource.name);
  });
  s.delivered = type != XdsType::kEndpoint            ? kept
                : !of(XdsType::kCluster).subscribed() ? ResourceSet::none()
                                                      : without(kept, rewarmed_);
  if (type == XdsType::kEndpoint) NameSet().swap(rewarmed_);
  s.sent = s.acked = kept;
  if (kept == wanted(s)) s.announced = kept->version();
  NameSet others;
  for (const auto& [name, version] : versions)
    if (!kept->find(name) && (s.wildcard || contains(*s.names, name))) others.push_back(name);
  leftovers = joined(leftovers, others);
  s.asked = false;
}

// True if the proxy may hold resources that have left the mesh, and were not sent on this stream.
bool Session::leaves_over(const TypeState& s) {
  const NameSet& leftovers = delta_part(s).leftovers;
  return std::any_of(leftovers.begin(), leftovers.end(),
                     [&](const std::string& name) { return !s.base->find(name); });
}

// Missing names that the proxy holds, may hold or requested.
NameSet Session::gone(XdsType type, const ResourceSet& goal) const {
  const TypeState& s = of(type);
  const DeltaState& own = delta_part(s);
  const auto absent = [&](const std::string& name) { return !goal.find(name); };
  NameSet names = vanished(s.sent, goal);
  std::copy_if(own.leftovers.begin(), own.leftovers.end(), std::back_inserter(names), absent);
  // Envoy keeps routes for listeners that drain, and reports their removal as an error.
  if (type == XdsType::kRoute) names.clear();
  // Withheld resources are not removed.
  std::erase_if(names, [&](const std::string& name) { return s.base->find(name) != nullptr; });
  // A proxy drops the resources that clusters and listeners name by itself, after those.
  for (XdsType parent : parents_of(type)) {
    const TypeState& p = of(parent);
    const bool unheard = !p.subscribed() && !(awaits_clusters_ && parent == XdsType::kCluster);
    if (names.empty() || unheard) continue;
    // A parent that the last stream left over may name them.
    if (!p.sent || p.awaiting || leaves_over(p)) {
      names.clear();
    } else {
      names = minus(ordered(std::move(names)), references(p.sent->resources(), type));
    }
  }
  for (const std::string& name : own.owed)
    if (absent(name) && !s.base->find(name)) names.push_back(name);
  return ordered(std::move(names));
}

// Make before break, for a proxy that reconnects behind a change: its older listeners and routes
// may name clusters that it claims and that have left the mesh since.
bool Session::keeps_leftovers(SteadyTime now) {
  if (!leaves_over(of(XdsType::kCluster)) || knows_users()) {
    leftovers_since_.reset();
    return false;
  }
  if (!leftovers_since_) leftovers_since_ = now;
  return withheld(XdsType::kListener) || withheld(XdsType::kRoute) ||
         now - *leftovers_since_ < kExpandedBound;
}

std::optional<Response> Session::due_delta(XdsType type, const ResourceSetPtr& goal,
                                           SteadyTime now) {
  TypeState& s = of(type);
  DeltaState& own = delta(type);
  std::vector<EncodedPtr> news = changed(s.delivered, *goal);
  NameSet removed = gone(type, *goal);
  if (type == XdsType::kCluster && keeps_leftovers(now)) removed = minus(removed, own.leftovers);
  if (!s.asked && news.empty() && removed.empty()) return std::nullopt;
  const bool all_vanished = is_whole(type) && s.sent && !s.sent->empty() && goal->empty();
  if (all_vanished && !s.asked && wanted(s)->empty()) {
    emptied_ = true;
    return std::nullopt;
  }
  const auto there = [&](const std::string& name) { return goal->find(name) != nullptr; };
  std::erase_if(own.leftovers, there);
  std::erase_if(own.owed, there);
  own.leftovers = minus(joined(own.leftovers, vanished(s.sent, *goal)), removed);
  own.owed = minus(own.owed, removed);
  own.unanswered = joined(own.unanswered, removed);
  NameSet sent;
  for (const EncodedPtr& resource : news) sent.push_back(resource->name);
  own.unanswered = joined(own.unanswered, sent);
  if (type == XdsType::kCluster)
    sent_expanded_ = std::any_of(sent.begin(), sent.end(),
                                 [&](const std::string& name) { return !s.base->find(name); });
  Response response = respond(type, goal, std::move(news), now);
  response.removed = std::move(removed);
  return response;
}

}  // namespace osm::inline v1::ads
