// Retries of failed HTTP requests: a Retry, policy.openservicemesh.io/v1alpha1.
// docs/mesh-objects.md has the fields and the effects.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "osm/ids.hpp"

namespace osm::inline v1 {

// Number and timing of a request's retries. Names and meaning are those of Envoy's RetryPolicy.
struct RetryPolicy {
  std::string retry_on;  // Envoy's conditions, separated by commas; not empty
  std::uint32_t num_retries = 0;
  std::chrono::milliseconds per_try_timeout{};         // above 0
  std::chrono::milliseconds back_off_base_interval{};  // above 0

  friend bool operator==(const RetryPolicy&, const RetryPolicy&) = default;
};

// One Retry, without its invalid destinations.
struct Retry {
  ServiceIdentity source;                 // in the object's own namespace
  std::vector<ServiceName> destinations;  // in written order
  RetryPolicy policy;

  friend bool operator==(const Retry&, const Retry&) = default;
};

}  // namespace osm::inline v1
