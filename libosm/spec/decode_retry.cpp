// Retry, policy.openservicemesh.io/v1alpha1.
#include <algorithm>
#include <array>
#include <chrono>

#include "osm/values/retry.hpp"
#include "spec/decoder.hpp"

namespace osm::inline v1::spec {
namespace {

constexpr std::int64_t kMostRetries = 1024;
constexpr DurationRule kTime{std::chrono::milliseconds(1), std::chrono::hours(1),
                             "from 1ms to 1h, such as 25ms or 1s"};

// Envoy's retry conditions, separated by commas.
// https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/router_filter
std::string retry_on_of(const Field& field) {
  constexpr auto kConditions = std::to_array<std::string_view>(
      {"5xx", "gateway-error", "reset", "reset-before-request", "connect-failure",
       "envoy-ratelimited", "retriable-4xx", "refused-stream", "retriable-status-codes",
       "retriable-headers", "http3-post-connect-failure", "cancelled", "deadline-exceeded",
       "internal", "resource-exhausted", "unavailable"});
  const std::string text = field.required_text();
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto comma = std::min(rest.find(','), rest.size());
    const std::string_view word = rest.substr(0, comma);
    if (std::find(kConditions.begin(), kConditions.end(), word) == kConditions.end()) {
      field.refuse("has \"" + std::string(word) +
                   "\", which is no condition of Envoy's; give one or more, separated by commas, "
                   "such as 5xx,connect-failure");
      return {};
    }
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return text;
}

std::chrono::milliseconds required_time(const Field& field) {
  return duration_of(field.required(), kTime).value_or(std::chrono::milliseconds(0));
}

RetryPolicy retry_policy_of(const Field& field) {
  RetryPolicy policy;
  const auto [map, retry_on, per_try_timeout, num_retries, base_interval] =
      field.required_map("retryOn", "perTryTimeout", "numRetries", "retryBackoffBaseInterval");
  if (!map) return policy;
  policy.retry_on = retry_on_of(retry_on);
  policy.per_try_timeout = required_time(per_try_timeout);
  policy.num_retries =
      static_cast<std::uint32_t>(num_retries.required().integer(0, kMostRetries).value_or(0));
  policy.back_off_base_interval = required_time(base_interval);
  return policy;
}

}  // namespace

DecodedPolicy decode_retry(const Object& object) {
  ObjectReader reader(object, NameRule::kSubdomain);
  Retry retry;
  const auto [map, source, destinations, policy] =
      reader.root()["spec"].required_map("source", "destinations", "retryPolicy");
  if (map) {
    retry.source = own_account(source, "Retry", object.key.ns);
    retry.destinations = destinations.required().elements("destination", [](const Field& field) {
      const auto [ns, name] = required_reference(field, kinds::kService);
      return ServiceName{ns, name};
    });
    retry.policy = retry_policy_of(policy);
  }
  return std::move(reader).finish_policy(std::move(retry));
}

}  // namespace osm::inline v1::spec
