// An ADS client that behaves as Envoy 1.40 was seen to: it applies the good members of what it
// refuses, holds back its CDS answer while clusters warm, asks for listeners once they are warm,
// re-asks for the endpoints of a changed cluster with a request that looks like an ACK, sends names
// in any order, and can send two first requests of a type. Polices the server: nonces go up by one,
// only what was subscribed is sent.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <deque>
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
  std::string version;
  std::string nonce;
  std::vector<std::string> names;
  std::optional<std::string> error;

  ads::Request view() const {
    ads::Request request{xds_type_url(type), version, nonce, {names.begin(), names.end()}, {}};
    if (error) request.error = *error;
    return request;
  }
};

class FakeEnvoy {
 public:
  explicit FakeEnvoy(std::mt19937_64& random) : random_(random) { subscribe(XdsType::kCluster); }

  // A new stream: nonces are forgotten, versions and what was applied are not.
  void connect() {
    outgoing_.clear();
    cds_answers_.clear();
    last_nonce_ = 0;
    for (XdsType type : order_) {
      of(type).nonce.clear();
      of(type).asked = false;
      if (wanted(type)) ask(type);
    }
  }

  void receive(const Response& response) {
    CHECK(response.nonce == std::to_string(++last_nonce_));
    ++received[index_of(response.type)];
    Type& t = of(response.type);
    REQUIRE(t.subscribed);
    const bool whole = is_whole(response.type);
    std::optional<std::string> error;
    std::set<std::string> changed;
    std::map<std::string, EncodedPtr> next = whole ? decltype(next){} : t.applied;
    for (const EncodedPtr& r : response.resources) {
      if (!whole && !t.names.contains(r->name)) continue;  // Envoy ignores what it did not ask for
      const auto old = t.applied.find(r->name);
      if (r->any.find("bad") != std::string::npos) {
        error = "refused " + r->name;
        if (whole && old != t.applied.end()) next[r->name] = old->second;
        continue;
      }
      if (old == t.applied.end() || old->second->hash != r->hash) changed.insert(r->name);
      if (old != t.applied.end()) note_premature(*old->second, *r);
      next[r->name] = r;
      if (response.type == XdsType::kEndpoint) waiting_for_endpoints_.erase(r->name);
    }
    if (response.type == XdsType::kCluster) {
      note_broken(next);
      std::erase_if(warm_, [&](const std::string& name) { return !next.contains(name); });
    }
    t.applied = std::move(next);
    t.nonce = response.nonce;
    if (!error) t.version = response.version;
    bool rewarmed = false;
    if (response.type == XdsType::kCluster)
      for (const std::string& name : changed) {
        waiting_for_endpoints_.insert(name);
        rewarmed = true;
      }
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

  const std::map<std::string, EncodedPtr>& applied(XdsType type) const {
    return types_[index_of(type)].applied;
  }
  const std::string& version(XdsType type) const { return types_[index_of(type)].version; }

  std::array<int, 5> received{};
  int broken = 0;     // clusters removed while a listener or route still named them
  int premature = 0;  // listeners or routes that started to name a cluster before it was warm

 private:
  struct Type {
    bool subscribed = false;
    bool asked = false;  // on this stream
    std::string version;
    std::string nonce;
    std::set<std::string> names;
    std::map<std::string, EncodedPtr> applied;
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
  Type& of(XdsType type) { return types_[index_of(type)]; }
  bool wanted(XdsType type) { return is_whole(type) || !of(type).names.empty(); }
  void ask(XdsType type) { outgoing_.push_back({type, "", {}, false}); }
  void subscribe(XdsType type) {
    if (std::exchange(of(type).subscribed, true)) return;
    order_.push_back(type);
    if (is_whole(type)) ask(type);
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

  void note_premature(const ads::EncodedResource& old, const ads::EncodedResource& now) {
    for (const auto& reference : now.references)
      if (reference.type == XdsType::kCluster &&
          of(reference.type).applied.contains(reference.name))
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
    if (!t.subscribed || (t.names == names && !again)) return;
    t.names = names;
    std::erase_if(t.applied, [&](const auto& entry) { return !names.contains(entry.first); });
    ask(type);
  }

  void settle() {
    if (warming()) return;
    for (const auto& [name, cluster] : of(XdsType::kCluster).applied) warm_.insert(name);
    outgoing_.insert(outgoing_.end(), cds_answers_.begin(), cds_answers_.end());
    cds_answers_.clear();
    subscribe(XdsType::kListener);
  }

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
