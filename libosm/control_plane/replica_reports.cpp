#include "control_plane/replica_reports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/maps.hpp"
#include "base/times.hpp"
#include "catalog/proxy_registry.hpp"

namespace osm::inline v1::control_plane {
namespace {

constexpr std::chrono::milliseconds kCollect{50};  // acknowledgements that follow a change
constexpr std::chrono::seconds kSpacing{1};
constexpr double kBytesPerSecond = 16'000;
constexpr std::chrono::seconds kListen{2};    // time alone changes who is known to live
constexpr std::chrono::seconds kNews{6};      // a report comes within this time if there is news
constexpr std::chrono::seconds kJoining{30};  // a replica that says nothing for longer cannot say
constexpr std::chrono::seconds kOwesForLong{5};  // its proxy has a note
constexpr std::size_t kMaxChanged = 1'000;       // in a report

std::optional<SteadyTime> owes_since(const Proxy& proxy) {
  std::optional<SteadyTime> since;
  for (const ProxyTypeState& type : proxy.types)
    if (type.sent_at && (!since || *type.sent_at < *since)) since = type.sent_at;
  return since;
}

ProxyLine line_of(const ads::ReportedProxy& one) {
  ProxyLine line;
  line.presence = one.proxy ? ProxyLine::Presence::kConnected : ProxyLine::Presence::kReturning;
  line.generation = one.progress.generation;
  if (!one.proxy) return line;
  line.claimed = true;
  line.xds = one.proxy->xds;
  line.not_after = one.proxy->certificate_not_after;
  line.served_until = one.proxy->certificate_served_until;
  for (std::size_t i = 0; i < line.states.size(); ++i) line.states[i] = one.proxy->types[i].state;
  return line;
}

// Lists the changes, the newest ones if there are many.
void add_changes(const catalog::ObjectRecords::Late& late, ReplicaReport& report) {
  std::vector<std::pair<std::uint64_t, Mark>> changes;
  for (const auto& [generation, object] : late.objects)
    changes.emplace_back(generation, mark_of(object));
  for (const auto& [generation, service] : late.endpoints)
    changes.emplace_back(generation, mark_of_endpoints(service));
  std::ranges::sort(changes, std::ranges::greater{});
  if (changes.size() > kMaxChanged) {
    report.since = std::max(report.since, changes[kMaxChanged].first);
    std::erase_if(changes, [&](const auto& one) { return one.first <= report.since; });
  }
  for (const auto& [generation, mark] : changes)
    report.changed.emplace(mark, std::min(generation, report.generation));
}

}  // namespace

ReplicaReports::ReplicaReports(ReplicaReportsOptions options)
    : options_(std::move(options)),
      board_(options_.board && options_.board->confirmed_at() ? options_.board : nullptr),
      id_(fmt::format("{:016x}", options_.runtime.rng.next())),
      strand_(options_.runtime.blocking),
      reports_(strand_, options_.runtime.rng,
               {.turn = [this] { return report(); },
                .collect =
                    [this] {
                      const auto wait = next_ - options_.runtime.clock.steady_now();
                      return std::max<std::chrono::nanoseconds>(wait, kCollect);
                    }}),
      listens_(strand_, options_.runtime.rng, {.turn = [this] {
                 listen();
                 if (lags_) reports_.wake();
                 return Pause{kListen};
               }}) {
  others_.publish(std::make_shared<const OtherReplicas>());
}

void ReplicaReports::start(ads::ProgressHost& proxies) {
  proxies_ = &proxies;
  if (board_ == nullptr) return;
  strand_.post([this] { publish(text_of({.id = id_})); });
  listens_.wake();
  subscriptions_.push_back(board_->subscribe([this] { strand_.post([this] { listen(); }); }));
  subscriptions_.push_back(options_.mesh.subscribe_looks([this] { touch(); }));
  subscriptions_.push_back(options_.verdicts.subscribe([this] { touch(); }));
  subscriptions_.push_back(proxies.subscribe_progress([this](const auto*) { touch(); }));
}

void ReplicaReports::touch() {
  if (board_ != nullptr) reports_.wake();
}

// Precondition: on the strand, as for all that follow.
void ReplicaReports::listen() {
  const auto before = others_.load();
  OtherReplicas next{.known = false, .replicas = before->replicas};
  auto said = board_->read(kReportTopic);
  if (said.ok()) {
    next = {};
    const SteadyTime now = options_.runtime.clock.steady_now();
    const auto mesh = options_.mesh.snapshots().load();
    const std::uint64_t generation = mesh ? mesh->generation : 0;
    std::erase_if(heard_, [&](const auto& one) { return !said->contains(one.first); });
    for (auto& [name, text] : *said) {
      Heard& heard = heard_[name];
      if (heard.text != text) {
        auto report = parse_report(text);
        heard.report = report ? std::make_shared<const ReplicaReport>(*std::move(report)) : nullptr;
        heard.text = std::move(text);
        heard.generation = heard.awaited = generation;
      }
      note_generation(heard, generation, now);
      const ReplicaReport* report = heard.report.get();
      if (report != nullptr && (report->left || report->id == id_)) continue;
      const bool silent = heard.text.empty() || (report != nullptr && report->generation == 0);
      // Also one of the same name that has started again.
      if (!std::exchange(heard.silent, silent) && silent) heard.joined = now;
      next.replicas.push_back(
          {name, heard.report, silent && now - heard.joined < kJoining, heard.generation});
    }
  }
  if (next == *before) return;
  if (next.replicas.size() != before->replicas.size()) touch();
  others_.publish(std::make_shared<const OtherReplicas>(std::move(next)));
  changed_.notify();
}

// No news for long says that nothing has changed there.
void ReplicaReports::note_generation(Heard& heard, std::uint64_t generation, SteadyTime now) {
  if (heard.awaited > heard.generation && now - heard.awaited_since >= kNews)
    heard.generation = heard.awaited;
  if (heard.awaited > heard.generation || heard.awaited == generation) return;
  heard.awaited = generation;
  heard.awaited_since = now;
}

Pause ReplicaReports::report() {
  const bool alone = others_.load()->replicas.empty();
  std::string text = text_of(alone ? ReplicaReport{.id = id_} : made());
  const auto takes =
      std::chrono::duration<double>(static_cast<double>(text.size()) / kBytesPerSecond);
  if (text == told_) return {};
  next_ = options_.runtime.clock.steady_now() +
          std::max<std::chrono::nanoseconds>(
              kSpacing, std::chrono::duration_cast<std::chrono::nanoseconds>(takes));
  publish(std::move(text));
  return {};
}

// The progress is read before the mesh: a proxy is never ahead of what the report says of the mesh.
ReplicaReport ReplicaReports::made() {
  ReplicaReport report{.id = id_};
  const std::vector<ads::ReportedProxy> proxies = proxies_->report();
  std::uint64_t oldest = UINT64_MAX;
  for (const ads::ReportedProxy& one : proxies)
    if (one.progress.generation > 0) oldest = std::min(oldest, one.progress.generation);
  const catalog::LateChanges late = options_.mesh.changed_after(oldest);
  if (!late.snapshot) return report;
  report.generation = late.snapshot->generation;
  report.digests = *late.snapshot->digests;
  report.since = std::min(oldest, report.generation);
  add_changes(late.changes, report);

  for (const certificate::ProxyCertificate& one : options_.certificates()) {
    const model::ProxyKey machine{one.ns, one.proxy_id, WorkloadKind::kMachine};
    const model::ProxyKey key = late.snapshot->workloads.find(machine)
                                    ? machine
                                    : model::ProxyKey{one.ns, one.proxy_id, WorkloadKind::kPod};
    ProxyLine line;
    line.claimed = one.claimed;
    line.not_after = one.not_after;
    report.proxies.insert_or_assign(mark_of(key), line);
  }
  const Clock& clock = options_.runtime.clock;
  const SteadyTime now = clock.steady_now();
  std::map<model::ProxyKey, WallTime> owing;
  lags_ = false;
  for (const ads::ReportedProxy& one : proxies) {
    const model::ProxyKey& key = one.progress.proxy;
    const Mark mark = mark_of(key);
    report.proxies.insert_or_assign(mark, line_of(one));
    ProxyNote note;
    if (!one.proxy) continue;
    for (std::size_t i = 0; i < note.words.size(); ++i)
      note.words[i] = one.proxy->types[i].nack_detail;
    const auto since = owes_since(*one.proxy);
    lags_ |= since.has_value();
    if (since && now - *since >= kOwesForLong) {
      // The calendar's clock jumps a little. A mesh at rest publishes nothing.
      const WallTime* told = find_in(owing_, key);
      const WallTime owes = clock.wall_now() - (now - *since);
      note.owes_since = told && std::chrono::abs(*told - owes) < kSpacing * 2 ? *told : owes;
      owing.emplace(key, note.owes_since);
    }
    if (note != ProxyNote()) report.notes.emplace(mark, std::move(note));
  }
  owing_ = std::move(owing);
  report.refusals = options_.verdicts.list();
  return report;
}

void ReplicaReports::publish(std::string text) {
  const Status told = board_->publish(kReportTopic, text);
  if (reports_.first_failure(told))
    options_.runtime.log.warning(
        "other replicas do not learn which proxies this one has, and count none",
        {{"cause", told.error().text()}});
  told_ = std::move(text);
}

nack_provenance::Refusals ReplicaReports::refusals() const {
  nack_provenance::Refusals all;
  const auto others = others_.load();
  for (const OtherReplica& other : others->replicas) {
    if (!other.report) continue;
    for (const auto& [object, by] : other.report->refusals)
      for (const auto& [proxy, verdict] : by)
        all[object].emplace(proxy, verdict).first->second.replica = other.name;
  }
  return all;
}

void ReplicaReports::stop() {
  subscriptions_.clear();
  strand_.stop();
  if (board_ != nullptr && proxies_ != nullptr && !stopped_.exchange(true))
    publish(text_of({.id = id_, .left = true}));
}

}  // namespace osm::inline v1::control_plane
