// Clauses about announcements, outages and the end, of providers of platforms that run proxies.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "testing/workload_crew.hpp"

namespace osm::inline v1::testing {
namespace {

Verdict events(Bench& bench) {
  return with_crew(bench, [&](Crew& crew) -> Verdict {
    if (!wait_until_synced(bench, crew)) return not_judged("workloads-complete");
    Workload moved = workload_at(1);
    moved.address = endpoint_at(2).address;
    for (const auto& [what, expected] :
         {std::pair<const char*, Found>{"a new workload", workload_at(1)},
          {"a new address", moved},
          {"a workload that is gone", std::nullopt}}) {
      bench.step(std::string("announcing ") + what);
      const WorkloadName name = moved.name;
      std::atomic<bool> announced = false, readable = false, locked = false;
      crew.on_announcement([&, &expected = expected](const std::vector<WorkloadName>& changed) {
        if (std::find(changed.begin(), changed.end(), name) == changed.end()) return;
        const auto read = bench.in_time([&] { return crew.find(name); });
        locked = locked || !read;
        readable = readable || (read && same(*read, expected));
        announced = true;
      });
      if (expected) {
        bench.platform().set_workload(*expected);
      } else {
        bench.platform().remove_workload(name);
      }
      const bool heard = bench.wait([&] { return announced.load(); });
      const bool right = bench.wait([&] { return readable || locked; });
      crew.on_announcement(nullptr);
      if (!heard)
        return failed("every change is announced by the workload's name",
                      std::string("no announcement of ") + name.str() + " after " + what);
      if (locked)
        return failed("workloads are announced without a lock",
                      "find_workload() did not return while a callback ran");
      if (!right)
        return failed(
            "a change can be read when it is announced",
            std::string("inside the announcement of ") + what + ": " + text_of(crew.find(name)));
    }
    if (crew.overlapped()) return failed("callbacks come one at a time", "two ran at once");
    return passed("new, changed and gone, each announced and readable");
  });
}

// Puts a workload on the platform and takes the platform away. Result: the verdict if that failed.
std::optional<Verdict> lose(Bench& bench, Crew& crew) {
  if (!wait_until_synced(bench, crew)) return not_judged("workloads-complete");
  if (!crew.put(workload_at(1))) return not_judged("workloads-events");
  if (!bench.traits().outages) return not_applicable("the platform cannot be unreachable");
  bench.step("taking the platform away");
  bench.platform().set_reachable(false);
  if (!bench.wait([&] { return !bench.watch().is_healthy(); })) return not_judged("lost");
  return std::nullopt;
}

Verdict lost(Bench& bench) {
  return with_crew(bench, [&](Crew& crew) -> Verdict {
    if (auto verdict = lose(bench, crew)) return *verdict;
    bench.platform().remove_workload(workload_at(1).name);  // unseen
    bench.settle();
    if (const Found found = crew.find(workload_at(1).name);
        crew.thrown().empty() && !same(found, workload_at(1)))
      return failed("a platform that goes away removes no workload: its proxy would be refused",
                    text_of(found) + " in place of " + text_of(Found(workload_at(1))));
    if (crew.thrown().empty() && !crew.synced())
      return failed("workloads_synced() must stay true when the platform goes away later",
                    "it is false again");
    return passed("unhealthy, with its last workloads");
  });
}

Verdict quiet(Bench& bench) {
  return with_crew(bench, [&](Crew& crew) -> Verdict {
    const auto verdict = lose(bench, crew);
    if (verdict && verdict->outcome != ConformanceOutcome::kNotApplicable) return *verdict;
    const std::pair<const char*, std::function<void()>> calls[] = {
        {"list_workloads()", [&] { crew.list(); }},
        {"find_workload()", [&] { crew.find(workload_at(1).name); }},
        {"list_problems()", [&] { crew.problems(); }},
        {"workloads_synced()", [&] { crew.synced(); }}};
    for (const auto& [name, call] : calls) {
      bench.step(std::string("calling ") + name);
      auto fastest = RealTime::duration::max();
      for (int i = 0; i < 5; ++i) {  // the fastest: the provider did not make the machine busy
        const auto begun = RealTime::now();
        call();
        fastest = std::min(fastest, RealTime::now() - begun);
      }
      if (fastest > bench.options().call_limit)
        return failed(std::string(name) + " answers from the provider's memory", "it blocked");
    }
    if (const std::string thrown = crew.thrown(); !thrown.empty())
      return failed("nothing that lists workloads throws, also while the platform is away", thrown);
    return passed("every call answered from memory");
  });
}

Verdict stop(Bench& bench) {
  return with_crew(bench, [&](Crew& crew) -> Verdict {
    if (!wait_until_synced(bench, crew)) return not_judged("workloads-complete");
    if (!crew.put(workload_at(1))) return not_judged("workloads-events");
    bench.step("ending subscriptions while workloads change");
    struct Ears {
      std::atomic<bool> running = false, heard = false, ended = false, late = false;
    };
    const auto linger = [](std::chrono::microseconds time) {
      for (const auto end = RealTime::now() + time; RealTime::now() < end;)
        std::this_thread::yield();
    };
    const std::jthread changer([&bench](const std::stop_token& end) {
      for (std::size_t i = 0; !end.stop_requested(); ++i) {
        Workload moving = workload_at(1);
        moving.address = endpoint_at(i % 100).address;
        bench.platform().set_workload(moving);
        bench.platform().pump();
        bench.executor().run_for(std::chrono::milliseconds(20));
      }
    });
    const auto budget = RealTime::now() + bench.options().deadline / 2;
    std::size_t rounds = 0;
    for (; rounds < bench.options().stop_rounds && RealTime::now() < budget; ++rounds) {
      const auto ears = std::make_shared<Ears>();
      Subscription subscription =
          crew.provider().subscribe_workloads([ears, linger](const std::vector<WorkloadName>&) {
            if (ears->ended) ears->late = true;
            ears->heard = ears->running = true;
            linger(std::chrono::microseconds(300));
            if (ears->ended) ears->late = true;
            ears->running = false;
          });
      while (!ears->heard && RealTime::now() < budget) std::this_thread::yield();
      subscription.reset();
      const bool running = ears->running;
      ears->ended = true;
      linger(std::chrono::microseconds(400));
      if (running || ears->late)
        return failed(
            "when a Subscription's destructor has returned, no callback runs and none will",
            "one ran after the destructor, in round " + std::to_string(rounds + 1));
    }
    return passed(std::to_string(rounds) + " subscriptions ended");
  });
}

}  // namespace

std::vector<ClauseEntry> workload_conduct_clauses() {
  return {{{"workloads-events", "every change of a workload is announced by name"}, events},
          {{"workloads-lost", "a platform that goes away removes no workload"}, lost},
          {{"workloads-quiet", "nothing that lists workloads throws or blocks"}, quiet},
          {{"workloads-stop", "no callback runs after its subscription"}, stop}};
}

}  // namespace osm::inline v1::testing
