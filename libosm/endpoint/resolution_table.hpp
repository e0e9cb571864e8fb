// The resolver of a platform's ids: the schedule of questions, and the last good answers.
//
// A question asks for one or more ids. The ids that have been due for longest are asked for first,
// so that ids that are never answered do not keep others waiting. States of an id:
//
// | Outcome            | Resolution              | Settled               | Asked again      |
// |--------------------|-------------------------|-----------------------|------------------|
// | answered           | the answer's            | at once               | `again_after`    |
// | no data            | the last good one       | at once               | after a back-off |
// | not found          | the same; no instances  | at once               | after a back-off |
// |                    | after `gone_after`      |                       |                  |
// | refused            | the last good one       | at the third refusal  | after a back-off |
// | silent             | the last good one       | no (`silence_counts`) | after a back-off |
// | a fault in a pause | the last good one       | no                    | after the pause  |
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/backoff.hpp"
#include "osm/detail/api.hpp"
#include "osm/providers/resource_resolver.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::endpoint {

enum class Outcome {
  kAnswered,  // there are addresses
  kNoData,    // the resource exists without addresses that can be used
  kNotFound,  // there is no such resource
  kRefused,   // the platform answered with an error
  kSilent,    // the platform did not answer
};

// A platform's answer for one id.
struct ResolutionAnswer {
  Outcome outcome = Outcome::kSilent;
  Resolution resolution{};                 // if answered
  std::chrono::nanoseconds again_after{};  // if answered: time until the id is asked for again
  Error fault{};                           // otherwise: text of the problem
};
using ResolutionAnswers = std::map<std::string, ResolutionAnswer>;  // by id

// Asks a platform. The resolver owns it; a question in flight may keep it for longer.
class OSM_API ResolutionPlatform {
 public:
  virtual ~ResolutionPlatform() = default;

  // True for an id of the platform; others are not followed. Thread: any. Blocking: no.
  virtual bool knows(const std::string& id) const = 0;
  // Result: an answer for each id. Thread: `blocking`, as many at once as the options allow.
  // Blocking: until answered, or soon after end().
  virtual ResolutionAnswers ask(const std::set<std::string>& ids) = 0;
  // Ends present and later questions. Thread: any. Blocking: no.
  virtual void end() = 0;
  // Logs and counts an answer that the resolver took; `former`: the outcome before it, kAnswered
  // for the first one. Thread: the resolver's, under its lock. Blocking: no.
  virtual void report(const std::string& id, const ResolutionAnswer& answer,
                      Outcome former) const = 0;

  // The platform asked for no questions until then. Thread: any. Blocking: no.
  virtual std::optional<SteadyTime> paused_until() const { return std::nullopt; }
  // A fault of the whole platform, which is unhealthy meanwhile; it is the only problem then.
  // Thread: any. Blocking: no.
  virtual std::optional<Error> problem() const { return std::nullopt; }
};

struct ResolutionTableOptions {
  std::string id;   // of the resolver
  Runtime runtime;  // questions wait on `blocking`, `questions_at_once` at a time
  std::size_t ids_per_question = 1;
  std::size_t questions_at_once = 1;
  Backoff backoff;                        // after faults
  std::chrono::nanoseconds gone_after{};  // of "not found" without a break
  // Silence counts among the three refusals, and settles an id once any id was answered for.
  bool silence_counts = false;
  bool problems_count_kept = false;  // a problem's text ends with the number of addresses kept
};

// It is healthy if the last question was answered for any of its ids, or the platform paused.
// Thread: any. Blocking: no. Lifetime: the runtime outlives it.
OSM_API std::unique_ptr<ResourceResolver> make_resolution_table(
    const ResolutionTableOptions& options, std::unique_ptr<ResolutionPlatform> platform);

}  // namespace osm::inline v1::endpoint
