#include "endpoint/resolution_table.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "base/maps.hpp"
#include "base/strand.hpp"
#include "osm/notifier.hpp"

namespace osm::inline v1::endpoint {
namespace {

// A platform may refuse an id for ever. So many refusals count as an answer.
constexpr unsigned kLastingRefusals = 3;

class ResolutionTable final : public ResourceResolver {
 public:
  ResolutionTable(const ResolutionTableOptions& options,
                  std::unique_ptr<ResolutionPlatform> platform)
      : options_(options),
        shared_(std::make_shared<Shared>(options.runtime.executor, std::move(platform))) {}
  ~ResolutionTable() override {
    shared_->strand.stop();  // first, so that no answer counts that the end itself makes
    shared_->ended = true;
    shared_->platform->end();
  }

  std::string id() const override { return options_.id; }
  void follow(std::set<std::string> ids) override;
  std::optional<Resolution> find(const std::string& id) const override;
  bool has_synced() const override;
  bool healthy() const override;
  std::vector<ResourceProblem> list_problems() const override;
  Subscription subscribe(std::function<void(const std::set<std::string>& ids)> on_change) override {
    return changed_.subscribe(std::move(on_change));
  }

 private:
  struct Entry {
    std::optional<Resolution> good{};
    Outcome outcome = Outcome::kAnswered;  // of the last answer
    Error fault{};                         // if it is none
    bool asking = false;
    bool settled = false;
    unsigned failures = 0;             // since the last good answer
    unsigned refusals = 0;             // the same
    std::optional<SteadyTime> gone{};  // the first "not found" without a break
    SteadyTime due{};
  };
  // Shared with questions in flight, which may outlive the table.
  struct Shared {
    Shared(Executor& executor, std::unique_ptr<ResolutionPlatform> of)
        : strand(executor), platform(std::move(of)) {}
    Strand strand;
    const std::unique_ptr<ResolutionPlatform> platform;
    std::atomic<bool> ended = false;
  };

  void plan();
  void ask(const std::set<std::string>& ids);
  void end(const ResolutionAnswers& answers);
  bool take(const std::string& id, Entry& entry, const ResolutionAnswer& answer);
  void take_fault(Entry& entry);
  SteadyTime now() const { return options_.runtime.clock.steady_now(); }
  bool paused() const {
    const auto until = shared_->platform->paused_until();
    return until && *until > now();
  }

  const ResolutionTableOptions options_;
  const std::shared_ptr<Shared> shared_;
  Notifier<const std::set<std::string>&> changed_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  std::size_t in_flight_ = 0;
  bool healthy_ = true;
  bool answered_before_ = false;  // for at least one id
  std::optional<Error> problem_;  // of the whole platform
  Subscription timer_;            // on the strand
};

// On the strand.
void ResolutionTable::plan() {
  std::vector<std::set<std::string>> questions;
  std::optional<SteadyTime> next;
  const SteadyTime at = now();
  const SteadyTime pause = shared_->platform->paused_until().value_or(at);
  {
    const std::lock_guard lock(mutex_);
    std::vector<std::pair<SteadyTime, std::string>> due;
    for (const auto& [id, entry] : entries_) {
      if (entry.asking) continue;
      const SteadyTime from = std::max(entry.due, pause);
      if (from <= at)
        due.emplace_back(entry.due, id);
      else
        next = std::min(from, next.value_or(from));
    }
    std::ranges::sort(due);
    // The rest follows when a question ends.
    for (const auto& [since, id] : due) {
      if (questions.empty() || questions.back().size() == options_.ids_per_question) {
        if (in_flight_ == options_.questions_at_once) break;
        ++in_flight_;
        questions.emplace_back();
      }
      entries_.at(id).asking = true;
      questions.back().insert(id);
    }
  }
  for (const auto& ids : questions) ask(ids);
  timer_.reset();
  if (next) timer_ = shared_->strand.post_after(*next - at, [this] { plan(); });
}

void ResolutionTable::ask(const std::set<std::string>& ids) {
  options_.runtime.blocking.post([this, shared = shared_, ids] {
    if (shared->ended) return;
    auto answers = shared->platform->ask(ids);
    shared->strand.post([this, answers = std::move(answers)] { end(answers); });
  });
}

// On the strand.
void ResolutionTable::end(const ResolutionAnswers& answers) {
  std::set<std::string> ids;
  bool told = false;
  {
    const std::lock_guard lock(mutex_);
    --in_flight_;
    const bool answered = std::ranges::any_of(
        answers, [](const auto& each) { return each.second.outcome != Outcome::kSilent; });
    answered_before_ |= answered;
    const auto now_problem = shared_->platform->problem();
    const bool now_healthy = (answered || paused()) && !now_problem;
    told = std::exchange(problem_, now_problem) != now_problem;
    told |= std::exchange(healthy_, now_healthy) != now_healthy;
    for (const auto& [id, answer] : answers) {
      Entry* entry = find_in(entries_, id);
      if (!entry) continue;
      const bool settled = entry->settled;
      if (take(id, *entry, answer)) ids.insert(id);
      told |= settled != entry->settled;
    }
  }
  if (!ids.empty()) changed_.notify(ids);
  if (told) changed_.notify({});
  plan();
}

// Result: true if the answer or the problem changed.
bool ResolutionTable::take(const std::string& id, Entry& entry, const ResolutionAnswer& answer) {
  const auto former = std::tuple(entry.good, entry.outcome, entry.fault);
  entry.asking = false;
  entry.outcome = answer.outcome;
  entry.fault = answer.fault;
  if (answer.outcome == Outcome::kAnswered)
    entry = {.good = answer.resolution, .settled = true, .due = now() + answer.again_after};
  else
    take_fault(entry);
  shared_->platform->report(id, answer, std::get<Outcome>(former));
  return former != std::tuple(entry.good, entry.outcome, entry.fault);
}

void ResolutionTable::take_fault(Entry& entry) {
  entry.due = now();
  if (paused()) return;
  entry.due += options_.backoff.delay(++entry.failures, options_.runtime.rng);
  const bool missing = entry.outcome == Outcome::kNotFound;
  const bool silent = entry.outcome == Outcome::kSilent;
  if (!missing) entry.gone.reset();
  if (silent && !options_.silence_counts) return;
  // A platform that answers for other ids is there: a silent id does not hold the start up.
  const bool lasting = ++entry.refusals >= kLastingRefusals && (!silent || answered_before_);
  if (missing || entry.outcome == Outcome::kNoData || lasting) entry.settled = true;
  if (!missing) return;
  if (!entry.gone) entry.gone = now();
  if (now() - *entry.gone >= options_.gone_after && entry.good) entry.good->instances.clear();
}

void ResolutionTable::follow(std::set<std::string> ids) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [&](const auto& entry) { return !ids.contains(entry.first); });
    for (const std::string& id : ids)
      if (shared_->platform->knows(id)) entries_.try_emplace(id, Entry{.due = now()});
    if (entries_.empty()) healthy_ = true;  // nobody is asked
  }
  shared_->strand.post([this] { plan(); });
}

std::optional<Resolution> ResolutionTable::find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const Entry* entry = find_in(entries_, id);
  return entry ? entry->good : std::nullopt;
}

bool ResolutionTable::has_synced() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(entries_, [](const auto& entry) { return entry.second.settled; });
}

bool ResolutionTable::healthy() const {
  const std::lock_guard lock(mutex_);
  return healthy_;
}

std::vector<ResourceProblem> ResolutionTable::list_problems() const {
  const std::lock_guard lock(mutex_);
  std::vector<ResourceProblem> out;
  // One problem in place of the same one for each id.
  if (problem_) {
    if (!entries_.empty()) out.push_back({"", problem_->code, problem_->message});
    return out;
  }
  for (const auto& [id, entry] : entries_) {
    if (entry.outcome == Outcome::kAnswered) continue;
    std::string cause = entry.fault.message;
    const std::size_t kept = entry.good ? entry.good->instances.size() : 0;
    if (options_.problems_count_kept && kept > 0)
      cause += ". Its last " + std::to_string(kept) + " addresses are kept";
    out.push_back({id, entry.fault.code, std::move(cause)});
  }
  return out;
}

}  // namespace

std::unique_ptr<ResourceResolver> make_resolution_table(
    const ResolutionTableOptions& options, std::unique_ptr<ResolutionPlatform> platform) {
  return std::make_unique<ResolutionTable>(options, std::move(platform));
}

}  // namespace osm::inline v1::endpoint
