// What everything that keeps up the cluster's objects works with.
#pragma once

#include <chrono>
#include <string>

#include "kubernetes/client/api.hpp"
#include "osm/clock.hpp"
#include "osm/executor.hpp"
#include "osm/log.hpp"
#include "osm/metrics.hpp"

namespace osm::inline v1::kubernetes {

// All outlive whoever is given them. Calls of the API wait on `blocking`.
struct Surroundings {
  Api& api;
  Executor& blocking;
  const Clock& clock;
  Rng& rng;
  LogSink& log;
  MetricsSink& metrics;
};

// `delay`, or up to a quarter more: replicas that started together drift apart.
std::chrono::nanoseconds jittered(Rng& rng, std::chrono::nanoseconds delay);

// "2024-01-01T00:00:00Z", and with six decimals, as metav1.Time and metav1.MicroTime are written.
std::string kubernetes_time(WallTime time);
std::string kubernetes_micro_time(WallTime time);

inline constexpr const char* kNameLabel = "app.kubernetes.io/name";
inline constexpr const char* kNameLabelValue = "openservicemesh.io";
inline constexpr const char* kInstanceLabel = "app.kubernetes.io/instance";
inline constexpr const char* kVersionLabel = "app.kubernetes.io/version";

}  // namespace osm::inline v1::kubernetes
