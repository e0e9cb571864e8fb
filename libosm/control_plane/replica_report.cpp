#include "control_plane/replica_report.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <functional>
#include <set>
#include <tuple>
#include <utility>

#include "base/base64.hpp"
#include "base/digest.hpp"
#include "base/json.hpp"
#include "base/maps.hpp"
#include "base/utf8.hpp"
#include "catalog/mesh_hash.hpp"
#include "model/proxy_digest.hpp"
#include "osm/spec/object_mesh_spec.hpp"

namespace osm::inline v1::control_plane {
namespace {

namespace json = boost::json;

constexpr std::int64_t kVersion = 2;
constexpr std::size_t kMarkBytes = 6;
// A proxy's record: mark, flags, place of its generation in the list, end of its certificate, end
// of service.
constexpr std::size_t kRecordBytes = kMarkBytes + 2 + 1 + 4 + 4;
constexpr std::size_t kGenerations = 256;  // in the list
constexpr std::size_t kNoteShare = 8;      // notes take an eighth of the text at most
constexpr std::size_t kRefusalShare = 4;   // refusals a quarter
constexpr std::size_t kWordsBytes = 512;   // of a proxy
constexpr std::size_t kFieldBytes = 96;    // of what surrounds the records

std::uint64_t number_in(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint64_t number = 0;
  for (std::size_t i = size; i-- > 0;)
    number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
  return number;
}

void append(std::string& out, std::uint64_t number, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) out.push_back(static_cast<char>(number >> (8 * i)));
}

Mark mark_of_digest(const Digest& digest) {
  const std::string_view bytes(reinterpret_cast<const char*>(digest.bytes.data()), kMarkBytes);
  return number_in(bytes, 0, kMarkBytes);
}

std::uint64_t seconds_of(WallTime time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time.time_since_epoch()).count();
  return static_cast<std::uint64_t>(std::clamp<std::int64_t>(seconds, 0, UINT32_MAX));
}
WallTime time_of(std::uint64_t seconds) { return WallTime(std::chrono::seconds(seconds)); }

// --- digests ---

template <class Digests, class Visit>
void for_each_part(Digests& digests, Visit visit) {
  for (auto* buckets : {&digests.policies, &digests.workloads, &digests.endpoints})
    for (auto& bucket : *buckets) visit(bucket);
  visit(digests.settings);
}

std::string bytes_of(const model::MeshDigests& digests) {
  std::string bytes;
  for_each_part(digests, [&](std::uint32_t part) { append(bytes, part, sizeof part); });
  return bytes;
}

bool read_digests(std::string_view text, model::MeshDigests& digests) {
  const std::string bytes = from_base64(text).value_or("");
  if (bytes.size() != bytes_of(digests).size()) return false;
  std::size_t at = 0;
  for_each_part(digests, [&](std::uint32_t& part) {
    part = static_cast<std::uint32_t>(number_in(bytes, at, sizeof part));
    at += sizeof part;
  });
  return true;
}

// --- proxies ---

// Two bits for each state, then presence, `claimed` and the variant.
std::uint64_t flags_of(const ProxyLine& line) {
  std::uint64_t flags = 0;
  for (const SyncState state : line.states) flags = flags << 2 | static_cast<unsigned>(state);
  flags = flags << 2 | static_cast<unsigned>(line.presence);
  return flags << 2 | static_cast<unsigned>(line.claimed) << 1 |
         static_cast<unsigned>(line.xds == XdsVariant::kDelta);
}

void set_flags(ProxyLine& line, std::uint64_t flags) {
  line.xds = (flags & 1) != 0 ? XdsVariant::kDelta : XdsVariant::kSotw;
  line.claimed = (flags & 2) != 0;
  line.presence = static_cast<ProxyLine::Presence>(std::min<std::uint64_t>(flags >> 2 & 3, 2));
  flags >>= 4;
  for (std::size_t i = line.states.size(); i-- > 0; flags >>= 2)
    line.states[i] = static_cast<SyncState>(flags & 3);
}

// The generations of proxies, the newest ones if there are many. 0 stands for the others.
std::vector<std::uint64_t> generations_of(const ReplicaReport& report) {
  std::set<std::uint64_t, std::greater<>> all;
  for (const auto& [mark, line] : report.proxies) all.insert(line.generation);
  all.erase(0);
  std::vector<std::uint64_t> some{0};
  for (const std::uint64_t generation : all) {
    if (some.size() == kGenerations) break;
    some.push_back(generation);
  }
  return some;
}

std::string records_of(const ReplicaReport& report, const std::vector<std::uint64_t>& generations,
                       std::size_t most) {
  // Ordered, so that equal reports are equal texts; those that lag come first.
  std::vector<std::pair<Mark, const ProxyLine*>> lines;
  for (const auto& [mark, line] : report.proxies) lines.emplace_back(mark, &line);
  std::ranges::sort(lines, {}, [](const auto& line) {
    return std::tuple(line.second->presence, line.second->generation, line.first);
  });
  std::string bytes;
  for (const auto& [mark, line] : lines) {
    if (bytes.size() == most * kRecordBytes) break;
    const auto at = std::ranges::find(generations, line->generation);
    append(bytes, mark, kMarkBytes);
    append(bytes, flags_of(*line), 2);
    append(bytes, at == generations.end() ? 0 : static_cast<std::size_t>(at - generations.begin()),
           1);
    append(bytes, seconds_of(line->not_after), 4);
    append(bytes, seconds_of(line->served_until), 4);
  }
  return bytes;
}

bool read_records(std::string_view text, const std::vector<std::uint64_t>& generations,
                  ReplicaReport& report) {
  const auto bytes = from_base64(text);
  if (!bytes || bytes->size() % kRecordBytes != 0) return false;
  for (std::size_t at = 0; at < bytes->size(); at += kRecordBytes) {
    ProxyLine line;
    set_flags(line, number_in(*bytes, at + kMarkBytes, 2));
    const std::size_t place = number_in(*bytes, at + kMarkBytes + 2, 1);
    line.generation = place < generations.size() ? generations[place] : 0;
    line.not_after = time_of(number_in(*bytes, at + kMarkBytes + 3, 4));
    line.served_until = time_of(number_in(*bytes, at + kMarkBytes + 7, 4));
    report.proxies.insert_or_assign(number_in(*bytes, at, kMarkBytes), line);
  }
  return true;
}

// --- lists ---

// The items of `list` that fit into `room` bytes.
template <class List, class ToJson>
json::array fitting(const List& list, std::size_t room, ToJson to_json) {
  json::array out;
  std::size_t size = 0;
  for (const auto& item : list) {
    json::object one = to_json(item);
    size += json::serialize(one).size() + 1;
    if (size > room) break;
    out.push_back(std::move(one));
  }
  return out;
}

std::string short_words(std::string_view text) { return to_utf8(text.substr(0, kWordsBytes)); }

json::object to_json(const std::pair<const Mark, ProxyNote>& note) {
  json::object out{{"proxy", note.first}, {"owes_since", seconds_of(note.second.owes_since)}};
  for (const XdsType type : kXdsTypes)
    if (const std::string& said = note.second.words[static_cast<std::size_t>(type)]; !said.empty())
      out[xds_type_text(type)] = short_words(said);
  return out;
}

// One for each proxy and object, so that an object that many refuse does not go as a whole.
struct Refusal {
  const ObjectKey& object;
  const model::ProxyKey& proxy;
  const nack_provenance::Verdict& verdict;
};

std::vector<Refusal> refusals_of(const ReplicaReport& report) {
  std::vector<Refusal> out;
  for (const auto& [object, by] : report.refusals)
    for (const auto& [proxy, verdict] : by) out.push_back({object, proxy, verdict});
  return out;
}

json::object to_json(const Refusal& refusal) {
  return {{"kind", refusal.object.kind},
          {"group", refusal.object.group},
          {"namespace", refusal.object.ns},
          {"name", refusal.object.name},
          {"workload_namespace", refusal.verdict.workload.ns},
          {"workload", refusal.verdict.workload.name},
          {"uuid", refusal.proxy.id.str()},
          {"pod", refusal.proxy.kind == WorkloadKind::kPod},
          {"type", xds_type_text(refusal.verdict.type)},
          {"keeping", refusal.verdict.keeping},
          {"words", to_utf8(refusal.verdict.detail)}};
}

// Not negative.
std::uint64_t count_at(const json::value& map, std::string_view name) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(number_at(map, name), 0));
}
std::uint64_t count_of(const json::value& value) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(whole_number(value).value_or(0), 0));
}

void read_notes(const json::array& notes, ReplicaReport& report) {
  for (const json::value& one : notes) {
    ProxyNote& note = report.notes[count_at(one, "proxy")];
    note.owes_since = time_of(std::min<std::uint64_t>(count_at(one, "owes_since"), UINT32_MAX));
    for (const XdsType type : kXdsTypes)
      note.words[static_cast<std::size_t>(type)] = text_at(one, xds_type_text(type));
  }
}

void read_refusals(const json::array& refusals, ReplicaReport& report) {
  for (const json::value& one : refusals) {
    const std::string group = text_at(one, "group"), kind = text_at(one, "kind");
    const ObjectKey object(GroupKind{group, kind}, text_at(one, "namespace"), text_at(one, "name"));
    nack_provenance::Verdict verdict;
    verdict.workload = {text_at(one, "workload_namespace"), text_at(one, "workload")};
    const model::ProxyKey proxy{
        verdict.workload.ns, ProxyId(text_at(one, "uuid")),
        bool_at(one, "pod").value_or(false) ? WorkloadKind::kPod : WorkloadKind::kMachine};
    const auto type = std::ranges::find(kXdsTypes, text_at(one, "type"), xds_type_text);
    if (type != kXdsTypes.end()) verdict.type = *type;
    verdict.keeping = bool_at(one, "keeping").value_or(false);
    verdict.detail = text_at(one, "words");
    report.refusals[object].insert_or_assign(proxy, std::move(verdict));
  }
}

// --- sums ---

// The generation that a proxy has when it has applied the object.
std::uint64_t wanted(const ReplicaReport& report, const ObjectKey& object,
                     const model::MeshSnapshot& snapshot) {
  std::uint64_t newest = 0;
  const auto add = [&](Mark mark) {
    if (const std::uint64_t* changed = find_in(report.changed, mark))
      newest = std::max(newest, *changed);
  };
  add(mark_of(object));
  // Clients see a workload's change as a change of endpoints.
  if (object.is(model::kWorkloadKind))
    for (const auto& entry : snapshot.workloads)
      if (entry->workload.name == WorkloadName{object.ns, object.name})
        for (const ServiceName& service : entry->workload.services) add(mark_of_endpoints(service));
  return newest == 0 ? report.since : newest;
}

const nack_provenance::Verdict* refusal_of(const ReplicaReport& report, const ObjectKey& object,
                                           const model::ProxyKey& proxy) {
  const auto* by = find_in(report.refusals, object);
  return by != nullptr ? find_in(*by, proxy) : nullptr;
}

bool is_stale(const ProxyLine& line) {
  return std::ranges::find(line.states, SyncState::kStale) != line.states.end();
}

std::string words_of(const ReplicaReport& report, Mark proxy) {
  const ProxyNote* note = find_in(report.notes, proxy);
  if (note != nullptr)
    for (const std::string& said : note->words)
      if (!said.empty()) return said;
  return {};
}

}  // namespace

ObjectKey known_as(const ObjectKey& object, const std::string& control_plane) {
  if (object.is(kinds::kVirtualMachine) || object.is(kinds::kDnsResource) ||
      object.is(kinds::kAzureResource) || object.is(kinds::kPod))
    return {model::kWorkloadKind, object.ns, object.name};
  const bool elsewhere = !control_plane.empty() && !object.ns.empty() &&
                         (object.ns != control_plane || object.name != spec::kMeshConfigName);
  if (object.is(kinds::kMeshConfig) && !elsewhere) return model::mesh_config_key();
  return object;
}

Mark mark_of(const model::ProxyKey& proxy) { return mark_of_digest(model::digest_of(proxy)); }
Mark mark_of(const ObjectKey& object) { return mark_of_digest(digest_of(object.str())); }
Mark mark_of_endpoints(const ServiceName& service) {
  return mark_of_digest(digest_of("endpoints of " + service.str()));
}

std::string text_of(const ReplicaReport& report, std::size_t max_bytes) {
  json::object out{{"version", kVersion}, {"id", report.id}};
  if (report.left) out["left"] = true;
  if (report.left || report.generation == 0) return json::serialize(out);
  const std::vector<std::uint64_t> generations = generations_of(report);
  json::array changed;
  for (const auto& [mark, generation] : report.changed) {
    changed.push_back(mark);
    changed.push_back(generation);
  }
  out["generation"] = report.generation;
  out["since"] = report.since;
  out["digests"] = base64(bytes_of(report.digests));
  out["generations"] = json::array(generations.begin(), generations.end());
  out["changed"] = std::move(changed);
  const auto write = [](const auto& one) { return to_json(one); };
  out["notes"] = fitting(report.notes, max_bytes / kNoteShare, write);
  out["refusals"] = fitting(refusals_of(report), max_bytes / kRefusalShare, write);
  const std::size_t used = json::serialize(out).size() + kFieldBytes;
  const std::size_t most = used >= max_bytes ? 0 : (max_bytes - used) / 4 * 3 / kRecordBytes;
  out["proxies"] = base64(records_of(report, generations, most));
  out["all_proxies"] = report.all_proxies && report.proxies.size() <= most;
  return json::serialize(out);
}

std::optional<ReplicaReport> parse_report(std::string_view text) {
  const auto parsed = parse_json_object(text, "the report of a replica");
  if (!parsed.ok() || number_at(*parsed, "version") != kVersion) return std::nullopt;
  const json::value whole = *parsed;
  ReplicaReport report;
  report.id = text_at(whole, "id");
  report.left = bool_at(whole, "left").value_or(false);
  report.generation = count_at(whole, "generation");
  if (report.generation == 0) return report;
  report.since = count_at(whole, "since");
  std::vector<std::uint64_t> generations;
  for (const json::value& one : list_at(whole, "generations")) generations.push_back(count_of(one));
  const json::array& changed = list_at(whole, "changed");
  for (std::size_t i = 0; i + 1 < changed.size(); i += 2)
    report.changed[count_of(changed[i])] = count_of(changed[i + 1]);
  if (!read_digests(text_at(whole, "digests"), report.digests) ||
      !read_records(text_at(whole, "proxies"), generations, report))
    return std::nullopt;
  report.all_proxies = bool_at(whole, "all_proxies").value_or(false);
  read_notes(list_at(whole, "notes"), report);
  read_refusals(list_at(whole, "refusals"), report);
  return report;
}

std::size_t add_others(const OtherReplicas& others, const ObjectKey& object,
                       const catalog::ObjectState& state,
                       std::map<model::ProxyKey, WorkloadName>& waited_for, ObjectStatus& status) {
  std::size_t refused_for_good = 0;
  std::map<model::ProxyKey, Mark> marks;
  if (!others.replicas.empty())
    for (const auto& [proxy, workload] : waited_for) marks.emplace(proxy, mark_of(proxy));
  for (const OtherReplica& other : others.replicas) {
    ++status.replicas;
    if (!other.report || other.report->generation == 0) {
      (other.starting ? status.replicas_behind : status.replicas_unknown).push_back(other.name);
      continue;
    }
    const ReplicaReport& report = *other.report;
    const bool same = state.generation <= other.heard &&
                      catalog::is_same_for(object, state.entries, *state.snapshot, report.digests);
    if (!same) status.replicas_behind.push_back(other.name);
    if (!report.all_proxies) status.replicas_unknown.push_back(other.name);
    const std::uint64_t newest = wanted(report, object, *state.snapshot);
    for (auto at = waited_for.begin(); at != waited_for.end();) {
      const Mark mark = marks.at(at->first);
      const ProxyLine* line = find_in(report.proxies, mark);
      if (line == nullptr || line->presence == ProxyLine::Presence::kExpected) {
        ++at;
        continue;
      }
      ++status.concerned;
      const nack_provenance::Verdict* verdict = refusal_of(report, object, at->first);
      if (verdict == nullptr && same && line->generation >= newest) {
        ++status.applied;
      } else {
        refused_for_good += verdict != nullptr;
        status.lagging.push_back({at->first.id, at->second, verdict != nullptr || is_stale(*line),
                                  verdict != nullptr ? verdict->detail : words_of(report, mark)});
      }
      at = waited_for.erase(at);
    }
  }
  status.replicas_known = others.known;
  return refused_for_good;
}

void for_each_elsewhere(const OtherReplicas& others, const model::MeshSnapshot& snapshot,
                        const std::function<void(const model::WorkloadEntry&, const ProxyLine&,
                                                 const OtherReplica&)>& visit) {
  if (others.replicas.empty()) return;
  for (const auto& entry : snapshot.workloads) {
    const Mark mark = mark_of(entry->proxy);
    const ProxyLine* best = nullptr;
    const OtherReplica* where = nullptr;
    for (const OtherReplica& other : others.replicas) {
      const ProxyLine* line = other.report ? find_in(other.report->proxies, mark) : nullptr;
      if (line == nullptr || (best != nullptr && best->presence <= line->presence)) continue;
      best = line;
      where = &other;
    }
    if (best != nullptr) visit(*entry, *best, *where);
  }
}

Proxy proxy_of(const model::WorkloadEntry& entry, const ProxyLine& line,
               const OtherReplica& replica, const CommonName& common_name, const Clock& clock) {
  Proxy proxy;
  proxy.id = entry.proxy.id;
  proxy.common_name = common_name;
  proxy.identity = identity_of(entry.workload.account);
  proxy.workload = entry.workload.name;
  proxy.kind = entry.proxy.kind;
  proxy.services = entry.workload.services;
  proxy.certificate_not_after = line.not_after;
  proxy.certificate_served_until = line.served_until;
  proxy.xds = line.xds;
  proxy.replica = replica.name;
  const ProxyNote* note = find_in(replica.report->notes, mark_of(entry.proxy));
  for (std::size_t i = 0; i < proxy.types.size(); ++i) {
    ProxyTypeState& type = proxy.types[i];
    type.state = line.states[i];
    if (note == nullptr) continue;
    type.nack_detail = note->words[i];
    if (type.state == SyncState::kPending && note->owes_since != WallTime())
      type.sent_at = clock.steady_now() - (clock.wall_now() - note->owes_since);
  }
  return proxy;
}

}  // namespace osm::inline v1::control_plane
