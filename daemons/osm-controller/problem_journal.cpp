#include "problem_journal.hpp"

namespace osm::controller {
namespace {

std::set<Problem> without_lines(const std::vector<Problem>& problems) {
  std::set<Problem> out;
  for (Problem problem : problems) {
    problem.line = 0;
    out.insert(std::move(problem));
  }
  return out;
}

}  // namespace

ProblemJournal::ProblemJournal(const ProblemSources& sources, Executor& executor, LogSink& log,
                               MetricsSink& metrics)
    : sources_(sources), log_(log), metrics_(metrics), strand_(executor) {
  spec_changes_ = sources_.spec.subscribe([this](const auto&) { trigger(); });
  workload_changes_ = sources_.workloads.subscribe_workloads([this](const auto&) { trigger(); });
  snapshot_changes_ = sources_.snapshots.subscribe([this](const auto&) { trigger(); });
  trigger();
}

ProblemJournal::~ProblemJournal() {
  spec_changes_.reset();
  workload_changes_.reset();
  snapshot_changes_.reset();
  strand_.stop();
}

std::vector<Problem> ProblemJournal::list() const {
  std::set<Problem> all;
  for (Problem& problem : sources_.spec.list_problems()) all.insert(std::move(problem));
  for (Problem& problem : sources_.workloads.list_problems()) all.insert(std::move(problem));
  if (const auto snapshot = sources_.snapshots.load(); snapshot && snapshot->problems) {
    for (Problem problem : *snapshot->problems) {
      if (problem.path.empty()) problem.locate(sources_.spec.source_of(problem.object));
      all.insert(std::move(problem));
    }
  }
  return {all.begin(), all.end()};
}

void ProblemJournal::trigger() {
  strand_.post([this] { refresh(); });
}

void ProblemJournal::refresh() {
  std::vector<Problem> inputs = sources_.spec.list_problems();
  for (Problem& problem : sources_.workloads.list_problems()) inputs.push_back(std::move(problem));
  std::set<Problem> now = without_lines(inputs);
  for (const Problem& problem : inputs) {
    Problem key = problem;
    key.line = 0;
    if (!logged_.insert(key).second) continue;
    log_.warning(problem.text(), {{"code", std::string(error_code_text(problem.code))},
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
    metrics_.set("osm_problems", {{"code", error_code_text(code)}}, count);
}

}  // namespace osm::controller
