// Clauses about outages of a platform, and about time.
#include <algorithm>
#include <chrono>

#include "testing/provider_bench.hpp"

namespace osm::inline v1::testing {
namespace {

using std::chrono::hours;

const ServiceName kFilms{kShop, "films"};
const std::vector<Endpoint> kBefore{endpoint_at(1), endpoint_at(2)};

Verdict cannot_break() { return not_applicable("the platform cannot be unreachable"); }

// Puts the books service on the platform and serves it. Result: the verdict if that failed.
std::optional<Verdict> serve_books(Bench& bench, const std::vector<ServiceName>& services) {
  bench.platform().set_endpoints(kBooks, kBefore);
  if (!bench.start_ready(services)) return not_judged("synced");
  if (!bench.serves(kBooks, Known(kBefore))) return not_judged("events");
  return std::nullopt;
}

// Makes the platform unreachable. Result: true if the provider noticed.
bool lose(Bench& bench) {
  bench.step("taking the platform away");
  bench.platform().set_reachable(false);
  return bench.wait([&] { return !bench.watch().is_healthy(); });
}

// Differences of the books service during the outage, although the provider could not know of any;
// empty: none. The clause "errors-are-values" finds calls that throw.
std::string no_longer_kept(Bench& bench) {
  const Answer answer = bench.watch().ask(kBooks);
  if (answer.threw.empty() && !answer.is(Known(kBefore)))
    return instead_of(kBefore, "list_endpoints_for_service gives " + answer.text());
  bench.watch().announce({kBooks});
  bench.settle();
  if (bench.served(kBooks) == Known(kBefore)) return {};
  return instead_of(kBefore, "the mesh serves " + text_of(bench.served(kBooks)));
}

Verdict lost(Bench& bench) {
  if (!bench.traits().outages) return cannot_break();
  if (auto verdict = serve_books(bench, {kBooks})) return *verdict;
  if (!lose(bench))
    return failed("while the platform cannot be reached healthy() must be false",
                  "healthy() was true until the deadline");
  bench.platform().remove_service(kBooks);  // unseen
  if (const std::string changed = no_longer_kept(bench); !changed.empty())
    return failed(
        "a platform that goes away takes no endpoint with it: what was listed last must stay, or "
        "an outage of the platform becomes one of the mesh",
        changed);
  if (!bench.watch().synced())
    return failed("has_synced() must stay true when the platform goes away later",
                  "has_synced() is false again");
  return passed("unhealthy, with its last endpoints");
}

Verdict stale(Bench& bench) {
  if (!bench.traits().outages) return cannot_break();
  if (auto verdict = serve_books(bench, {kBooks})) return *verdict;
  const auto metric = [&] {
    return bench.metrics().value("osm_endpoints_provider_healthy",
                                 {{"provider", bench.watch().id()}});
  };
  const auto healthy = [&] { return !bench.status().stale && metric() == 1; };
  if (!bench.wait(healthy)) return not_judged("recovers");
  bench.settle();  // no pending read of the mesh can find out by chance
  if (!lose(bench)) return not_judged("lost");
  bench.step("waiting for the mesh to mark it stale");
  if (!bench.wait([&] { return bench.status().stale && metric() == 0; }))
    return failed(
        "a change of healthy() must be announced, by an empty list at least: operators must see "
        "that what is served is stale",
        "healthy() is false, but the mesh has not heard of it");
  const std::string problem = bench.problem(ErrorCode::kUnavailable);
  // A provider that throws meanwhile is reported as failing: the clause "errors-are-values".
  if (bench.status().failure.empty() && problem.find(bench.watch().id()) == std::string::npos)
    return failed("the mesh must report the stale provider", "its problem is '" + problem + "'");
  bench.platform().set_reachable(true);
  if (!bench.wait([&] { return bench.watch().is_healthy(); })) return not_judged("recovers");
  if (!bench.wait(healthy))
    return failed("a change of healthy() must be announced, by an empty list at least",
                  "healthy() is true again, but the mesh has not heard of it");
  return passed(problem);
}

Verdict recovers(Bench& bench) {
  if (!bench.traits().outages) return cannot_break();
  const std::vector<ServiceName> services{kBooks, kMusic, kFilms};
  bench.platform().set_endpoints(kMusic, {endpoint_at(11)});
  if (auto verdict = serve_books(bench, services)) return *verdict;
  for (std::size_t outage = 1; outage <= 2; ++outage) {
    if (!lose(bench)) return not_judged("lost");
    const std::vector<Endpoint> books{endpoint_at(20 * outage)},
        films{endpoint_at(20 * outage + 1)};
    bench.platform().set_endpoints(kBooks, books);
    bench.platform().remove_service(kMusic);
    bench.platform().set_endpoints(kFilms, films);
    bench.step("giving the platform back");
    bench.platform().set_reachable(true);
    if (!bench.wait([&] { return bench.watch().is_healthy(); }))
      return failed("when the platform is back healthy() must turn true",
                    "healthy() was false until the deadline");
    for (const auto& [service, now] : {std::pair{kBooks, Known(books)},
                                       std::pair{kFilms, Known(films)}, std::pair{kMusic, Known()}})
      if (!bench.lists(service, now) || !bench.serves(service, now))
        return failed("what changed during an outage must be listed when it is over",
                      instead_of(now, service.str() + " is " + bench.watch().ask(service).text()));
    if (!bench.put(kMusic, {endpoint_at(20 * outage + 2)})) return not_judged("events");
  }
  return passed("two outages, each with changes");
}

// Advance an hour at a time, like a machine that sleeps and wakes: timers fire, but not a million
// times.
void let_a_week_pass(Bench& bench) {
  for (int hour = 0; hour < 7 * 24; ++hour) {
    bench.clock().advance(hours(1));
    bench.platform().pump();
    bench.executor().run_until_idle();
  }
}

Verdict clock(Bench& bench) {
  if (auto verdict = serve_books(bench, {kBooks})) return *verdict;
  bench.step("letting a week pass");
  let_a_week_pass(bench);
  const std::string rule =
      "endpoints are true until the platform says otherwise: no time makes them expire";
  if (const std::string changed = no_longer_kept(bench); !changed.empty())
    return failed(rule, "after a week: " + changed);
  bench.step("setting the calendar back");
  bench.clock().set_wall(bench.clock().wall_now() - hours(24 * 365));
  if (!bench.wait([&] { return bench.watch().is_healthy(); }))
    return failed("only an unreachable platform makes a provider unhealthy, not the calendar",
                  "healthy() is false after the calendar was set back by a year");
  if (const std::string changed = no_longer_kept(bench); !changed.empty())
    return failed(rule, "after the calendar was set back by a year: " + changed);
  if (!bench.traits().outages) return passed("a week, and a calendar set back by a year");
  if (!lose(bench) || !no_longer_kept(bench).empty()) return not_judged("lost");
  bench.step("letting a week of outage pass");
  let_a_week_pass(bench);
  if (const std::string changed = no_longer_kept(bench); !changed.empty())
    return failed(rule, "after a week of outage: " + changed);
  return passed("a week, a calendar set back by a year, and a week of outage");
}

Verdict non_blocking(Bench& bench) {
  if (auto verdict = serve_books(bench, {kBooks})) return *verdict;
  if (bench.traits().outages && !lose(bench)) return not_judged("lost");
  const std::vector<std::pair<const char*, std::function<void()>>> calls{
      {"list_endpoints_for_service", [&] { bench.watch().ask(kBooks); }},
      {"has_synced", [&] { bench.watch().synced(); }},
      {"healthy", [&] { bench.watch().is_healthy(); }}};
  for (const auto& [name, call] : calls) {
    bench.step(std::string("calling ") + name);
    auto fastest = std::chrono::steady_clock::duration::max();
    for (int i = 0; i < 5;
         ++i) {  // take the fastest: the provider is not responsible for a busy machine
      const auto begun = std::chrono::steady_clock::now();
      call();
      fastest = std::min(fastest, std::chrono::steady_clock::now() - begun);
    }
    if (fastest <= bench.options().call_limit) continue;
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(fastest).count();
    return failed(std::string(name) +
                      " must answer from the provider's memory: the mesh's one writer waits for it",
                  "it took " + std::to_string(took) + " ms" +
                      (bench.traits().outages ? " while the platform was unreachable" : ""));
  }
  return passed("every call answered from memory");
}

}  // namespace

std::vector<ClauseEntry> outage_clauses() {
  return {
      {{"lost", "a platform that goes away takes no endpoint with it"}, lost},
      {{"stale", "the mesh hears that what it serves is stale, and when it no longer is"}, stale},
      {{"recovers", "when the platform is back, so is everything that changed meanwhile"},
       recovers},
      {{"clock", "no time makes endpoints expire: not a week, not a wrong calendar"}, clock},
      {{"non-blocking", "calls answer from memory, also while the platform hangs"}, non_blocking}};
}

}  // namespace osm::inline v1::testing
