// State of the world: StreamAggregatedResources. CDS and LDS responses carry the whole set, and a
// request without names means all of it. EDS, RDS and SDS responses carry only changed or newly
// requested resources, and a request without names means none.
#include <algorithm>
#include <utility>

#include "ads/session.hpp"

namespace osm::inline v1::ads {
namespace {

bool names_all(const std::vector<std::string_view>& names) {
  return std::find(names.begin(), names.end(), "*") != names.end();
}

Digest raw_digest(const std::vector<std::string_view>& names) {
  DigestBuilder digest;
  for (std::string_view name : names) digest.add(name);
  return digest.finish();
}

}  // namespace

Session::Effect Session::on_request(const Request& request) {
  const std::optional<XdsType> type = xds_type_of(request.type_url);
  if (!type) return Effect::kUnknownType;
  TypeState& s = of(*type);
  if (!s.subscribed()) {
    begin(*type, {request.error ? std::string() : std::string(request.version), {}});
    s.asked = is_whole(*type);
    subscribe(*type, request);
    return Effect::kInitial;
  }
  // Another request with an empty nonce can arrive before the first response did; it only changes
  // names.
  if (!request.nonce.empty() && !s.nonce.empty() && request.nonce != s.nonce) {
    request.error ? on_overtaken_nack(*type)
                  : on_overtaken_ack(*type, request.nonce, request.version);
    return request.error ? Effect::kNack : Effect::kStale;
  }
  const bool answers = s.awaiting && request.nonce == s.nonce;
  Effect effect = Effect::kSubscription;
  if (answers && request.error) {
    on_nack(*type, *request.error);
    effect = Effect::kNack;
  }
  const bool renamed = subscribe(*type, request);
  // A repeated request without an unanswered response: the proxy dropped and renewed a
  // subscription. Clusters that re-warm send such requests for endpoints all the time; the CDS side
  // handles those.
  if (!renamed && !answers && !s.awaiting &&
      (*type == XdsType::kSecret || *type == XdsType::kRoute))
    s.delivered = nullptr;
  // After a NACK Envoy changes subscriptions under the refused nonce and the old version, without
  // an error: only the version identifies an ACK.
  if (answers && !request.error && request.version == s.announced) {
    on_ack(*type);
    effect = Effect::kAck;
  }
  return effect;
}

bool Session::subscribe(XdsType type, const Request& request) {
  TypeState& s = of(type);
  const Digest raw = raw_digest(request.names);
  SotwState& own = sotw(type);
  if (raw == own.raw_names) return false;
  // Without names from the first request on: everything. After names: nothing any more, as a gRPC
  // library says that has closed its last channel.
  const bool all = own.raw_names == Digest() || s.wildcard;
  own.raw_names = raw;
  s.wildcard = is_whole(type) && (names_all(request.names) || (request.names.empty() && all));
  s.names = pool_.intern(s.wildcard ? std::vector<std::string_view>() : request.names);
  keep_only_subscribed(s);
  return true;
}

void Session::refuse_sotw(XdsType type) {
  TypeState& s = of(type);
  const bool stand_in_refused = is_whole(type) && withheld(type) && s.sent == s.good;
  s.good = stand_in_refused ? nullptr : s.acked;
  // A kept cluster may be the cause: send the set once more without it.
  if (type == XdsType::kCluster && sent_expanded_) {
    expansion_refused_ = s.sent_base;
  } else {
    sotw(type).refused_base = s.sent_base;
  }
  if (!s.responded.empty()) s.refusals.push_back({std::exchange(s.responded, {})});
  // Envoy applies the good members of a refused response, so nothing counts as delivered.
  s.acked = s.delivered = nullptr;
}

void Session::judge_sotw(XdsType type) {
  TypeState& s = of(type);
  const std::string claim = std::exchange(s.claim, std::nullopt)->version;
  // The types that name these resources must have been skipped too: a cluster that is sent waits
  // for its endpoints again, and a proxy still claims resources that it dropped while it did not
  // name them.
  const bool clusters = sotw(XdsType::kCluster).skipped;
  const bool listeners = sotw(XdsType::kListener).skipped;
  if (type == XdsType::kEndpoint && !clusters) return;
  if (type == XdsType::kRoute && !listeners) return;
  if (type == XdsType::kSecret &&
      (!clusters || (of(XdsType::kListener).subscribed() && !listeners)))
    return;
  if (claim != wanted(s)->version()) return;
  s.delivered = s.sent = s.acked = wanted(s);
  s.announced = claim;
  s.asked = false;
  sotw(type).skipped = true;
}

std::optional<Response> Session::due_sotw(XdsType type, const ResourceSetPtr& goal,
                                          SteadyTime now) {
  TypeState& s = of(type);
  std::vector<EncodedPtr> news;
  if (is_whole(type)) {
    if (!s.wildcard && s.names->empty()) return std::nullopt;
    // Everything is frozen, and it is not known what the proxy has: it keeps that.
    if (goal->empty() && wanted(s)->any_frozen()) return std::nullopt;
    // A name that was dropped and is asked for again is not delivered, though the version is.
    if (!s.asked && s.delivered && goal->version() == s.announced &&
        (s.wildcard || changed(s.delivered, *goal).empty()))
      return std::nullopt;
    if (!s.asked && goal->empty() && s.sent && !s.sent->empty()) {
      emptied_ = true;
      return std::nullopt;
    }
    news = goal->resources();
  } else {
    news = changed(s.delivered, *goal);
    // After a removal the proxy still claims the version of the larger set, and would get
    // everything when it reconnects. One unchanged resource gives it the new version.
    if (news.empty()) {
      if (goal->empty() || goal->version() == s.announced) return std::nullopt;
      news.push_back(goal->resources().front());
    }
  }
  sotw(type).skipped = false;
  if (type == XdsType::kCluster)
    sent_expanded_ = !withheld(type) && goal->version() != thawed(s, wanted(s))->version();
  return respond(type, goal, std::move(news), now);
}

}  // namespace osm::inline v1::ads
