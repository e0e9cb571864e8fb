#include "root_rotation/rotation_text.hpp"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <set>
#include <utility>

#include "base/base64.hpp"
#include "base/digest.hpp"
#include "base/json.hpp"
#include "base/maps.hpp"
#include "model/proxy_digest.hpp"
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
template <class Map>
WallTime time_at(const Map& object, std::string_view name) {
  using std::chrono::seconds;
  constexpr auto kMost = std::chrono::duration_cast<seconds>(WallTime::duration::max());
  return WallTime{seconds(std::clamp(number_at(object, name), -kMost.count(), kMost.count()))};
}

std::size_t count_at(const json::object& object, std::string_view name) {
  return static_cast<std::size_t>(std::max<std::int64_t>(number_at(object, name), 0));
}

// Proxies in a text: 44 bits of number and 4 of flags each, in base64.
constexpr std::size_t kNumberBytes = 6;

void append(std::string& bytes, ProxyNumber number, std::uint8_t flags) {
  const std::uint64_t both = number << 4 | flags;
  for (std::size_t i = kNumberBytes; i-- > 0;) bytes += static_cast<char>(both >> (8 * i) & 0xff);
}

std::map<ProxyNumber, std::uint8_t> numbers_at(const json::object& object, std::string_view name) {
  std::map<ProxyNumber, std::uint8_t> numbers;
  const std::string bytes = from_base64(text_at(object, name)).value_or("");
  for (std::size_t at = 0; at + kNumberBytes <= bytes.size(); at += kNumberBytes) {
    std::uint64_t both = 0;
    for (std::size_t i = 0; i < kNumberBytes; ++i)
      both = both << 8 | static_cast<unsigned char>(bytes[at + i]);
    numbers[both >> 4] = both & 0xf;
  }
  return numbers;
}

}  // namespace

ProxyNumber number_of(const model::ProxyKey& proxy) {
  ProxyNumber number = 0;
  const Digest digest = model::digest_of(proxy);
  for (std::size_t i = 0; i < kNumberBytes; ++i) number = number << 8 | digest.bytes[i];
  return number >> 4;
}

std::string to_text(const std::vector<RootRecord>& records, const std::set<ProxyNumber>& met) {
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
                     {"distrustedAt", seconds_of(root.distrusted_at)},
                     {"latestNotAfter", seconds_of(root.latest_not_after)},
                     {"leftBehind", root.left_behind}});
  std::string proxies;
  for (const ProxyNumber number : met)
    if (proxies.size() < kMostMet * kNumberBytes) append(proxies, number, 0);
  return json::serialize(json::object{{"roots", std::move(roots)}, {"met", base64(proxies)}});
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
                       .distrusted_at = time_at(root, "distrustedAt"),
                       .latest_not_after = time_at(root, "latestNotAfter"),
                       .left_behind = text_at(root, "leftBehind")});
  }
  return records;
}

std::set<ProxyNumber> parse_met(const std::string& text) {
  std::set<ProxyNumber> met;
  const auto object = parse_json_object(text, kRecord);
  if (object.ok())
    for (const auto& [number, flags] : numbers_at(*object, "met")) met.insert(number);
  return met;
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

void add_proxies(ReplicaView& view, const model::CertificateProgress& progress,
                 const std::set<ProxyNumber>& recorded,
                 std::map<ProxyNumber, model::ProxyKey>& unrecorded) {
  if (!progress.known) return;
  for (const auto& [proxy, lacks] : progress.proxies) {
    const ProxyNumber number = number_of(proxy);
    if (!recorded.contains(number)) unrecorded.try_emplace(number, proxy);
    const int flags =
        kConnected | (lacks.bundle ? kLacksBundle : 0) | (lacks.leaf ? kLacksLeaf : 0);
    view.proxies[number] = static_cast<std::uint8_t>(flags);
    if (flags == kConnected || view.lagging.size() == ReplicaView::kMostNamed) continue;
    if (const auto workload = progress.workloads.find(proxy))
      view.lagging.push_back(workload->workload.name.str());
  }
  std::erase_if(unrecorded, [&](const auto& entry) {
    return recorded.contains(entry.first) || !progress.workloads.find(entry.second);
  });
}

std::string to_text(const ReplicaView& view) {
  json::array lagging;
  for (const std::string& name : view.lagging) lagging.emplace_back(name);
  json::object ends;
  for (const auto& [root, end] : view.latest_not_after) ends[root] = seconds_of(end);
  std::string proxies;
  std::size_t omitted = view.omitted;
  for (const int turn : {0, 1, 2})
    for (const auto& [number, flags] : view.proxies) {
      const bool lacks = (flags & (kLacksBundle | kLacksLeaf)) != 0;
      if (turn != (lacks ? 0 : flags != 0 ? 1 : 2)) continue;
      if (proxies.size() < ReplicaView::kMostProxies * kNumberBytes)
        append(proxies, number, flags);
      else
        omitted += lacks;
    }
  return json::serialize(json::object{{"follows", view.follows},
                                      {"proxies", base64(proxies)},
                                      {"omitted", omitted},
                                      {"ownLag", view.own_lag},
                                      {"lagging", std::move(lagging)},
                                      {"young", view.young},
                                      {"latestNotAfter", std::move(ends)}});
}

Result<ReplicaView> parse_view(const std::string& text) {
  OSM_TRY(const json::object object, parse_json_object(text, "a replica's report"));
  ReplicaView view{.follows = text_at(object, "follows"),
                   .proxies = numbers_at(object, "proxies"),
                   .omitted = count_at(object, "omitted"),
                   .own_lag = count_at(object, "ownLag"),
                   .young = bool_at(object, "young").value_or(false),
                   .latest_not_after = {}};
  for (const json::value& name : list_at(object, "lagging"))
    if (name.is_string()) view.lagging.emplace_back(name.get_string());
  const json::object& ends = map_at(object, "latestNotAfter");
  for (const auto& end : ends) view.latest_not_after[end.key()] = time_at(ends, end.key());
  return view;
}

ReplicaViews sum_up(const std::map<std::string, std::string>& views, const std::string& effect,
                    const Table<model::WorkloadEntry>& workloads,
                    std::map<ProxyNumber, std::uint8_t> proxies) {
  ReplicaViews all{.evidence = {.complete = !views.empty(), .waiting_for = {}},
                   .met = {},
                   .latest_not_after = {}};
  RotationEvidence& seen = all.evidence;
  std::size_t named = 0;
  const auto name = [&](const std::string& lagging) {
    if (++named <= ReplicaView::kMostNamed)
      seen.lagging += (seen.lagging.empty() ? "" : ", ") + lagging;
  };
  for (const auto& [replica, text] : views) {
    const Result<ReplicaView> view = parse_view(text);
    if (view.ok())
      for (const auto& [root, end] : view->latest_not_after)
        all.latest_not_after[root] = std::max(all.latest_not_after[root], end);
    if (!view.ok() || view->follows != effect) {
      seen.complete = false;
      seen.waiting_for += (seen.waiting_for.empty() ? "replica " : ", ") + replica;
    }
    if (!view.ok()) continue;
    // A report about an earlier record says which proxies are connected, but not what they hold.
    for (const auto& [number, flags] : view->proxies) proxies[number] |= flags;
    for (std::size_t* lag : {&seen.bundle_lag, &seen.leaf_lag, &seen.any_lag})
      *lag += view->omitted;
    for (const std::string& lagging : view->lagging) name(lagging);
    seen.own_lag += view->own_lag;
    seen.young = seen.young || view->young;
  }
  if (views.empty()) seen.waiting_for = "the replicas to be known";

  for (const auto& [number, flags] : proxies) {
    seen.bundle_lag += (flags & kLacksBundle) != 0;
    seen.leaf_lag += (flags & kLacksLeaf) != 0;
    seen.any_lag += (flags & (kLacksBundle | kLacksLeaf)) != 0;
  }
  for (const auto& workload : workloads) {
    const ProxyNumber number = number_of(workload->proxy);
    const std::uint8_t* flags = find_in(proxies, number);
    if (flags) all.met.insert(number);
    if (!workload->denied.empty()) continue;  // its proxy is refused
    ++seen.workloads;
    if ((flags || seen.young) && (!flags || (*flags & kConnected) == 0)) {
      ++seen.absent;
      name(workload->workload.name.str());
    }
  }
  return all;
}

std::size_t lag_of(const std::map<std::string, std::string>& views) {
  std::size_t lag = 0;
  for (const auto& [replica, text] : views)
    if (const auto view = parse_view(text); view.ok()) lag += view->own_lag;
  return lag;
}

}  // namespace osm::inline v1::root_rotation

namespace osm::inline v1 {

Result<certificate::KnownCa> known_ca(TextRecord& record, const std::string& root) {
  OSM_TRY(const TextRecord::Text stored, record.load());
  certificate::KnownCa known{.record = record.name()};
  if (stored.text.empty()) return known;
  OSM_TRY(const auto records, root_rotation::parse_records(stored.text));
  for (const root_rotation::RootRecord& recorded : records)
    if (recorded.name == root && is_trusted(recorded.state)) known.bundle_pem = recorded.bundle_pem;
  return known;
}

}  // namespace osm::inline v1
