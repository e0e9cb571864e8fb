// An ADS client that behaves as Envoy 1.40 was seen to: it applies the good members of what it
// refuses, uses a cluster once it is warm, holds back its CDS requests while any of them warms, on
// a new stream too, and asks for listeners once all are warm. In SotW it re-asks for the endpoints
// of a changed cluster with a request that looks like an ACK, sends names in any order, can send
// two first requests of a type, and neither accepts nor refuses a response of a type of which it
// watches nothing any more. In delta it asks nothing for a changed cluster, removes what a refused
// response removes, and claims none of its good members. Polices the server: nonces go up by one,
// only what was subscribed is sent, nothing twice.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ads/session.hpp"

namespace osm::ads_test {

using ads::EncodedPtr;
using ads::index_of;
using ads::Response;

struct SentRequest {
  XdsType type{};
  std::string version{};
  std::string nonce{};
  std::vector<std::string> names{};  // delta: newly asked for
  std::optional<std::string> error{};
  std::vector<std::string> dropped{};         // delta
  std::map<std::string, std::string> held{};  // delta

  ads::Request view() const {
    ads::Request request{xds_type_url(type), version, nonce, {names.begin(), names.end()}, {}};
    if (error) request.error = *error;
    return request;
  }
  ads::DeltaRequest delta_view() const {
    ads::DeltaRequest request;
    request.type_url = xds_type_url(type);
    request.nonce = nonce;
    request.subscribe = {names.begin(), names.end()};
    request.unsubscribe = {dropped.begin(), dropped.end()};
    for (const auto& [name, its_version] : held) request.held.push_back({name, its_version});
    if (error) request.error = *error;
    return request;
  }
};

class FakeEnvoy {
 public:
  FakeEnvoy(XdsVariant variant, std::mt19937_64& random) : variant_(variant), random_(random) {
    subscribe(XdsType::kCluster);
  }

  // A new stream: nonces are forgotten, versions and what was applied are not.
  void connect() {
    outgoing_.clear();
    cds_answers_.clear();
    last_nonce_ = 0;
    for (XdsType type : order_) {
      of(type).nonce.clear();
      of(type).asked = false;
      if (type == XdsType::kCluster && warming())
        cds_answers_.push_back({type, "", {}, false});
      else if (wanted(type))
        ask(type);
    }
  }

  void receive(const Response& response) {
    CHECK(response.variant == variant_);
    CHECK(response.nonce == std::to_string(++last_nonce_));
    ++received[index_of(response.type)];
    Type& t = of(response.type);
    REQUIRE(t.subscribed);
    const bool whole = is_whole(response.type);
    if (!delta() && !whole && t.names.empty()) {
      t.nonce = response.nonce;
      if (!response.resources.empty()) outgoing_.push_back({response.type, t.nonce, {}, true});
      return;
    }
    note_starved(response);
    std::optional<std::string> error;
    std::set<std::string> changed;
    std::set<std::string> seen;
    std::map<std::string, EncodedPtr> next = whole && !delta() ? decltype(next){} : t.applied;
    for (const EncodedPtr& r : response.resources) {
      CHECK(seen.insert(r->name).second);
      if (!whole && !t.names.contains(r->name)) continue;  // Envoy ignores what it did not ask for
      const auto old = t.applied.find(r->name);
      if (refuses(*r)) {
        error = "refused " + r->name;
        if (whole && old != t.applied.end()) next[r->name] = old->second;
        continue;
      }
      if (old == t.applied.end() || old->second->hash != r->hash) changed.insert(r->name);
      if (old != t.applied.end()) note_premature(*old->second, *r);
      next[r->name] = r;
      if (response.type == XdsType::kEndpoint) waiting_for_endpoints_.erase(r->name);
    }
    for (const std::string& name : response.removed) {
      CHECK(seen.insert(name).second);
      if (whole) next.erase(name);
      if (response.type == XdsType::kEndpoint) waiting_for_endpoints_.erase(name);
    }
    if (response.type == XdsType::kCluster) {
      note_broken(next);
      std::erase_if(warm_, [&](const std::string& name) { return !next.contains(name); });
    }
    t.applied = std::move(next);
    t.nonce = response.nonce;
    if (!error) note_accepted(t, response);
    const bool rewarmed = response.type == XdsType::kCluster && !changed.empty();
    if (rewarmed) waiting_for_endpoints_.merge(changed);
    (response.type == XdsType::kCluster ? cds_answers_ : outgoing_)
        .push_back({response.type, response.nonce, error, true});
    resubscribe(rewarmed);
    settle();
  }

  std::optional<SentRequest> next_request() {
    while (!outgoing_.empty()) {
      const Pending pending = outgoing_.front();
      outgoing_.pop_front();
      Type& t = of(pending.type);
      if (delta()) {
        if (t.asked && !pending.answer && t.added.empty() && t.removed.empty())
          continue;  // an answer took the change along
        return delta_request(t, pending);
      }
      SentRequest request{pending.type,
                          t.version,
                          pending.answer ? pending.nonce : t.nonce,
                          {t.names.begin(), t.names.end()},
                          pending.error};
      std::shuffle(request.names.begin(), request.names.end(), random_);
      if (!t.asked && t.version.empty() && request.names.size() > 1 && random_() % 2 == 0) {
        request.names.pop_back();  // the rest follows, under an empty nonce again
        ask(pending.type);
      }
      t.asked = true;
      return request;
    }
    return std::nullopt;
  }

  bool warming() const {
    if (!waiting_for_endpoints_.empty()) return true;
    const Type& secrets = types_[index_of(XdsType::kSecret)];
    return std::any_of(secrets.names.begin(), secrets.names.end(),
                       [&](const std::string& name) { return !secrets.applied.contains(name); });
  }

  // All endpoints that it waits for are gone, and it asks for clusters after that only.
  bool waits_in_vain(const std::function<bool(const std::string&)>& gone) const {
    return !types_[index_of(XdsType::kCluster)].asked && !waiting_for_endpoints_.empty() &&
           std::all_of(waiting_for_endpoints_.begin(), waiting_for_endpoints_.end(), gone);
  }

  // After Envoy's initial_fetch_timeout. False: nothing warmed.
  bool gives_up_warming() {
    if (waiting_for_endpoints_.empty()) return false;
    waiting_for_endpoints_.clear();
    settle();
    return true;
  }

  const std::map<std::string, EncodedPtr>& applied(XdsType type) const {
    return types_[index_of(type)].applied;
  }
  // The version that a new stream would claim to hold.
  std::string claim(XdsType type) const {
    const Type& t = types_[index_of(type)];
    std::string text = t.version;
    for (const auto& [name, version] : t.versions) text += name + "=" + version + " ";
    return text;
  }
  // Delta: it holds what it would claim, and of clusters and listeners nothing else. Only its own
  // controller knows better of one that refused a response, or that waits for endpoints anew.
  bool claims_truly() const {
    for (XdsType type : kXdsTypes) {
      const Type& t = types_[index_of(type)];
      if (is_whole(type) && t.applied.size() != t.versions.size()) return false;
      for (const auto& [name, version] : t.versions) {
        const auto held = t.applied.find(name);
        if (held == t.applied.end() || version != ads::resource_version(*held->second))
          return false;
        if (type == XdsType::kEndpoint && waiting_for_endpoints_.contains(name)) return false;
      }
    }
    return true;
  }

  std::function<bool(const ads::EncodedResource&)> refuses = [](const auto& resource) {
    return resource.any.find("bad") != std::string::npos;
  };

  std::array<int, 5> received{};
  int broken = 0;     // clusters removed while a listener or route still named them
  int premature = 0;  // listeners or routes that started to name a cluster before it was warm
  int starved = 0;    // endpoints removed while a listener or route named their cluster

 private:
  struct Type {
    bool subscribed = false;
    bool asked = false;  // on this stream
    std::string version;
    std::string nonce;
    std::set<std::string> names;
    std::map<std::string, EncodedPtr> applied;
    // Delta: what it accepted, and changes of `names` that the server was not told.
    std::map<std::string, std::string> versions;
    std::set<std::string> added, removed;
  };
  struct Pending {
    XdsType type{};
    std::string nonce;
    std::optional<std::string> error;
    bool answer = false;
  };

  static bool is_whole(XdsType type) {
    return type == XdsType::kCluster || type == XdsType::kListener;
  }
  bool delta() const { return variant_ == XdsVariant::kDelta; }
  Type& of(XdsType type) { return types_[index_of(type)]; }
  bool wanted(XdsType type) { return is_whole(type) || !of(type).names.empty(); }
  void ask(XdsType type) { outgoing_.push_back({type, "", {}, false}); }
  void subscribe(XdsType type) {
    if (std::exchange(of(type).subscribed, true)) return;
    order_.push_back(type);
    if (is_whole(type)) ask(type);
  }

  void note_accepted(Type& t, const Response& response) {
    if (!delta()) {
      t.version = response.version;
      return;
    }
    for (const EncodedPtr& r : response.resources)
      if (is_whole(response.type) || t.names.contains(r->name))
        t.versions[r->name] = ads::resource_version(*r);
    for (const std::string& name : response.removed) t.versions.erase(name);
  }

  SentRequest delta_request(Type& t, const Pending& pending) {
    SentRequest request;
    request.type = pending.type;
    request.nonce = pending.nonce;
    request.error = pending.error;
    if (!std::exchange(t.asked, true)) {
      request.names = {t.names.begin(), t.names.end()};
      request.held = t.versions;
    } else {
      request.names = {t.added.begin(), t.added.end()};
      request.dropped = {t.removed.begin(), t.removed.end()};
    }
    t.added.clear();
    t.removed.clear();
    return request;
  }

  std::set<std::string> referenced(XdsType by, XdsType type) {
    std::set<std::string> names;
    for (const auto& [name, r] : of(by).applied)
      for (const auto& reference : r->references)
        if (reference.type == type) names.insert(reference.name);
    return names;
  }

  void note_broken(const std::map<std::string, EncodedPtr>& next) {
    for (XdsType by : {XdsType::kListener, XdsType::kRoute})
      for (const std::string& name : referenced(by, XdsType::kCluster))
        if (of(XdsType::kCluster).applied.contains(name) && !next.contains(name)) ++broken;
  }

  void note_starved(const Response& response) {
    if (response.type != XdsType::kEndpoint) return;
    // The server knows neither its clusters nor those endpoints: nothing else ends the wait.
    if (waits_in_vain([&](const std::string& name) {
          return std::count(response.removed.begin(), response.removed.end(), name) > 0;
        }))
      return;
    for (const std::string& name : response.removed)
      for (XdsType by : {XdsType::kListener, XdsType::kRoute})
        starved += applied(XdsType::kEndpoint).contains(name) &&
                   referenced(by, XdsType::kCluster).contains(name);
  }

  void note_premature(const ads::EncodedResource& old, const ads::EncodedResource& now) {
    for (const auto& reference : now.references)
      if (reference.type == XdsType::kCluster)
        premature += !warm_.contains(reference.name) &&
                     std::find(old.references.begin(), old.references.end(), reference) ==
                         old.references.end();
  }

  void resubscribe(bool rewarmed) {
    std::set<std::string> secrets = referenced(XdsType::kCluster, XdsType::kSecret);
    secrets.merge(referenced(XdsType::kListener, XdsType::kSecret));
    rename(XdsType::kSecret, secrets, false);
    rename(XdsType::kEndpoint, referenced(XdsType::kCluster, XdsType::kEndpoint), rewarmed);
    rename(XdsType::kRoute, referenced(XdsType::kListener, XdsType::kRoute), false);
    std::erase_if(waiting_for_endpoints_, [&](const std::string& name) {
      return !of(XdsType::kEndpoint).names.contains(name);
    });
  }

  void rename(XdsType type, const std::set<std::string>& names, bool again) {
    Type& t = of(type);
    if (!names.empty()) subscribe(type);
    if (!t.subscribed || (t.names == names && (!again || delta()))) return;
    for (const std::string& name : names)
      if (!t.names.contains(name)) {
        t.removed.erase(name);
        t.added.insert(name);
      }
    for (const std::string& name : t.names)
      if (!names.contains(name)) {
        t.added.erase(name);
        t.removed.insert(name);
      }
    t.names = names;
    const auto dropped = [&](const auto& entry) { return !names.contains(entry.first); };
    std::erase_if(t.applied, dropped);
    std::erase_if(t.versions, dropped);
    ask(type);
  }

  // Envoy uses a cluster as soon as that one is warm (ClusterManagerImpl::clusterWarmingToActive).
  // It goes on with CDS when all are (ClusterManagerImpl::updateClusterCounts).
  void settle() {
    const auto here = [&](const ads::EncodedResource::Reference& reference) {
      return reference.type != XdsType::kSecret ||
             of(XdsType::kSecret).applied.contains(reference.name);
    };
    for (const auto& [name, cluster] : of(XdsType::kCluster).applied)
      if (!waiting_for_endpoints_.contains(name) &&
          std::all_of(cluster->references.begin(), cluster->references.end(), here))
        warm_.insert(name);
    if (warming()) return;
    outgoing_.insert(outgoing_.end(), cds_answers_.begin(), cds_answers_.end());
    cds_answers_.clear();
    subscribe(XdsType::kListener);
  }

  const XdsVariant variant_;
  std::mt19937_64& random_;
  std::array<Type, 5> types_;
  std::vector<XdsType> order_;
  std::deque<Pending> outgoing_;
  std::deque<Pending> cds_answers_;
  std::set<std::string> waiting_for_endpoints_;
  std::set<std::string> warm_;  // clusters that were, once since they were added
  std::uint64_t last_nonce_ = 0;
};

inline EncodedPtr resource(XdsType type, std::string name, std::string bytes,
                           std::vector<ads::EncodedResource::Reference> references = {}) {
  ads::EncodedResource r{type, std::move(name), std::move(bytes), {}, std::move(references)};
  std::sort(r.references.begin(), r.references.end());
  r.hash = digest_of(r.any);
  return std::make_shared<const ads::EncodedResource>(std::move(r));
}

}  // namespace osm::ads_test
