// The resolver of Azure's resources: a ResolutionTable that asks ARM.
//
// Each resource is asked for on its own, at most four at a time. One with an answer is asked for
// again after the interval and up to a quarter more, and another one after a back-off up to the
// interval. After 429 and 503 no request is sent for the time that ARM asked for.
#include <utility>

#include "azure/arm.hpp"
#include "base/backoff.hpp"
#include "endpoint/resolution_table.hpp"

namespace osm::inline v1::azure {
namespace {

using endpoint::Outcome;

Outcome outcome_of(ErrorCode code) {
  if (code == ErrorCode::kNotFound) return Outcome::kNotFound;
  return code == ErrorCode::kUnavailable ? Outcome::kSilent : Outcome::kRefused;
}

class ArmPlatform final : public endpoint::ResolutionPlatform {
 public:
  ArmPlatform(const AzureResolverOptions& options, std::unique_ptr<Ending> ending,
              std::unique_ptr<Arm> arm)
      : options_(options), ending_(std::move(ending)), arm_(std::move(arm)) {}

  bool knows(const std::string& id) const override { return resource_id_of(id).has_value(); }
  void end() override { ending_->end(); }
  std::optional<SteadyTime> paused_until() const override { return arm_->paused_until(); }
  std::optional<Error> problem() const override { return arm_->login_problem(); }

  endpoint::ResolutionAnswers ask(const std::set<std::string>& ids) override {
    endpoint::ResolutionAnswers out;
    for (const std::string& id : ids) {
      auto found = arm_->resolve(*resource_id_of(id));
      if (found)
        out[id] = {.outcome = Outcome::kAnswered,
                   .resolution = *std::move(found),
                   .again_after = jittered(options_.settings.interval, options_.runtime.rng)};
      else
        out[id] = {.outcome = outcome_of(found.error().code), .fault = found.error()};
    }
    return out;
  }

  void report(const std::string& id, const endpoint::ResolutionAnswer& answer,
              Outcome former) const override {
    const bool resolved = answer.outcome == Outcome::kAnswered;
    if (resolved == (former == Outcome::kAnswered)) return;
    if (resolved)
      options_.runtime.log.info("an Azure resource is resolved again",
                                {{"id", resource_id_of(id)->text}});
    else
      options_.runtime.log.warning("an Azure resource is not resolved; its last addresses are kept",
                                   {{"cause", answer.fault.message}});
  }

 private:
  const AzureResolverOptions options_;
  const std::unique_ptr<Ending> ending_;
  const std::unique_ptr<Arm> arm_;  // destroyed before `ending_`
};

}  // namespace

Result<std::unique_ptr<ResourceResolver>> make_azure_resolver(const AzureResolverOptions& options) {
  auto ending = std::make_unique<Ending>();
  auto arm = Arm::make(options, *ending);
  if (!arm) return Error{ErrorCode::kInvalidArgument, arm.error().message};
  return endpoint::make_resolution_table(
      {.id = "azure",
       .runtime = options.runtime,
       .ids_per_question = 1,
       .questions_at_once = 4,
       .backoff = {std::chrono::seconds(1), options.settings.interval},
       .gone_after = options.gone_after},
      std::make_unique<ArmPlatform>(options, std::move(ending), *std::move(arm)));
}

}  // namespace osm::inline v1::azure
