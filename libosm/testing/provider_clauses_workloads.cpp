// Clauses about the content of workloads, for providers of platforms that run proxies.
#include <algorithm>
#include <optional>
#include <utility>

#include "testing/workload_crew.hpp"

namespace osm::inline v1::testing {
namespace {

Verdict complete(Bench& bench) {
  constexpr std::size_t kMany = 20;
  const auto check = [&](Crew& crew) -> Verdict {
    std::size_t missing = 0;
    bool synced = false;
    bench.wait([&] {
      if (synced || !crew.synced()) return synced;
      const auto listed = crew.list();
      for (std::size_t i = 0; i < kMany; ++i)
        missing += std::none_of(listed.begin(), listed.end(), [&](const Workload& one) {
          return one.name == workload_at(i).name;
        });
      return synced = true;
    });
    if (!synced)
      return failed("workloads_synced() must turn true with the first complete list",
                    "it was false until the deadline");
    if (missing > 0)
      return failed(
          "workloads_synced() must not turn true before the list is complete: proxies "
          "that are missing are refused",
          std::to_string(missing) + " of " + std::to_string(kMany) + " are missing");
    return passed(std::to_string(kMany) + " workloads, complete when synced");
  };
  return with_crew(bench, check, [](ProviderPlatform& platform) {
    for (std::size_t i = 0; i < kMany; ++i) platform.set_workload(workload_at(i));
  });
}

Verdict ordered(Bench& bench) {
  return with_crew(bench, [&](Crew& crew) -> Verdict {
    if (!wait_until_synced(bench, crew)) return not_judged("workloads-complete");
    for (const std::size_t n : {3U, 1U, 2U})
      if (!crew.put(workload_at(n))) return not_judged("workloads-events");
    for (int turn = 0; turn < 10; ++turn) {
      const auto listed = crew.list();
      for (std::size_t i = 0; i + 1 < listed.size(); ++i)
        if (!(listed[i].name < listed[i + 1].name))
          return failed("list_workloads() has each workload once, ordered by name",
                        listed[i].name.str() + " is before " + listed[i + 1].name.str());
      if (listed.size() != 3)
        return failed("list_workloads() has each workload once",
                      "it lists " + std::to_string(listed.size()) + " in place of 3");
    }
    return passed("three workloads, the same each time");
  });
}

Verdict found(Bench& bench) {
  return with_crew(bench, [&](Crew& crew) -> Verdict {
    if (!wait_until_synced(bench, crew)) return not_judged("workloads-complete");
    for (std::size_t n = 1; n <= 3; ++n) bench.platform().set_workload(workload_at(n));
    if (!bench.wait([&] { return crew.list().size() == 3; })) return not_judged("workloads-events");
    const std::string rule = "find_workload() agrees with list_workloads()";
    for (const Workload& listed : crew.list())
      if (const Found found = crew.find(listed.name); found != listed)
        return failed(rule, listed.name.str() + " is listed, and found as " + text_of(found));
    if (const Found none = crew.find({kShop, "never-was"}))
      return failed(rule, "a workload that never was is found as " + text_of(none));
    return passed("three workloads");
  });
}

Verdict account(Bench& bench) {
  return with_crew(bench, [&](Crew& crew) -> Verdict {
    if (!wait_until_synced(bench, crew)) return not_judged("workloads-complete");
    Workload one = workload_at(1, "books"), two = workload_at(2, "archive");
    for (int turn = 0; turn < 2; ++turn) {
      bench.step(turn == 0 ? "listing two accounts" : "exchanging their addresses");
      for (const Workload* workload : {&one, &two}) bench.platform().set_workload(*workload);
      for (const Workload* workload : {&one, &two})
        if (!crew.finds(workload->name, *workload))
          return failed(
              "the account is the one that the platform runs the workload with, in its "
              "own namespace: never one of its address",
              text_of(crew.find(workload->name)) + " in place of " + text_of(*workload));
      std::swap(one.address, two.address);
    }
    return passed("two accounts, which then exchanged their addresses");
  });
}

Verdict services(Bench& bench) {
  return with_crew(bench, [&](Crew& crew) -> Verdict {
    if (!wait_until_synced(bench, crew)) return not_judged("workloads-complete");
    Workload one = workload_at(1);
    for (const bool serves : {true, false, true}) {
      bench.step(serves ? "putting it behind a service" : "taking it out of its service");
      if (!serves)
        one.address = "10.0.0.77";  // it never returns to what it was: "order" judges that
      one.services = serves ? std::vector{kBooks} : std::vector<ServiceName>();
      if (!crew.put(one))
        return failed("services are those whose endpoints have the workload's address",
                      text_of(crew.find(one.name)) + " in place of " + text_of(Found(one)));
      const bool together = bench.wait([&] {
        const Answer answer = bench.watch().ask(kBooks);
        return serves == (answer.known && std::any_of(answer.known->begin(), answer.known->end(),
                                                      [&](const Endpoint& endpoint) {
                                                        return endpoint.address == one.address;
                                                      }));
      });
      if (!together)
        return failed("services and endpoints come from one read of the platform",
                      text_of(Found(one)) + ", but " + kBooks.str() + " is " +
                          bench.watch().ask(kBooks).text());
    }
    return passed("in a service, out of it, and in again");
  });
}

Verdict uuids(Bench& bench) {
  return with_crew(bench, [&](Crew& crew) -> Verdict {
    if (!wait_until_synced(bench, crew)) return not_judged("workloads-complete");
    Workload one = workload_at(1), copy = workload_at(2);
    one.proxy_id = ProxyId("6f2c1a34-8d1e-4c5b-9a70-3e2f1d0c9b8a");
    copy.proxy_id = one.proxy_id;
    if (!crew.put(one))
      return failed("the UUID is the one that the platform has",
                    text_of(crew.find(one.name)) + " in place of " + text_of(Found(one)));
    bench.platform().set_workload(copy);
    const auto told = [&](const WorkloadName& name) {
      if (crew.find(name)) return true;
      const auto problems = crew.problems();
      return std::any_of(problems.begin(), problems.end(), [&](const Problem& problem) {
        return problem.object.ns == name.ns && problem.object.name == name.name;
      });
    };
    if (!bench.wait([&] { return told(one.name) && told(copy.name); }))
      return failed(
          "one UUID is one workload: those that are left out are in list_problems()",
          "neither listed nor reported: " + (told(one.name) ? copy.name.str() : one.name.str()));
    return passed("two workloads with one UUID");
  });
}

Verdict kind(Bench& bench) {
  return with_crew(bench, [&](Crew& crew) -> Verdict {
    if (!wait_until_synced(bench, crew)) return not_judged("workloads-complete");
    std::optional<WorkloadKind> first;
    for (std::size_t turn = 0; turn < 3; ++turn) {
      Workload one = workload_at(1);
      one.address = endpoint_at(10 + turn).address;
      if (!crew.put(one)) return not_judged("workloads-events");
      const Found found = crew.find(one.name);
      if (!first) first = found->kind;
      if (found->kind != *first)
        return failed("the kind of a workload never changes: a certificate is for one kind",
                      "it changed with the workload's address");
    }
    return passed(*first == WorkloadKind::kMachine ? "machine" : "pod");
  });
}

}  // namespace

std::vector<ClauseEntry> workload_clauses() {
  return {{{"workloads-complete", "the first list of workloads is complete when it is synced"},
           complete},
          {{"workloads-ordered", "workloads are listed once each, by name"}, ordered},
          {{"workloads-found", "a workload is found as it is listed"}, found},
          {{"workloads-account", "the account comes from the platform, never from an address"},
           account},
          {{"workloads-services", "services and endpoints of a workload agree"}, services},
          {{"workloads-uuids", "one UUID is one workload; others are reported"}, uuids},
          {{"workloads-kind", "the kind of a workload never changes"}, kind}};
}

}  // namespace osm::inline v1::testing
