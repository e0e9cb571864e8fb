#include "inject/injection_gate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/maps.hpp"

namespace osm::inline v1::inject {
namespace {

// A rollout creates its Pods in bursts.
constexpr std::chrono::seconds kBurst{5};
// The control plane reports a Secret within a few seconds.
constexpr std::chrono::seconds kUnreported{10};
// Beyond them, rates that nobody used for kBurst are forgotten: they are full again.
constexpr std::size_t kNamespaces = 1024;

}  // namespace

InjectionGate::InjectionGate(const Clock& clock, const InjectionLimits& limits,
                             std::function<std::optional<WaitingSecrets>()> waiting)
    : clock_(clock),
      limits_(limits),
      waiting_(std::move(waiting)),
      all_(rate(limits.per_second)),
      lines_(clock) {}

RateLimit InjectionGate::rate(std::size_t per_second) const {
  const auto count = static_cast<double>(per_second);
  return {clock_, count * static_cast<double>(kBurst.count()),
          std::chrono::nanoseconds(std::chrono::seconds(1)) / std::max<std::size_t>(per_second, 1)};
}

std::optional<InjectionGate::Refusal> InjectionGate::enter(const std::string& ns) {
  std::lock_guard lock(mutex_);
  const SteadyTime now = clock_.steady_now();
  if (auto full = check_waiting(ns, now)) return full;
  if (auto fast = take_rates(ns, now)) return fast;
  if (waiting_) {
    own_.emplace_back(now, ns);
    ++own_by_namespace_[ns];
  }
  return std::nullopt;
}

InjectionGate::Refusal InjectionGate::refused(const char* limit, std::string message) {
  return {limit, std::move(message), lines_.admit()};
}

void InjectionGate::forget_own(SteadyTime before) {
  while (!own_.empty() && own_.front().first <= before) {
    const auto at = own_by_namespace_.find(own_.front().second);
    if (--at->second == 0) own_by_namespace_.erase(at);
    own_.pop_front();
  }
}

std::optional<InjectionGate::Refusal> InjectionGate::check_waiting(const std::string& ns,
                                                                   SteadyTime now) {
  if (!waiting_) return std::nullopt;
  const auto reported = waiting_();
  // Without a report none of our own Secrets is known to have its Pod.
  if (reported) forget_own(now - kUnreported);
  std::size_t here = 0;
  std::size_t all = own_.size();
  if (const auto* own = find_in(own_by_namespace_, ns)) here += *own;
  if (reported) {
    all += reported->all;
    if (const auto* known = find_in(reported->by_namespace, ns)) here += *known;
  }
  const auto full = [&](const char* limit, const std::string& where, std::size_t bound,
                        const char* flag) {
    return refused(
        limit, fmt::format("{} {} bootstrap Secrets whose Pod has not come, the limit ({}); {}",
                           where, bound, flag,
                           reported ? "osm-controller deletes each ten minutes after its creation: "
                                      "find out who sends reviews without creating Pods, and "
                                      "require client certificates (--client-ca-file)"
                                    : "no osm-controller reports which Pods have come: make sure "
                                      "that one runs"));
  };
  if (here >= limits_.waiting_secrets_per_namespace)
    return full("namespace_secrets", "namespace " + ns + " has",
                limits_.waiting_secrets_per_namespace, "--max-waiting-secrets-per-namespace");
  if (all >= limits_.waiting_secrets)
    return full("secrets", "the mesh has", limits_.waiting_secrets, "--max-waiting-secrets");
  return std::nullopt;
}

std::optional<InjectionGate::Refusal> InjectionGate::take_rates(const std::string& ns,
                                                                SteadyTime now) {
  const auto full = [&](const char* limit, const std::string& where, std::size_t per_second,
                        const char* flag) {
    return refused(limit, fmt::format("{} more than {} injections a second, the limit ({}); try "
                                      "again in a second, or raise the limit of osm-injector if "
                                      "so many Pods are created on purpose",
                                      where, per_second, flag));
  };
  const auto known = namespaces_.find(ns);
  if (known == namespaces_.end() && namespaces_.size() >= kNamespaces)
    std::erase_if(namespaces_, [&](const auto& rate) { return now - rate.second.used >= kBurst; });
  Rate& here =
      namespaces_.try_emplace(ns, Rate{rate(limits_.per_second_per_namespace), now}).first->second;
  here.used = now;
  if (!here.limit.take())
    return full("namespace_rate", "namespace " + ns + " has", limits_.per_second_per_namespace,
                "--max-injections-per-second-per-namespace");
  if (!all_.take())
    return full("rate", "the mesh has", limits_.per_second, "--max-injections-per-second");
  return std::nullopt;
}

}  // namespace osm::inline v1::inject
