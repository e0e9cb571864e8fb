#include "root_rotation/rotation_text.hpp"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <set>
#include <utility>

#include "base/digest.hpp"
#include "base/json.hpp"
#include "osm/certificate/root_rotation.hpp"

namespace osm::inline v1::root_rotation {
namespace {

namespace json = boost::json;

constexpr const char* kRecord = "the rotation's record";

Error invalid(const std::string& what) {
  return {ErrorCode::kInvalidSyntax, std::string(kRecord) + ": " + what};
}

std::int64_t seconds_of(WallTime time) {
  return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
}

// The nearest time that fits.
WallTime time_at(const json::value& object, std::string_view name) {
  using std::chrono::seconds;
  constexpr auto kMost = std::chrono::duration_cast<seconds>(WallTime::duration::max());
  return WallTime{seconds(std::clamp(number_at(object, name), -kMost.count(), kMost.count()))};
}

std::size_t count_at(const json::object& object, std::string_view name) {
  return static_cast<std::size_t>(std::max<std::int64_t>(number_at(object, name), 0));
}

}  // namespace

std::string to_text(const std::vector<RootRecord>& records) {
  json::array roots;
  for (const RootRecord& root : records)
    roots.push_back({{"name", root.name},
                     {"state", root_state_text(root.state)},
                     {"since", seconds_of(root.since)},
                     {"followedAt", seconds_of(root.followed_at)},
                     {"signedAt", seconds_of(root.signed_at)},
                     {"firstSeen", seconds_of(root.first_seen)},
                     {"bundle", root.bundle_pem},
                     {"trustDomain", root.trust_domain.str()},
                     {"distrustedAt", seconds_of(root.distrusted_at)}});
  return json::serialize(json::object{{"roots", std::move(roots)}});
}

Result<std::vector<RootRecord>> parse_records(const std::string& text) {
  OSM_TRY(const json::object object, parse_json_object(text, kRecord));
  const json::value* roots = member(object, "roots");
  if (!roots || !roots->is_array()) return invalid("it has no list `roots`");
  std::vector<RootRecord> records;
  for (const json::value& root : roots->get_array()) {
    const auto state = root_state_of(text_at(root, "state"));
    if (!state || text_at(root, "name").empty())
      return invalid("a root without a name, or with an unknown state");
    records.push_back({.name = text_at(root, "name"),
                       .state = *state,
                       .since = time_at(root, "since"),
                       .followed_at = time_at(root, "followedAt"),
                       .signed_at = time_at(root, "signedAt"),
                       .first_seen = time_at(root, "firstSeen"),
                       .bundle_pem = text_at(root, "bundle"),
                       .trust_domain = TrustDomain(text_at(root, "trustDomain")),
                       .distrusted_at = time_at(root, "distrustedAt")});
  }
  return records;
}

std::string effect_of(const std::vector<RootRecord>& records) {
  DigestBuilder builder;
  for (const RootRecord& root : records) {
    if (root.state == RootState::kInactive) continue;
    builder.add(root.name).add(root.bundle_pem).add(root.trust_domain.str());
    builder.add(std::uint64_t{root.state == RootState::kSigning});
  }
  return builder.finish().hex();
}

TrustDomains domains_of(const std::vector<RootRecord>& records, const TrustDomain& controller) {
  TrustDomains domains;
  std::set<TrustDomain> accepted, allowed;
  for (const RootRecord& root : records) {
    if (root.state == RootState::kInactive) continue;
    allowed.insert(root.trust_domain);
    if (is_trusted(root.state)) accepted.insert(root.trust_domain);
    if (root.state == RootState::kSigning) domains.signing = root.trust_domain;
  }
  domains.controller = controller;
  domains.accepted.assign(accepted.begin(), accepted.end());
  domains.allowed.assign(allowed.begin(), allowed.end());
  return domains;
}

std::string to_text(const ReplicaView& view) {
  json::array lagging;
  for (const std::string& name : view.proxies.lagging) lagging.emplace_back(name);
  return json::serialize(json::object{{"follows", view.follows},
                                      {"proxies", view.proxies.proxies},
                                      {"bundleLag", view.proxies.bundle_lag},
                                      {"leafLag", view.proxies.leaf_lag},
                                      {"ownLag", view.own_lag},
                                      {"lagging", std::move(lagging)},
                                      {"young", view.young}});
}

Result<ReplicaView> parse_view(const std::string& text) {
  OSM_TRY(const json::object object, parse_json_object(text, "a replica's report"));
  ReplicaView view{.follows = text_at(object, "follows"),
                   .proxies = {.proxies = count_at(object, "proxies"),
                               .bundle_lag = count_at(object, "bundleLag"),
                               .leaf_lag = count_at(object, "leafLag"),
                               .lagging = {}},
                   .own_lag = count_at(object, "ownLag"),
                   .young = bool_at(object, "young").value_or(false)};
  for (const json::value& name : list_at(object, "lagging"))
    if (name.is_string()) view.proxies.lagging.emplace_back(name.get_string());
  return view;
}

RotationEvidence sum_up(const std::map<std::string, std::string>& views, const std::string& effect,
                        std::size_t workloads) {
  RotationEvidence seen{.complete = !views.empty(), .waiting_for = {}};
  std::size_t connected = 0;
  for (const auto& [replica, text] : views) {
    const Result<ReplicaView> view = parse_view(text);
    if (!view.ok() || view->follows != effect) {
      seen.complete = false;
      seen.waiting_for += (seen.waiting_for.empty() ? "replica " : ", ") + replica;
      continue;
    }
    for (const std::string& name : view->proxies.lagging)
      seen.lagging += (seen.lagging.empty() ? "" : ", ") + name;
    connected += view->proxies.proxies;
    seen.bundle_lag += view->proxies.bundle_lag;
    seen.leaf_lag += view->proxies.leaf_lag;
    seen.own_lag += view->own_lag;
    seen.young = seen.young || view->young;
  }
  if (views.empty()) seen.waiting_for = "the replicas to be known";
  seen.absent = workloads > connected ? workloads - connected : 0;
  return seen;
}

}  // namespace osm::inline v1::root_rotation

namespace osm::inline v1 {

Result<certificate::KnownCa> known_ca(RotationRecord& record, const std::string& root) {
  OSM_TRY(const RotationRecord::Text stored, record.load());
  certificate::KnownCa known{.record = record.name()};
  if (stored.text.empty()) return known;
  OSM_TRY(const auto records, root_rotation::parse_records(stored.text));
  for (const root_rotation::RootRecord& recorded : records)
    if (recorded.name == root && is_trusted(recorded.state)) known.bundle_pem = recorded.bundle_pem;
  return known;
}

}  // namespace osm::inline v1
