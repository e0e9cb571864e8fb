#include "catalog/resolve_limits.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "catalog/resolve_services.hpp"
#include "model/claims.hpp"
#include "osm/values/upstream_traffic_setting.hpp"

namespace osm::inline v1::catalog {
namespace {

std::set<ObjectKey> read_by(const Table<Policy>& policies) {
  std::set<ObjectKey> out;
  for (const auto& policy : policies)
    for (const ObjectKey& key : model::links_of(*policy).reads) out.insert(key);
  return out;
}

bool has_http(const model::ServiceEntry& service) {
  return std::any_of(service.ports.begin(), service.ports.end(),
                     [](const MeshService& port) { return is_http(port.protocol); });
}

bool is_hourly(const LocalRateLimit& rate) { return rate.unit >= std::chrono::hours(1); }

// The field of the first local limit of requests by the hour; empty: there is none.
std::string hourly_requests(const UpstreamLimits& limits) {
  if (limits.http && is_hourly(limits.http->rate)) return "spec.rateLimit.local.http.unit";
  for (std::size_t i = 0; i < limits.paths.size(); ++i)
    if (limits.paths[i].limit && is_hourly(limits.paths[i].limit->rate))
      return "spec.httpRoutes[" + std::to_string(i) + "].rateLimit.local.unit";
  return {};
}

using Report = std::function<void(ErrorCode, std::string, std::string)>;

// docs/mesh-objects.md lists what makes a bucket begin full again.
void report_hourly(const model::ServiceEntry& service, const UpstreamLimits& limits,
                   const Report& report) {
  const std::string remedy = "; limit by the minute, or count with spec.rateLimit.global";
  if (const auto field = hourly_requests(limits); !field.empty() && has_http(service))
    report(ErrorCode::kLimitResets, field,
           "a limit by the hour is no quota: with each change of a TrafficTarget, an "
           "HTTPRouteGroup or a limit at the servers of Service " +
               service.name.str() + ", and each start of a sidecar, its bucket begins full again" +
               remedy);
  if (limits.tcp && is_hourly(*limits.tcp) && !service.split)
    report(ErrorCode::kLimitResets, "spec.rateLimit.local.tcp.unit",
           "a limit by the hour is no quota: with each change of the limit and each start of a "
           "sidecar at the servers of Service " +
               service.name.str() + " its bucket begins full again" + remedy);
}

}  // namespace

std::vector<Problem> resolve_limits(const Table<Policy>& policies,
                                    std::vector<model::ServiceEntry>& services) {
  std::vector<Problem> problems;
  model::Owners owners;
  std::optional<std::set<ObjectKey>> read;
  for (const auto& policy : policies) {
    const auto* setting = policy->get<UpstreamTrafficSetting>();
    if (setting == nullptr) continue;
    const Report report = [&](ErrorCode code, std::string field, std::string cause) {
      problems.push_back({.code = code,
                          .object = policy->key,
                          .path = {},
                          .field = std::move(field),
                          .cause = std::move(cause)});
    };
    if (setting->service == ServiceName()) {
      if (!read) read = read_by(policies);
      if (!read->contains(policy->key))
        report(ErrorCode::kCrossNamespace, "spec.host",
               "must be the host of a Service of the object's own namespace, " + policy->key.ns +
                   "; or name the object in spec.matches of an Egress, whose hosts it then limits");
      continue;
    }
    const std::string name = setting->service.str();
    if (!owners.take(policy->key, model::links_of(*policy).claims.front(), problems)) continue;
    model::ServiceEntry* const service = find_service(services, setting->service);
    if (service == nullptr) {
      report(ErrorCode::kDanglingReference, "spec.host",
             "Service " + name + " is not there, or is invalid and left out");
      continue;
    }
    service->limits = setting->limits;
    service->limits_origin = {policy->key, "spec"};
    const UpstreamLimits& limits = setting->limits;
    if (service->split &&
        (limits.tcp || limits.global_tcp || limits.connections != ConnectionSettings()))
      report(ErrorCode::kUnusedField,
             limits.tcp          ? "spec.rateLimit.local.tcp"
             : limits.global_tcp ? "spec.rateLimit.global.tcp"
                                 : "spec.connectionSettings",
             "Service " + name +
                 " is the apex of a TrafficSplit, so its connections are those of its backends; "
                 "limit the backends");
    report_hourly(*service, limits, report);
    if ((limits.http || limits.global_http || !limits.paths.empty()) && !has_http(*service))
      report(ErrorCode::kUnusedField,
             limits.http          ? "spec.rateLimit.local.http"
             : limits.global_http ? "spec.rateLimit.global.http"
                                  : "spec.httpRoutes",
             "Service " + name +
                 " has no HTTP port, and only requests are counted; limit its connections with "
                 "spec.rateLimit.local.tcp");
  }
  return problems;
}

}  // namespace osm::inline v1::catalog
