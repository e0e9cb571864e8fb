#include "control_plane/problem_journal.hpp"

namespace osm::inline v1::control_plane {
namespace {

constexpr Gauge kProblems{
    "osm_problems", "Problems with objects and roots, by code and severity", {"code", "severity"}};

// Other errors leave out a part of the mesh; with a root all of it ends.
LogLevel level_of(const Problem& problem) {
  if (problem.code == ErrorCode::kCertificateExpired) return LogLevel::kError;
  return severity_of(problem.code) == Severity::kNotice ? LogLevel::kInfo : LogLevel::kWarning;
}

}  // namespace

ProblemJournal::ProblemJournal(const ProblemSources& sources, Executor& executor, LogSink& log,
                               MetricsSink& metrics)
    : sources_(sources), log_(log), metrics_(metrics), strand_(executor) {
  const auto on_change = [this](const auto&) { trigger(); };
  subscriptions_.push_back(sources_.spec.subscribe(on_change));
  for (WorkloadProvider* provider : sources_.workloads)
    subscriptions_.push_back(provider->subscribe_workloads(on_change));
  subscriptions_.push_back(sources_.snapshots.subscribe(on_change));
  trigger();
}

ProblemJournal::~ProblemJournal() { stop(); }

void ProblemJournal::stop() {
  subscriptions_.clear();
  strand_.stop();
}

// Problems of the rooms that read objects; the catalog logs its own.
std::vector<Problem> ProblemJournal::inputs() const {
  std::vector<Problem> problems = sources_.spec.list_problems();
  for (const WorkloadProvider* provider : sources_.workloads)
    for (Problem& problem : provider->list_problems()) problems.push_back(std::move(problem));
  if (sources_.roots)
    for (Problem& problem : sources_.roots()) problems.push_back(std::move(problem));
  if (sources_.refused)
    for (Problem& problem : sources_.refused()) {
      problem.locate(sources_.spec.source_of(problem.object).value_or(ObjectSource{}));
      problems.push_back(std::move(problem));
    }
  return problems;
}

std::vector<Problem> ProblemJournal::list() const {
  std::set<Problem> all;
  for (Problem& problem : inputs()) all.insert(std::move(problem));
  if (const auto snapshot = sources_.snapshots.load(); snapshot && snapshot->problems) {
    for (Problem problem : *snapshot->problems) {
      if (problem.path.empty())
        problem.locate(sources_.spec.source_of(problem.object).value_or(ObjectSource{}));
      all.insert(std::move(problem));
    }
  }
  return {all.begin(), all.end()};
}

void ProblemJournal::trigger() {
  if (!triggered_.exchange(true)) strand_.post([this] { refresh(); });
}

void ProblemJournal::announce() {
  if (announced_.exchange(true)) return;
  strand_.post([this] {
    announced_ = false;
    changed_.notify();
  });
}

void ProblemJournal::refresh() {
  triggered_ = false;
  std::set<Problem> now;
  for (const Problem& problem : inputs()) {
    Problem key = problem;
    key.line = 0;
    if (!now.insert(key).second || logged_.contains(key)) continue;
    const LogLevel level = level_of(problem);
    if (!log_.enabled(level)) continue;
    log_.write(level, problem.text(),
               {{"code", std::string(error_code_text(problem.code))},
                {"object", problem.object.str()},
                {"file", problem.path},
                {"line", std::to_string(problem.line)},
                {"field", problem.field}});
  }
  for (const Problem& gone : logged_)
    if (!now.contains(gone))
      log_.info("resolved: " + gone.text(), {{"code", std::string(error_code_text(gone.code))}});
  logged_ = std::move(now);

  for (auto& [code, count] : counted_) count = 0;
  for (const Problem& problem : list()) counted_[problem.code] += 1;
  for (const auto& [code, count] : counted_)
    metrics_.set(kProblems,
                 {{"code", error_code_text(code)}, {"severity", severity_text(severity_of(code))}},
                 count);
  changed_.notify();
}

}  // namespace osm::inline v1::control_plane
