#include <algorithm>

#include "catalog/explain_call.hpp"
#include "osm/values/retry.hpp"
#include "osm/values/upstream_traffic_setting.hpp"

namespace osm::inline v1::catalog {
namespace {

constexpr const char* kLimits = "limits";

std::string rate_text(const LocalRateLimit& rate) {
  return std::to_string(rate.amount) + " in " + std::to_string(rate.unit.count()) + " s";
}

// The first object by key of whose value `concerns` is true; null: there is none.
template <class T, class Concerns>
const Policy* policy_of(const ExplainedCall& call, Concerns concerns) {
  for (const auto& policy : call.objects().policies)
    if (const T* value = policy->get<T>(); value != nullptr && concerns(*value))
      return policy.get();
  return nullptr;
}

void note_retries(const ExplainedCall& call, const model::ServiceEntry& service,
                  std::vector<ExplainedStep>& steps) {
  const auto client = call.mesh.clients.find(call.source);
  if (!client) return;
  const auto at = client->retries.find(service.name);
  if (at == client->retries.end()) return;
  const Policy* object = policy_of<Retry>(call, [&](const Retry& retry) {
    const auto& named = retry.destinations;
    return retry.source == call.source &&
           std::find(named.begin(), named.end(), service.name) != named.end();
  });
  steps.push_back(step(kLimits, StepEffect::kNotes,
                       "a request that fails is sent again, up to " +
                           std::to_string(at->second.num_retries) + " times, on " +
                           at->second.retry_on,
                       object ? object->key : ObjectKey(), "spec.retryPolicy"));
}

std::string server_text(const RateLimitServer& server) {
  return server.host + ':' + std::to_string(number(server.port));
}

// The limits of requests to the question's path.
void add_request_limits(const UpstreamLimits& limits, const CallQuestion& question,
                        std::vector<std::string>& out) {
  const std::string path = question.path.substr(0, question.path.find('?'));
  const auto own = std::find_if(
      limits.paths.begin(), limits.paths.end(),
      [&](const HttpRouteRateLimit& limit) { return matches_path(limit.path_regex, path); });
  const auto& rate = own != limits.paths.end() && own->limit ? own->limit : limits.http;
  if (rate)
    out.push_back("each workload answers " + std::to_string(rate->status) + " above " +
                  rate_text(rate->rate) + " such requests (raise it if that is too few)");
  if (limits.global_http)
    out.push_back("the rate-limit server " + server_text(limits.global_http->server) +
                  " may refuse requests with " + std::to_string(limits.global_http->status));
}

std::string limits_text(const UpstreamLimits& limits, const CallQuestion& question, bool http) {
  std::vector<std::string> parts;
  if (limits.connections != ConnectionSettings())
    parts.push_back("connections and requests of each client are limited");
  if (limits.tcp)
    parts.push_back("each workload accepts " + rate_text(*limits.tcp) + " connections");
  if (limits.global_tcp)
    parts.push_back("the rate-limit server " + server_text(limits.global_tcp->server) +
                    " may refuse connections");
  if (http) add_request_limits(limits, question, parts);
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : "; ") + part;
  return out;
}

void note_authorizer(const ExplainedCall& call, std::vector<ExplainedStep>& steps) {
  const ExternalAuthorization& authorizer = call.mesh.config.proxy.external_authorization;
  if (!authorizer.enabled) return;
  steps.push_back(step(kLimits, StepEffect::kNotes,
                       "the workloads' sidecars also ask the authorizer at " + authorizer.address +
                           ", which may refuse a request that the mesh allows",
                       model::mesh_config_key(), "spec.traffic.inboundExternalAuthorization"));
}

}  // namespace

void note_limits(const ExplainedCall& call, const model::ServiceEntry& service, Protocol protocol,
                 std::vector<ExplainedStep>& steps) {
  const bool http = is_http(protocol);
  if (http) note_retries(call, service, steps);
  if (http) note_authorizer(call, steps);
  if (service.limits) {
    const Policy* object = policy_of<UpstreamTrafficSetting>(
        call,
        [&](const UpstreamTrafficSetting& setting) { return setting.service == service.name; });
    if (const std::string text = limits_text(*service.limits, call.question, http); !text.empty())
      steps.push_back(
          step(kLimits, StepEffect::kNotes, text, object ? object->key : ObjectKey(), "spec"));
  }
}

}  // namespace osm::inline v1::catalog
