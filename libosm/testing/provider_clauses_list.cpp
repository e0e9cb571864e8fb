// Clauses about the time of lists: the first list, readiness, events and their order.
#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <random>

#include "testing/provider_bench.hpp"

namespace osm::inline v1::testing {
namespace {

constexpr std::size_t kFirstServices = 50;

ServiceName first_service(std::size_t i) { return {kShop, "first-" + std::to_string(i)}; }

Known first_endpoints(std::size_t i) {
  return sorted({{endpoint_at(2 * i), endpoint_at(2 * i + 1)}});
}

// Empty if everything on the platform is listed.
std::string missing_from_first_list(ProviderWatch& watch) {
  std::size_t missing = 0;
  std::string example;
  for (std::size_t i = 0; i < kFirstServices; ++i) {
    const Answer answer = watch.ask(first_service(i));
    if (answer.is(first_endpoints(i))) continue;
    if (missing++ == 0) example = first_service(i).str() + " is " + answer.text();
  }
  if (missing == 0) return {};
  return std::to_string(missing) + " of " + std::to_string(kFirstServices) +
         " services are not as on the platform; " + example;
}

Verdict synced(Bench& bench) {
  std::vector<ServiceName> services;
  for (std::size_t i = 0; i < kFirstServices; ++i) {
    services.push_back(first_service(i));
    bench.platform().set_endpoints(services.back(), *first_endpoints(i));
  }
  bench.start(services);
  bench.step("waiting for has_synced()");
  std::string missing;
  bool synced = false;
  bench.wait([&] {
    if (synced || !bench.watch().synced()) return synced;
    missing = missing_from_first_list(bench.watch());  // at the first check that finds it synced
    return synced = true;
  });
  if (!synced)
    return failed(
        "has_synced() must turn true once the first complete list of a reachable platform has been "
        "read",
        "has_synced() was false until the deadline");
  if (!missing.empty())
    return failed(
        "has_synced() must not turn true before the list is complete: what is missing then is "
        "taken for gone",
        missing);
  if (!bench.wait([&] { return bench.ready(); }))
    return failed(
        "turning has_synced() true must be announced, by an empty list at least: the mesh does not "
        "poll",
        "has_synced() is true, but the mesh has not heard of it and waits");
  return passed(std::to_string(kFirstServices) + " services, complete when synced");
}

Verdict not_ready(Bench& bench) {
  if (!bench.traits().outages) return not_applicable("the platform cannot be unreachable");
  const Known books{{endpoint_at(1)}};
  bench.platform().set_endpoints(kBooks, *books);
  bench.platform().set_reachable(false);
  bench.start({kBooks});
  bench.settle();
  const std::string unsynced =
      "the platform has not been reachable yet, so has_synced() must be "
      "false: the mesh would serve part of the truth";
  if (bench.watch().synced()) return failed(unsynced, "has_synced() is true");
  const std::string named = "endpoints provider " + bench.watch().id();
  const auto waiting = bench.waiting_for();
  if (bench.ready() || std::find(waiting.begin(), waiting.end(), named) == waiting.end())
    return failed("the mesh must wait for the provider, and name it", "the mesh is ready");
  bench.platform().set_reachable(true);
  if (!bench.wait([&] { return bench.watch().synced(); })) return not_judged("recovers");
  bench.watch().announce({});
  if (!bench.serves(kBooks, books)) return not_judged("synced");
  return passed("the mesh waited for \"" + named + "\", then served");
}

// Records if the newest change of `service` was announced, and the result of reading it inside the
// announcement.
class Reading {
 public:
  Reading(Bench& bench, const ServiceName& service, Known expected)
      : bench_(bench), service_(service), expected_(std::move(expected)) {
    bench_.watch().on_announcement([this](const std::vector<ServiceName>& changed) {
      if (std::find(changed.begin(), changed.end(), service_) == changed.end()) return;
      announced_ = true;
      // Read on another thread: the clause "callbacks" finds a lock that is held during an
      // announcement.
      const auto read = bench_.in_time(
          [service = service_, &bench = bench_] { return bench.watch().ask(service); });
      if (!read) {
        as_expected_ = true;
        return;
      }
      as_expected_ = as_expected_ || read->is(expected_);
      std::lock_guard lock(mutex_);
      seen_ = read->text();
    });
  }
  ~Reading() { bench_.watch().on_announcement(nullptr); }

  bool announced() const { return announced_; }
  bool as_expected() const { return as_expected_; }
  std::string seen() const {
    std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  Bench& bench_;
  ServiceName service_;
  Known expected_;
  std::atomic<bool> announced_ = false;
  std::atomic<bool> as_expected_ = false;
  mutable std::mutex mutex_;
  std::string seen_;
};

Verdict events(Bench& bench) {
  if (!bench.start_ready({kBooks})) return not_judged("synced");
  const std::vector<std::pair<std::string, Known>> changes{
      {"a new service", Known{{endpoint_at(1)}}},
      {"an endpoint more", Known{{endpoint_at(1), endpoint_at(2)}}},
      {"another endpoint in one's place", Known{{endpoint_at(1), endpoint_at(3)}}},
      {"a service that is gone", std::nullopt}};
  for (const auto& [what, expected] : changes) {
    bench.step("announcing " + what);
    const Reading reading(bench, kBooks, expected);
    if (expected) {
      bench.platform().set_endpoints(kBooks, *expected);
    } else {
      bench.platform().remove_service(kBooks);
    }
    if (!bench.wait([&] { return reading.announced(); }))
      return failed(
          "every change must be announced with the service's name: the mesh does not poll",
          "no announcement of " + kBooks.str() + " after " + what);
    if (!bench.wait([&] { return reading.as_expected(); }))
      return failed(
          "a change must be readable before it is announced: subscribers read at once, and not "
          "again",
          instead_of(expected, "reading " + kBooks.str() + " inside the announcement of " + what +
                                   " gave " + reading.seen()));
    if (!bench.comes_to_serve(kBooks, expected))
      return failed("the mesh must come to serve what was announced",
                    "it serves " + text_of(bench.served(kBooks)) + " after " + what);
  }
  return passed(std::to_string(changes.size()) + " changes, each announced and readable");
}

Verdict order(Bench& bench) {
  std::vector<ServiceName> services;
  for (int i = 0; i < 5; ++i) services.push_back({kShop, "order-" + std::to_string(i)});
  if (!bench.start_ready(services)) return not_judged("synced");

  bench.step("going back to what was before");
  const ServiceName& flapping = services.front();
  const std::vector<Endpoint> before{endpoint_at(1)}, meanwhile{endpoint_at(2)};
  for (const auto& state : {before, meanwhile, before}) {
    if (bench.put(flapping, state)) continue;
    return failed(
        "a service that returns to what it was has changed too: nothing is a duplicate "
        "because it was seen before",
        instead_of(state, bench.watch().ask(flapping).text()));
  }

  bench.step("repeating and shuffling announcements");
  bench.watch().hold_back(true);
  std::vector<std::vector<Endpoint>> finally;
  for (std::size_t i = 0; i < services.size(); ++i) {
    for (std::size_t turn = 0; turn < 3; ++turn)
      bench.platform().set_endpoints(services[i], {endpoint_at(100 + 10 * i + turn)});
    finally.push_back({endpoint_at(100 + 10 * i + 2)});
    if (!bench.lists(services[i], finally.back())) return not_judged("events");
  }
  std::vector<ServiceName> announcements{{kShop, "never-was"}, {"elsewhere", "books"}};
  for (int copy = 0; copy < 3; ++copy)
    announcements.insert(announcements.end(), services.begin(), services.end());
  std::mt19937_64 rng(bench.options().seed);
  std::shuffle(announcements.begin(), announcements.end(), rng);
  for (const ServiceName& service : announcements) bench.watch().announce({service});
  bench.watch().announce({});
  for (std::size_t i = 0; i < services.size(); ++i)
    if (!bench.comes_to_serve(services[i], finally[i]))
      return failed("repeated and reordered announcements must lead to the same mesh",
                    instead_of(finally[i], services[i].str() + " is served as " +
                                               text_of(bench.served(services[i]))));

  const std::string steady = "asking again without a change must give the same answer";
  for (int i = 0; i < 100; ++i)
    if (const Answer again = bench.watch().ask(flapping); !again.is(Known(finally.front())))
      return failed(steady, instead_of(finally.front(), "asked 100 times, " + again.text()));
  bench.settle();
  const std::uint64_t generation = bench.snapshot()->generation;
  bench.watch().announce(announcements);
  bench.settle();
  if (bench.snapshot()->generation != generation)
    return failed(steady, "a repeated announcement changed the mesh");
  return passed(std::to_string(announcements.size()) + " announcements in random order, seed " +
                std::to_string(bench.options().seed));
}

}  // namespace

std::vector<ClauseEntry> first_list_clauses() {
  return {
      {{"synced", "the first list is complete when has_synced() turns true, which is announced"},
       synced},
      {{"not-ready", "until it has synced the mesh waits, and names it"}, not_ready},
      {{"events", "every change is announced by name, and can be read when it is"}, events},
      {{"order", "repeated and reordered announcements lead to the same mesh"}, order}};
}

}  // namespace osm::inline v1::testing
