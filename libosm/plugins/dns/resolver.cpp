#include "dns/resolver.hpp"

#include <algorithm>
#include <atomic>
#include <ranges>
#include <utility>
#include <vector>

#include "base/backoff.hpp"
#include "base/maps.hpp"

namespace osm::inline v1::dns {
namespace {

constexpr Counter kDnsLookups{
    "osm_dns_lookups_total", "DNS names asked for, by result", {"result"}};

using std::chrono::seconds;

constexpr std::size_t kMaxRound = 64;  // names asked for at once
constexpr Backoff kAgain{seconds(1), seconds(30)};
// A name server may answer with an error for ever. So many of them count as an answer.
constexpr unsigned kLastingRefusals = 3;

ErrorCode code_of(Outcome outcome) {
  return outcome == Outcome::kNoName || outcome == Outcome::kNoData ? ErrorCode::kNotFound
                                                                    : ErrorCode::kUnavailable;
}

std::string reason(const Question& question, Outcome outcome) {
  const std::string record = std::string(text_of(question.type)) + " record";
  const std::string name = "DNS name " + question.name;
  switch (outcome) {
    case Outcome::kNoName:
      return name + " does not exist (NXDOMAIN); correct spec.name or the zone";
    case Outcome::kNoData:
      return name + " has no " + record + " that can be used; correct spec.type or the zone";
    case Outcome::kRefused:
      return name +
             ": the name server answers with an error; look at its log, or name another one "
             "with --dns-server";
    default:
      return name +
             ": no name server answers; check --dns-server, or /etc/resolv.conf, and the "
             "network";
  }
}

}  // namespace

struct DnsResolver::Name {
  std::optional<Resolution> good;
  Outcome outcome = Outcome::kAnswered;
  bool asked = false;
  bool settled = false;
  unsigned failures = 0;             // since the last answer with records
  std::optional<SteadyTime> gone{};  // the first NXDOMAIN without a break
  SteadyTime due{};
};

// Shared with the round in flight, which may outlive the resolver.
struct DnsResolver::Core : std::enable_shared_from_this<Core> {
  Core(const DnsResolverOptions& with, Ask with_ask)
      : options(with), ask(std::move(with_ask)), strand(with.runtime.executor) {}

  void plan();
  void start_round();
  void end_round(const std::map<Question, Found>& found);
  bool take(const Question& question, Name& name, const Found& found);
  ResourceProblem problem_of(const Question& question, const Name& name) const;

  const DnsResolverOptions options;
  const Ask ask;
  std::atomic<bool> ended = false;
  Notifier<const std::set<std::string>&> changed;

  mutable std::mutex mutex;
  std::map<Question, Name> names;
  bool healthy = true;
  bool answered_before = false;  // at least one name was
  bool asking = false;

  Strand strand;
  Subscription timer;  // on the strand
};

// On the strand.
void DnsResolver::Core::plan() {
  std::optional<SteadyTime> next;
  {
    const std::lock_guard lock(mutex);
    if (asking) return;
    for (const auto& [question, name] : names) next = std::min(name.due, next.value_or(name.due));
  }
  timer.reset();
  if (!next) return;
  const auto delay = *next - options.runtime.clock.steady_now();
  if (delay <= delay.zero()) return start_round();
  timer = strand.post_after(delay, [weak = weak_from_this()] {
    if (const auto core = weak.lock()) core->start_round();
  });
}

// On the strand.
void DnsResolver::Core::start_round() {
  std::set<Question> due;
  {
    const std::lock_guard lock(mutex);
    if (asking) return;
    const SteadyTime now = options.runtime.clock.steady_now();
    std::vector<std::pair<SteadyTime, Question>> waiting;
    for (const auto& [question, name] : names)
      if (name.due <= now) waiting.emplace_back(name.due, question);
    std::ranges::sort(waiting);  // names that are never answered do not keep others waiting
    for (const auto& [since, question] : waiting | std::views::take(kMaxRound))
      due.insert(question);
    asking = !due.empty();
  }
  if (due.empty()) return plan();
  options.runtime.blocking.post([core = shared_from_this(), due] {
    auto found = look_up(due, core->ask, core->ended);
    if (core->ended) return;
    core->strand.post([weak = core->weak_from_this(), found = std::move(found)] {
      if (const auto held = weak.lock()) held->end_round(found);
    });
  });
}

// Result: true if the answer or the problem changed.
bool DnsResolver::Core::take(const Question& question, Name& name, const Found& found) {
  options.runtime.metrics.add(kDnsLookups, {{"result", std::string(outcome_text(found.outcome))}},
                              1);
  const SteadyTime now = options.runtime.clock.steady_now();
  const auto former = std::pair(name.good, name.asked ? name.outcome : Outcome::kAnswered);
  name.asked = true;
  name.outcome = found.outcome;
  name.settled |= found.outcome == Outcome::kAnswered || found.outcome == Outcome::kNoData ||
                  found.outcome == Outcome::kNoName;
  if (found.outcome != Outcome::kNoName) name.gone.reset();
  if (found.outcome == Outcome::kAnswered) {
    name.good = found.resolution;
    name.failures = 0;
    name.due = now + std::clamp(found.ttl, options.least_ttl, options.longest_ttl);
  } else {
    ++name.failures;
    // A server that answers for other names is there: this name alone does not hold the start up.
    const bool lasting = found.outcome == Outcome::kRefused ||
                         (found.outcome == Outcome::kSilent && answered_before);
    name.settled |= lasting && name.failures >= kLastingRefusals;
    if (found.outcome == Outcome::kNoName) {
      if (!name.gone) name.gone = now;
      if (now - *name.gone >= options.gone_after && name.good) name.good = Resolution();
    }
    name.due = now + kAgain.delay(name.failures, options.runtime.rng);
  }
  const bool other = former != std::pair(name.good, name.outcome);
  if (former.second == name.outcome) return other;
  if (name.outcome == Outcome::kAnswered)
    options.runtime.log.info("a DNS name is answered again", {{"name", question.name}});
  else
    options.runtime.log.warning("a DNS name is not answered; its last addresses are kept",
                                {{"cause", reason(question, name.outcome)}});
  return other;
}

// On the strand.
void DnsResolver::Core::end_round(const std::map<Question, Found>& found) {
  std::set<std::string> ids;
  bool told = false;
  {
    const std::lock_guard lock(mutex);
    asking = false;
    const bool answered = std::ranges::any_of(
        found, [](const auto& each) { return each.second.outcome != Outcome::kSilent; });
    answered_before |= answered;
    for (const auto& [question, each] : found) {
      Name* name = find_in(names, question);
      if (!name) continue;
      const bool settled = name->settled;
      if (take(question, *name, each)) ids.insert(id_of(question));
      told |= settled != name->settled;
    }
    told |= std::exchange(healthy, answered) != answered;
  }
  if (!ids.empty()) changed.notify(ids);
  if (told) changed.notify({});
  plan();
}

ResourceProblem DnsResolver::Core::problem_of(const Question& question, const Name& name) const {
  std::string cause = reason(question, name.outcome);
  if (name.good && !name.good->instances.empty())
    cause += ". Its last " + std::to_string(name.good->instances.size()) + " addresses are kept";
  return {id_of(question), code_of(name.outcome), std::move(cause)};
}

DnsResolver::DnsResolver(const DnsResolverOptions& options, Ask ask)
    : core_(std::make_shared<Core>(options, std::move(ask))) {}

DnsResolver::~DnsResolver() {
  core_->ended = true;
  core_->strand.stop();
  core_->timer.reset();
}

void DnsResolver::follow(std::set<std::string> ids) {
  {
    const std::lock_guard lock(core_->mutex);
    std::set<Question> wanted;
    for (const std::string& id : ids)
      if (const auto question = question_of(id)) wanted.insert(*question);
    std::erase_if(core_->names, [&](const auto& entry) { return !wanted.contains(entry.first); });
    for (const Question& question : wanted) {
      const auto [at, fresh] = core_->names.try_emplace(question);
      if (fresh) at->second.due = core_->options.runtime.clock.steady_now();
    }
    if (core_->names.empty()) core_->healthy = true;  // nobody is asked
  }
  core_->strand.post([weak = std::weak_ptr(core_)] {
    if (const auto core = weak.lock()) core->plan();
  });
}

std::optional<Resolution> DnsResolver::find(const std::string& id) const {
  const auto question = question_of(id);
  const std::lock_guard lock(core_->mutex);
  const Name* name = question ? find_in(core_->names, *question) : nullptr;
  return name ? name->good : std::nullopt;
}

bool DnsResolver::has_synced() const {
  const std::lock_guard lock(core_->mutex);
  return std::all_of(core_->names.begin(), core_->names.end(),
                     [](const auto& entry) { return entry.second.settled; });
}

bool DnsResolver::healthy() const {
  const std::lock_guard lock(core_->mutex);
  return core_->healthy;
}

std::vector<ResourceProblem> DnsResolver::list_problems() const {
  const std::lock_guard lock(core_->mutex);
  std::vector<ResourceProblem> out;
  for (const auto& [question, name] : core_->names)
    if (name.asked && name.outcome != Outcome::kAnswered)
      out.push_back(core_->problem_of(question, name));
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return out;
}

Subscription DnsResolver::subscribe(
    std::function<void(const std::set<std::string>& ids)> on_change) {
  return core_->changed.subscribe(std::move(on_change));
}

Result<std::unique_ptr<ResourceResolver>> make_dns_resolver(const DnsResolverOptions& options) {
  OSM_TRY(check_servers(options.servers));
  return std::unique_ptr<ResourceResolver>(std::make_unique<DnsResolver>(
      options, make_lookup({options.servers, options.timeout, options.deadline})));
}

}  // namespace osm::inline v1::dns
