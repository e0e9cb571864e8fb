// Bounds of injections, each of which leaves a Secret in the API server: their rate, and the number
// of Secrets whose Pod has not come. Anybody who reaches a webhook's port can send reviews.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/log_limit.hpp"
#include "base/rate_limit.hpp"
#include "osm/inject/injector.hpp"

namespace osm::inline v1::inject {

class InjectionGate {
 public:
  // `clock` outlives it. `waiting`: as InjectorOptions::waiting_secrets; may be null.
  InjectionGate(const Clock& clock, const InjectionLimits& limits,
                std::function<std::optional<WaitingSecrets>()> waiting);

  struct Refusal {
    const char* limit;                    // label of the metric
    std::string message;                  // the limit, its flag and the remedy
    std::optional<std::size_t> left_out;  // as LogLimit::admit()
  };
  // Counts an injection in namespace `ns`, which belongs to the mesh. Result: the refusal; nullopt:
  // it may go on. Thread: any. Blocking: no.
  std::optional<Refusal> enter(const std::string& ns);

 private:
  struct Rate {
    RateLimit limit;
    SteadyTime used;
  };

  Refusal refused(const char* limit, std::string message);
  std::optional<Refusal> check_waiting(const std::string& ns, SteadyTime now);
  std::optional<Refusal> take_rates(const std::string& ns, SteadyTime now);
  void forget_own(SteadyTime before);
  RateLimit rate(std::size_t per_second) const;

  const Clock& clock_;
  const InjectionLimits limits_;
  const std::function<std::optional<WaitingSecrets>()> waiting_;

  std::mutex mutex_;  // guards the rest
  RateLimit all_;
  std::map<std::string, Rate> namespaces_;
  // Our injections that no report contains yet, in order, and their number by namespace.
  std::deque<std::pair<SteadyTime, std::string>> own_;
  std::map<std::string, std::size_t> own_by_namespace_;
  LogLimit lines_;
};

}  // namespace osm::inline v1::inject
