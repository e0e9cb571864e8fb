// A resolver on a manual clock and executor, over a zone that a test writes.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dns/resolver.hpp"
#include "lib/run.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

namespace osm::dns::testing {

using namespace std::chrono_literals;
using Ids = std::set<std::string>;

inline Answer addresses(const std::vector<std::string>& list, std::chrono::seconds ttl = 60s) {
  Answer out{Outcome::kAnswered, {}, ttl};
  for (const std::string& address : list) out.records.push_back({.target = address});
  return out;
}

struct DnsFixture {
  DnsFixture() { make(); }

  void make() {
    subscription.reset();
    DnsResolverOptions options{.runtime = {executor, executor, clock, rng, log, metrics}};
    const Ask ask = [this](const std::set<Question>& questions, const std::atomic<bool>&) {
      Answers out;
      ++rounds;
      if (slow_rounds > 0) {
        --slow_rounds;
        clock.advance(10s);
      }
      for (const Question& question : questions) {
        ++asked[id_of(question)];
        first_round.try_emplace(id_of(question), rounds);
        const auto at = zone.find(id_of(question));
        out[question] = away               ? Answer()
                        : at == zone.end() ? Answer{Outcome::kNotFound}
                                           : at->second;
      }
      return out;
    };
    resolver = make_resolver(options, ask);
    subscription = resolver->subscribe([this](const Ids& ids) { changes.push_back(ids); });
  }
  void follow(Ids ids) {
    resolver->follow(std::move(ids));
    executor.run_until_idle();
  }
  // "name=address", in their order; "unknown" without an answer.
  std::vector<std::string> found(const std::string& id) const {
    const auto resolution = resolver->find(id);
    if (!resolution) return {"unknown"};
    std::vector<std::string> out;
    for (const ResourceInstance& each : resolution->instances)
      out.push_back(each.name + '=' + each.address);
    return out;
  }
  std::vector<std::string> problems() const {
    std::vector<std::string> out;
    for (const ResourceProblem& each : resolver->list_problems())
      out.push_back(each.id + ": " + each.cause);
    return out;
  }

  osm::testing::ManualClock clock;
  osm::testing::ManualExecutor executor{clock};
  RandomRng rng{osm::testing::seed()};
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  std::map<std::string, Answer> zone;  // by id
  bool away = false;
  int slow_rounds = 0;  // the next rounds, which take ten seconds each
  std::map<std::string, int> asked;
  std::map<std::string, int> first_round;
  int rounds = 0;
  std::vector<Ids> changes;
  std::unique_ptr<ResourceResolver> resolver;
  Subscription subscription;
};

}  // namespace osm::dns::testing
