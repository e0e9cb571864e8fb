#include "dns/resolver.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "endpoint/resolution_table.hpp"

namespace osm::inline v1::dns {
namespace {

constexpr Counter kDnsLookups{
    "osm_dns_lookups_total", "DNS names asked for, by result", {"result"}};

using std::chrono::seconds;

// Precondition: the outcome is a fault.
Error fault_of(const Question& question, Outcome outcome) {
  const std::string record = std::string(text_of(question.type)) + " record";
  const std::string name = "DNS name " + question.name;
  switch (outcome) {
    case Outcome::kNotFound:
      return {ErrorCode::kNotFound,
              name + " does not exist (NXDOMAIN); correct spec.name or the zone"};
    case Outcome::kNoData:
      return {ErrorCode::kNotFound,
              name + " has no " + record + " that can be used; correct spec.type or the zone"};
    case Outcome::kRefused:
      return {ErrorCode::kUnavailable,
              name +
                  ": the name server answers with an error; look at its log, or name another one "
                  "with --dns-server"};
    default:
      return {ErrorCode::kUnavailable,
              name +
                  ": no name server answers; check --dns-server, or /etc/resolv.conf, and the "
                  "network"};
  }
}

class NameServers final : public endpoint::ResolutionPlatform {
 public:
  NameServers(const DnsResolverOptions& options, Ask ask)
      : options_(options), ask_(std::move(ask)) {}

  bool knows(const std::string& id) const override { return question_of(id).has_value(); }
  void end() override { ended_ = true; }

  endpoint::ResolutionAnswers ask(const std::set<std::string>& ids) override {
    std::set<Question> questions;
    for (const std::string& id : ids) questions.insert(*question_of(id));
    endpoint::ResolutionAnswers out;
    for (auto& [question, found] : look_up(questions, ask_, ended_)) {
      auto& answer = out[id_of(question)];
      answer.outcome = found.outcome;
      if (found.outcome == Outcome::kAnswered) {
        answer.resolution = std::move(found.resolution);
        answer.again_after = std::clamp(found.ttl, options_.least_ttl, options_.longest_ttl);
      } else {
        answer.fault = fault_of(question, found.outcome);
      }
    }
    return out;
  }

  void report(const std::string& id, const endpoint::ResolutionAnswer& answer,
              Outcome former) const override {
    const Runtime& runtime = options_.runtime;
    runtime.metrics.add(kDnsLookups, {{"result", std::string(outcome_text(answer.outcome))}}, 1);
    if (answer.outcome == former) return;
    if (answer.outcome == Outcome::kAnswered)
      runtime.log.info("a DNS name is answered again", {{"name", question_of(id)->name}});
    else
      runtime.log.warning("a DNS name is not answered; its last addresses are kept",
                          {{"cause", answer.fault.message}});
  }

 private:
  const DnsResolverOptions options_;
  const Ask ask_;
  std::atomic<bool> ended_ = false;
};

}  // namespace

std::unique_ptr<ResourceResolver> make_resolver(const DnsResolverOptions& options, Ask ask) {
  return endpoint::make_resolution_table({.id = "dns",
                                          .runtime = options.runtime,
                                          .ids_per_question = 64,
                                          .questions_at_once = 1,
                                          .backoff = {seconds(1), seconds(30)},
                                          .gone_after = options.gone_after,
                                          .silence_counts = true,
                                          .problems_count_kept = true},
                                         std::make_unique<NameServers>(options, std::move(ask)));
}

Result<std::unique_ptr<ResourceResolver>> make_dns_resolver(const DnsResolverOptions& options) {
  OSM_TRY(check_servers(options.servers));
  return make_resolver(options, make_lookup({options.servers, options.timeout, options.deadline}));
}

}  // namespace osm::inline v1::dns
