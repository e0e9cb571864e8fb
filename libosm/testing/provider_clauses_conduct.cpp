// Clauses about a provider's behaviour: callbacks, exceptions, floods, its end and its name.
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "osm/testing/memory_endpoints_provider.hpp"
#include "testing/provider_bench.hpp"

// The sanitizers' allocators have their own count; the symbol is absent without one.
extern "C" std::size_t __sanitizer_get_current_allocated_bytes() __attribute__((weak));

namespace osm::inline v1::testing {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Keeps a callback running for a moment, so that a race can show.
void linger(microseconds time) {
  for (const auto end = RealTime::now() + time; RealTime::now() < end;) std::this_thread::yield();
}

Verdict callbacks(Bench& bench) {
  if (!bench.start_ready({kBooks})) return not_judged("synced");
  std::atomic<bool> readable = true;
  std::atomic<int> heard = 0;
  bench.watch().on_announcement([&](const std::vector<ServiceName>&) {
    if (heard++ < 3 && !bench.in_time([&bench] { return bench.watch().ask(kBooks); }))
      readable = false;
    linger(microseconds(500));
  });
  bench.step("changing and listening");
  for (std::size_t i = 0; i < 20; ++i) {
    if (!bench.put(kBooks, {endpoint_at(i)})) return not_judged("events");
  }
  bench.settle();
  bench.watch().on_announcement(nullptr);
  if (!readable)
    return failed("announce without a lock: subscribers may read at once",
                  "list_endpoints_for_service on another thread did not return while a callback "
                  "ran");
  if (bench.watch().overlapped())
    return failed("callbacks come one at a time", "two callbacks ran at once");
  if (heard == 0) return not_judged("events");
  return passed(std::to_string(heard) + " callbacks, one at a time");
}

// Checks the mesh's part: a provider that throws keeps its endpoints and does not affect others.
std::optional<Verdict> mesh_isolates(Bench& bench, MemoryEndpointsProvider& neighbour,
                                     const std::vector<Endpoint>& books) {
  std::atomic<bool> broken = true;
  bench.watch().rewrite([&](const ServiceName&, Known&) {
    if (broken) throw std::runtime_error("the suite threw this");
  });
  bench.watch().announce({kBooks});
  neighbour.set_endpoints(kMusic, {endpoint_at(42)});
  const bool isolated = bench.comes_to_serve(kMusic, Known{{endpoint_at(42)}}) &&
                        bench.wait([&] { return !bench.status().failure.empty(); }) &&
                        bench.served(kBooks) == Known(books);
  const std::string problem = bench.problem(ErrorCode::kInternal);
  broken = false;
  const bool mended = bench.wait([&] { return bench.status().failure.empty(); });
  bench.watch().rewrite(nullptr);
  if (isolated && mended && problem.find(bench.watch().id()) != std::string::npos)
    return std::nullopt;
  return failed(
      "the mesh must keep what a throwing provider listed last, name it, serve the "
      "others' changes, and ask it again",
      "it serves " + text_of(bench.served(kBooks)) + ", problem '" + problem + "'");
}

Verdict errors_are_values(Bench& bench) {
  MemoryEndpointsProvider neighbour("neighbour");
  const std::vector<Endpoint> books{endpoint_at(1)};
  bench.platform().set_endpoints(kBooks, books);
  if (!bench.start_ready({kBooks, kMusic}, {&neighbour})) return not_judged("synced");
  const auto thrown = [&]() -> std::optional<Verdict> {
    for (const ServiceName& service : {kBooks, kMusic, ServiceName{"elsewhere", "books"}})
      bench.watch().ask(service);
    bench.watch().is_healthy();
    bench.watch().synced();
    const auto all = bench.watch().thrown();
    if (all.empty()) return std::nullopt;
    return failed(
        "nothing a provider does throws: an unreachable platform keeps its endpoints and "
        "turns healthy() false",
        all.front());
  };
  bench.step("calling everything");
  if (auto verdict = thrown()) return *verdict;
  if (!bench.serves(kBooks, Known(books))) return not_judged("events");
  bench.step("throwing in its name");
  if (auto verdict = mesh_isolates(bench, neighbour, books)) return *verdict;
  if (bench.traits().outages) {
    bench.step("calling everything while the platform is away");
    bench.platform().set_reachable(false);
    bench.wait([&] { return !bench.watch().is_healthy() || !bench.watch().thrown().empty(); });
    if (auto verdict = thrown()) return *verdict;
    bench.platform().set_reachable(true);
    bench.settle();
    if (auto verdict = thrown()) return *verdict;
  }
  return passed("nothing thrown; the mesh isolates what does");
}

// Records the calls of a subscription, and calls after its end.
struct Ears {
  explicit Ears(bool wait) : wait_for_end(wait) {}

  const bool wait_for_end;  // so that the end coincides with a running callback
  std::atomic<int> running = 0;
  std::atomic<int> heard = 0;
  std::atomic<bool> ending = false;
  std::atomic<bool> ended = false;
  std::atomic<bool> late = false;

  void hear() {
    ++running;
    ++heard;
    if (ended) late = true;
    const auto patience = RealTime::now() + milliseconds(2);
    while (wait_for_end && !ending && RealTime::now() < patience) std::this_thread::yield();
    linger(microseconds(100));
    if (ended) late = true;
    --running;
  }
};

// A subscription that its own callback can end.
class Handle {
 public:
  void put(Subscription subscription) {
    std::lock_guard lock(mutex_);
    subscription_ = std::move(subscription);
  }
  Subscription take() {
    std::lock_guard lock(mutex_);
    return std::exchange(subscription_, {});
  }
  std::atomic<bool> ended = false;

 private:
  std::mutex mutex_;
  Subscription subscription_;
};

Verdict stop(Bench& bench) {
  if (!bench.start_ready({kBooks})) return not_judged("synced");
  const std::string rule =
      "when a Subscription's destructor has returned, no callback runs and none will: it waits for "
      "one that does";
  std::size_t rounds = 0, met = 0;
  {
    bench.step("ending subscriptions while the platform changes");
    // As fast as possible, on a separate thread.
    const std::jthread changer([&bench](const std::stop_token& end) {
      for (std::size_t i = 0; !end.stop_requested(); ++i) {
        bench.platform().set_endpoints(kBooks, {endpoint_at(i)});
        bench.platform().pump();
        bench.executor().run_for(milliseconds(20));
      }
    });
    const auto budget = RealTime::now() + bench.options().deadline / 2;
    while (rounds < bench.options().stop_rounds && RealTime::now() < budget) {
      ++rounds;
      const auto ears = std::make_shared<Ears>(rounds % 2 == 1);
      Subscription subscription =
          bench.provider().subscribe([ears](const std::vector<ServiceName>&) { ears->hear(); });
      while (ears->running == 0 && ears->heard == 0 && RealTime::now() < budget)
        std::this_thread::yield();
      if (rounds % 2 == 0) linger(microseconds(rounds % 200));  // before, inside, after
      met += ears->running > 0 ? 1 : 0;
      ears->ending = true;
      subscription.reset();
      const bool running = ears->running > 0;
      ears->ended = true;
      linger(microseconds(100));
      if (running || ears->late)
        return failed(rule, std::string(running ? "one was still running" : "one ran") +
                                " after the destructor, in round " + std::to_string(rounds));
    }
  }
  bench.step("ending a subscription inside its own callback");
  const auto handle = std::make_shared<Handle>();
  handle->put(bench.provider().subscribe([handle](const std::vector<ServiceName>&) {
    handle->take().reset();
    handle->ended = true;
  }));
  bench.platform().set_endpoints(kBooks, {endpoint_at(9000)});
  const bool ended = bench.wait([&] { return handle->ended.load(); });
  handle->take().reset();  // a handle without any callback still holds itself
  if (!ended) return not_judged("events");
  bench.step("ending the mesh");
  return passed(std::to_string(rounds) + " subscriptions ended, " + std::to_string(met) +
                " of them while their callback ran");
}

std::size_t allocated_bytes() {
  if (__sanitizer_get_current_allocated_bytes != nullptr)
    return __sanitizer_get_current_allocated_bytes();
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

constexpr std::size_t kWarmUp = 100;        // changes before memory is measured
constexpr std::size_t kLeastChanges = 500;  // required of any platform, also a slow one

// The flood, while the mesh's executor stands still.
struct Flood {
  Bench& bench;
  std::function<std::size_t()> memory;
  std::size_t changes = 0;
  std::size_t announcements = 0;
  std::size_t most = 0;  // memory in use: at its peak, before the flood, and after it
  std::size_t baseline = 0;
  std::size_t last = 0;
  const std::vector<ServiceName> known{kBooks};
  std::vector<ServiceName> invented{{"flood", ""}};

  void change() {
    bench.platform().set_endpoints(kBooks, {endpoint_at(++changes)});
    bench.platform().pump();
  }
  void announce() {
    // Every other name is unknown to any platform: those must not accumulate either.
    if (++announcements % 2 == 0) {
      invented.front().name = std::to_string(announcements);
      bench.watch().announce(invented);
    } else {
      bench.watch().announce(known);
    }
  }
  void sample() { most = std::max(most, last = memory()); }

  void run() {
    const std::size_t events = bench.options().flood_events;
    const auto give_up = RealTime::now() + bench.options().clause_deadline / 3;
    while (changes < std::min(kWarmUp, events) && RealTime::now() < give_up) change();
    for (std::size_t i = 0; i < 2500; ++i) announce();
    most = baseline = memory();
    const std::size_t step = std::max<std::size_t>(events / 50, 1);
    const auto end = RealTime::now() + bench.options().flood_budget;
    const auto enough = [&] { return changes >= kLeastChanges && RealTime::now() >= end; };
    while (changes + announcements < events && !enough() && RealTime::now() < give_up) {
      change();
      if (changes % step == 0) sample();
    }
    sample();
    while (changes + announcements < events && RealTime::now() < give_up) {
      announce();
      if (announcements % step == 0) sample();
    }
    settle();
  }
  // An answer that is being read uses memory for a moment; a queue keeps it until the mesh reads.
  void settle() {
    const auto end = RealTime::now() + bench.options().deadline;
    for (sample(); kept() > allowance() && RealTime::now() < end; sample())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  // Memory that stays counts against the allowance, and the peak against the option's limit.
  bool flat() const {
    return kept() <= allowance() && growth() <= bench.options().flood_growth_bytes;
  }
  std::size_t growth() const { return most - baseline; }
  std::size_t kept() const { return std::max(last, baseline) - baseline; }
  // A slow platform changes less often, and each queued change uses more memory.
  std::size_t allowance() const {
    const std::size_t most_allowed = bench.options().flood_growth_bytes;
    return std::clamp(32 * changes, std::min<std::size_t>(32 * 1024, most_allowed), most_allowed);
  }
};

Verdict flood(Bench& bench) {
  if (!bench.start_ready({kBooks})) return not_judged("synced");
  bench.step("flooding");
  const auto& memory = bench.options().memory_in_use;
  // A queue grows in each flood; what the platform's client opens now and then, a connection say,
  // does not.
  std::optional<Flood> last_flood;
  for (int round = 0; round < 4 && !(last_flood && last_flood->flat()); ++round) {
    last_flood.emplace(Flood{bench, memory ? memory : allocated_bytes});
    last_flood->run();
  }
  const Flood& flood = *last_flood;
  const std::string told = std::to_string(flood.changes) + " changes and " +
                           std::to_string(flood.announcements) +
                           " more announcements while the mesh was busy: memory grew by " +
                           std::to_string(flood.growth() / 1024) + " KiB, of which " +
                           std::to_string(flood.kept() / 1024) + " KiB stayed";
  if (!flood.flat())
    return failed(
        "a flood is coalesced, not queued: keep the newest state and which keys changed, "
        "not every change (at most " +
            std::to_string(bench.options().flood_growth_bytes / 1024) + " KiB, of which " +
            std::to_string(flood.allowance() / 1024) + " KiB may stay)",
        told);
  bench.step("after the flood");
  const std::vector<Endpoint> last{endpoint_at(flood.changes + 1)};
  if (!bench.put(kBooks, last) || !bench.serves(kBooks, Known(last)))
    return failed("the newest state must arrive however much came before it",
                  "after " + told + ", the mesh serves " + text_of(bench.served(kBooks)));
  return passed(told);
}

Verdict reported(Bench& bench) {
  if (!bench.start_ready({kBooks})) return not_judged("synced");
  const std::string id = bench.provider().id();
  const std::string rule =
      "id() is a short constant name, a DNS label: logs, metrics and problems name the provider so";
  for (int i = 0; i < 10; ++i)
    if (const std::string again = bench.provider().id(); again != id)
      return failed(rule, "it was '" + id + "', then '" + again + "'");
  if (!parse_service_name(id, id).ok() || parse_service_name(id, id)->name != id)
    return failed(rule, "it is '" + id + "'");
  const auto metric = [&](const char* name) {
    return bench.metrics().value(name, {{"provider", id}});
  };
  const bool exported = bench.wait([&] {
    return bench.status().id == id && metric("osm_endpoints_provider_synced") == 1 &&
           metric("osm_endpoints_provider_healthy") == 1;
  });
  if (!exported)
    return failed("a synced provider of a reachable platform is exported as such: both metrics 1",
                  "osm_endpoints_provider_synced{provider=\"" + id + "\"} is " +
                      std::to_string(metric("osm_endpoints_provider_synced")) +
                      ", osm_endpoints_provider_healthy " +
                      std::to_string(metric("osm_endpoints_provider_healthy")));
  return passed("osm_endpoints_provider_synced{provider=\"" + id + "\"} 1, _healthy 1");
}

}  // namespace

std::vector<ClauseEntry> conduct_clauses() {
  return {{{"callbacks", "callbacks come one at a time, and no lock is held meanwhile"}, callbacks},
          {{"errors-are-values", "nothing throws, and what does is isolated"}, errors_are_values},
          {{"flood", "a flood is coalesced: memory stays flat, the newest state arrives"}, flood},
          {{"stop", "after a subscription's end no callback runs"}, stop},
          {{"reported", "health is exported under the provider's constant name"}, reported}};
}

}  // namespace osm::inline v1::testing
