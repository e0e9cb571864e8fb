// Target content of a proxy: its class's content that it subscribes to, with the last good content
// in place of refused resources, with clusters kept while they are named, and with listeners
// and routes held back while the clusters that they start to name are warming (0012).
#include <algorithm>
#include <set>
#include <utility>

#include "ads/session.hpp"

namespace osm::inline v1::ads {

const ResourceSetPtr& Session::wanted(TypeState& s) {
  if (s.wildcard) return s.base;
  if (s.wanted_base != s.base || s.wanted_names != s.names) {
    s.wanted_base = s.base;
    s.wanted_names = s.names;
    s.wanted = only(s.base, *s.names);
  }
  return s.wanted;
}

// In SotW a response of clusters or listeners is refused as a whole set.
bool Session::refused_as_a_whole(XdsType type) const {
  return variant_ == XdsVariant::kSotw && is_whole(type);
}

bool Session::withheld(XdsType type) const {
  const TypeState& s = of(type);
  if (!s.base) return false;
  if (refused_as_a_whole(type)) return std::get<SotwState>(s.own).refused_base == s.base->version();
  return std::any_of(s.refusals.begin(), s.refusals.end(),
                     [&](const Refusal& refusal) { return refusal.holds_for(*s.base); });
}

bool Session::Refusal::holds_for(const ResourceSet& base) const {
  return std::all_of(response.begin(), response.end(), [&](const Responded& part) {
    const EncodedPtr now = base.find(part.resource->name);
    return now && now->hash == part.input;
  });
}

void Session::end_refusals(TypeState& s) {
  std::erase_if(s.refusals, [&](const Refusal& refusal) {
    if (refusal.holds_for(*s.base)) return false;
    if (variant_ == XdsVariant::kSotw || !s.delivered) return true;
    // A refused stand-in counts as delivered, though the proxy may not hold it.
    NameSet names;
    for (const Responded& part : refusal.response) names.push_back(part.resource->name);
    s.delivered = without(s.delivered, names);
    return true;
  });
}

ResourceSetPtr Session::target(XdsType type, SteadyTime now) {
  if (refused_as_a_whole(type) && withheld(type)) {
    if (type == XdsType::kCluster) expanded_since_.reset();
    return of(type).good;
  }
  const ResourceSetPtr all =
      thawed(of(type), refused_as_a_whole(type) ? wanted(of(type)) : acceptable(type));
  if (type == XdsType::kEndpoint && variant_ == XdsVariant::kDelta) return with_used_endpoints(all);
  return type == XdsType::kCluster ? expanded(all, now) : all;
}

// The set with the last good content in place of frozen resources; without them if there is none.
ResourceSetPtr Session::thawed(const TypeState& s, const ResourceSetPtr& set) {
  if (!set->any_frozen()) return set;
  std::vector<EncodedPtr> resources;
  for (const EncodedPtr& resource : set->resources()) {
    EncodedPtr content = resource;
    if (content->frozen) {
      content = s.acked ? s.acked->find(resource->name) : nullptr;
      if (!content && s.good) content = s.good->find(resource->name);
    }
    if (content) resources.push_back(std::move(content));
  }
  return ResourceSet::make(std::move(resources));
}

ResourceSetPtr Session::last_good(XdsType type) const {
  const TypeState& s = of(type);
  if (!s.good || !s.acked) return s.acked ? s.acked : s.good;
  return merged(s.good, s.acked->resources());
}

bool Session::frozen(XdsType type, std::string_view name) const {
  const ResourceSetPtr& base = of(type).base;
  if (!base || !base->any_frozen()) return false;
  const EncodedPtr resource = base->find(name);
  return resource && resource->frozen;
}

// The wanted set, with the last good content in place of refused resources.
ResourceSetPtr Session::acceptable(XdsType type) {
  TypeState& s = of(type);
  const ResourceSetPtr& all = wanted(s);
  end_refusals(s);
  if (s.refusals.empty()) return all;
  std::set<std::pair<std::string_view, Digest>> refused;
  for (const Refusal& refusal : s.refusals)
    for (const Responded& part : refusal.response)
      refused.emplace(part.resource->name, part.resource->hash);
  const auto was_refused = [&](const EncodedResource& resource) {
    return refused.contains({resource.name, resource.hash});
  };
  std::vector<EncodedPtr> acceptable;
  for (const EncodedPtr& resource : all->resources()) {
    if (!was_refused(*resource)) {
      acceptable.push_back(resource);
    } else if (s.good) {
      // In delta, a resource that is missing here would be removed. A refused stand-in stays and
      // counts as delivered.
      EncodedPtr last_good = s.good->find(resource->name);
      if (last_good && (variant_ == XdsVariant::kDelta || !was_refused(*last_good)))
        acceptable.push_back(std::move(last_good));
    }
  }
  return ResourceSet::make(std::move(acceptable));
}

// Make before break: removed clusters stay while listeners or routes that the proxy holds, or may
// hold, still name them.
ResourceSetPtr Session::expanded(const ResourceSetPtr& base, SteadyTime now) {
  const ResourceSetPtr& sent = of(XdsType::kCluster).sent;
  if (base->version() != expanded_base_) {
    expanded_base_ = base->version();
    expanded_since_.reset();
  }
  if (!sent || sent == base || expansion_refused_ == of(XdsType::kCluster).base->version()) {
    expanded_since_.reset();
    return base;
  }
  std::vector<EncodedPtr> leaving;
  for (const EncodedPtr& cluster : sent->resources())
    if (!base->find(cluster->name)) leaving.push_back(cluster);
  if (!leaving.empty() && knows_users()) {
    const NameSet in_use = clusters_in_use();
    std::erase_if(leaving,
                  [&](const EncodedPtr& cluster) { return !contains(in_use, cluster->name); });
  }
  if (leaving.empty()) {
    expanded_since_.reset();
    return base;
  }
  if (!expanded_since_) expanded_since_ = now;
  // Bounds the wait for a proxy that does not answer. A proxy that refused keeps using its old
  // content.
  const bool refused = withheld(XdsType::kListener) || withheld(XdsType::kRoute);
  if (!refused && now - *expanded_since_ >= kExpandedBound) return base;
  return merged(base, std::move(leaving));
}

// Make before break: endpoints that left the mesh stay while a cluster names them. A proxy may ask
// for them again, since it had dropped the cluster in between.
ResourceSetPtr Session::with_used_endpoints(const ResourceSetPtr& base) {
  const TypeState& s = of(XdsType::kEndpoint);
  const ResourceSetPtr& clusters = of(XdsType::kCluster).sent;
  if (!s.sent || s.sent == base || !clusters) return base;
  auto& [known_base, known_sent, known_clusters, result] = used_endpoints_;
  if (base == known_base && s.sent == known_sent && clusters == known_clusters) return result;
  std::vector<EncodedPtr> used;
  if (const NameSet left = vanished(s.sent, *s.base); !left.empty()) {
    const NameSet named = references(clusters->resources(), XdsType::kEndpoint);
    for (const std::string& name : left)
      if (contains(named, name)) used.push_back(s.sent->find(name));
  }
  known_base = base;
  known_sent = s.sent;
  known_clusters = clusters;
  return result = merged(base, std::move(used));
}

// A cluster that was sent waits for its endpoints also if they leave the mesh before the proxy's
// first request for endpoints is answered. They count as sent, so that they stay with the cluster.
void Session::keep_promised_endpoints() {
  TypeState& s = of(XdsType::kEndpoint);
  if (!promised_ || !s.subscribed() || !s.base) return;
  const ResourceSetPtr left = filtered(
      only(promised_, *s.names), [&](const EncodedResource& r) { return !s.base->find(r.name); });
  if (!left->empty()) s.sent = s.sent ? merged(left, s.sent->resources()) : left;
  promised_ = nullptr;
}

// A proxy that reconnects behind a change holds older listeners and routes, of which it tells the
// versions only. It holds none any more when it has acknowledged all of them.
bool Session::knows_users() {
  if (users_known_) return true;
  const TypeState& listeners = of(XdsType::kListener);
  if (!holds_newest(XdsType::kListener) || !delta_part(listeners).leftovers.empty()) return false;
  const NameSet routes = references(listeners.sent->resources(), XdsType::kRoute);
  users_known_ = routes.empty() || (holds_newest(XdsType::kRoute) &&
                                    minus(routes, *of(XdsType::kRoute).names).empty());
  return users_known_;
}

// Envoy keeps a route configuration for its draining listeners only, and its removal cannot be
// sent. So a route counts while a listener that the proxy holds, or may hold, names it.
NameSet Session::clusters_in_use() const {
  const TypeState& listeners = of(XdsType::kListener);
  NameSet names = joined(listeners.passed_clusters, of(XdsType::kRoute).passed_clusters);
  NameSet routes = listeners.passed_routes;
  for (const ResourceSetPtr& set : {listeners.acked, listeners.sent, listeners.good}) {
    if (!set) continue;
    names = joined(names, references(set->resources(), XdsType::kCluster));
    routes = joined(routes, references(set->resources(), XdsType::kRoute));
  }
  const bool all = !listeners.subscribed() || listeners.claim || listeners.uncertain;
  const TypeState& s = of(XdsType::kRoute);
  for (const ResourceSetPtr& set : {s.acked, s.sent, s.good, s.lingering}) {
    if (!set) continue;
    const ResourceSetPtr used = all ? set : only(set, routes);
    names = joined(names, references(used->resources(), XdsType::kCluster));
  }
  return names;
}

// A cluster that is new to the proxy can be used after CDS is acknowledged. A cluster that was
// removed and added between two answers is new again. One that is changed is used as it was until
// then.
void Session::note_warming(const ResourceSet& goal, SteadyTime now) {
  const ResourceSetPtr& before = of(XdsType::kCluster).sent;
  NameSet cold, still_cold;
  std::vector<EncodedPtr> changing;
  for (const EncodedPtr& cluster : goal.resources()) {
    const EncodedPtr known = before ? before->find(cluster->name) : nullptr;
    const bool is_changed = known && known->hash != cluster->hash;
    const bool was_cold = known && contains_name(warming_, cluster->name);
    if (!known || (was_cold && is_changed))
      cold.push_back(cluster->name);
    else if (was_cold)
      still_cold.push_back(cluster->name);
    else if (is_changed)
      changing.push_back(cluster);
  }
  keep_names(warming_, [&](const std::string& name) { return contains(still_cold, name); });
  if (!cold.empty()) warming_.push_back({now, last_nonce_, std::move(cold)});
  NameSet names = references(changing, XdsType::kEndpoint);
  if (names.empty()) return;
  keep_names(changing_, [&](const std::string& name) { return !contains(names, name); });
  changing_.push_back({now, last_nonce_, std::move(names)});
}

bool Session::contains_name(const SentNames& sent, std::string_view name) {
  return std::any_of(sent.begin(), sent.end(),
                     [&](const Sent& some) { return contains(some.names, name); });
}

void Session::keep_names(SentNames& sent, const std::function<bool(const std::string&)>& stays) {
  for (Sent& some : sent) std::erase_if(some.names, [&](const auto& name) { return !stays(name); });
  std::erase_if(sent, [](const Sent& some) { return some.names.empty(); });
}

// Names of this response and of earlier ones are warm, or were refused.
void Session::end_warming(std::uint64_t response) {
  const auto answered = [&](const Sent& sent) { return sent.response <= response; };
  std::erase_if(warming_, answered);
  std::erase_if(changing_, answered);
  forget_former_endpoints();
}

void Session::expire_warming(SteadyTime now) {
  const auto is_over = [&](const Sent& sent) { return now - sent.at >= kWarmingBound; };
  std::erase_if(warming_, is_over);
  std::erase_if(changing_, is_over);
  forget_former_endpoints();
}

void Session::forget_former_endpoints() {
  std::erase_if(former_endpoints_,
                [&](const auto& made) { return !contains_name(changing_, made.first); });
}

// Make before break: a listener or route keeps its older version while the new one starts to name
// clusters that are warming. Requests to those would get 503. A proxy that reconnects keeps the
// version that it claims, also until it tells its clusters: Envoy asks for clusters last while some
// warm.
std::vector<EncodedPtr> Session::former_versions(XdsType type, const ResourceSet& goal,
                                                 NameSet& unknown) {
  const TypeState& s = of(type);
  std::vector<EncodedPtr> former;
  const bool knows_clusters = !resumed_ || of(XdsType::kCluster).subscribed();
  if (warming_.empty() && knows_clusters) return former;
  // A proxy that renews a subscription is sent everything again, and still holds its accepted
  // content.
  const ResourceSetPtr& before = s.delivered ? s.delivered : s.acked;
  for (const EncodedPtr& resource : changed(before, goal)) {
    const EncodedPtr held = before ? before->find(resource->name) : nullptr;
    const auto starts_cold = [&](const auto& reference) {
      return reference.type == XdsType::kCluster &&
             (contains_name(warming_, reference.name) || !knows_clusters) &&
             !(held &&
               std::binary_search(held->references.begin(), held->references.end(), reference));
    };
    if (std::none_of(resource->references.begin(), resource->references.end(), starts_cold))
      continue;
    if (held && !s.asked) former.push_back(held);
    if (!held && resumed_ && contains(delta_part(s).leftovers, resource->name) &&
        !contains(delta_part(s).owed, resource->name))
      unknown.push_back(resource->name);
  }
  return former;
}

// Make before break: endpoints that are added together with a change of their cluster follow it.
// The cluster as it was may not accept their certificates, and gets them at once. The changed
// cluster needs endpoints to be warm: those that the proxy knows, as far as they stay.
std::vector<EncodedPtr> Session::former_endpoints(const ResourceSet& goal) {
  std::vector<EncodedPtr> former;
  const ResourceSetPtr& before = of(XdsType::kEndpoint).sent;
  if (!before) return former;
  for (const Sent& sent : changing_) {
    for (const std::string& name : sent.names) {
      const EncodedPtr known = before->find(name), fresh = goal.find(name);
      if (!known || !fresh || known->hash == fresh->hash) continue;
      FormerEndpoints& made = former_endpoints_[name];
      if (made.fresh != fresh) made = {fresh, translate::known_endpoints(*known, *fresh)};
      if (made.former) former.push_back(made.former);
    }
  }
  return former;
}

ResourceSetPtr Session::held_back(XdsType type, const ResourceSetPtr& goal, SteadyTime now) {
  TypeState& s = of(type);
  std::vector<EncodedPtr> former;
  NameSet unknown;  // claimed in another version, whose content is not known
  if (goal && type == XdsType::kEndpoint) former = former_endpoints(*goal);
  if (goal && (type == XdsType::kListener || type == XdsType::kRoute))
    former = former_versions(type, *goal, unknown);
  decltype(s.held) held;
  // True if it does not wait any more. `complete`: as in Hold, if the wait begins.
  const auto is_over = [&](const std::string& name, std::uint64_t complete) {
    const auto known = s.held.find(name);
    const Hold hold = known == s.held.end() ? Hold{now, complete} : known->second;
    if (now - hold.since >= kHeldBound) return true;
    held.emplace(name, hold);
    return false;
  };
  std::erase_if(former, [&](const EncodedPtr& resource) {
    return is_over(resource->name, s.sent_generation);
  });
  std::erase_if(unknown, [&](const std::string& name) { return is_over(name, 0); });
  s.held = std::move(held);
  if (s.held.empty()) return goal;
  return merged(without(goal, ordered(std::move(unknown))), std::move(former));
}

}  // namespace osm::inline v1::ads
