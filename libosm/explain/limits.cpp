#include <algorithm>

#include "explain/call.hpp"
#include "osm/values/upstream_traffic_setting.hpp"

namespace osm::inline v1::explain {
namespace {

constexpr const char* kLimits = "limits";

std::string rate_text(const LocalRateLimit& rate) {
  return std::to_string(rate.amount) + " in " + std::to_string(rate.unit.count()) + " s";
}

void note_retries(const ExplainedCall& call, const model::ServiceEntry& service,
                  std::vector<ExplainedStep>& steps) {
  const auto client = call.mesh.clients.find(call.source);
  if (!client) return;
  const auto at = client->retries.find(service.name);
  if (at == client->retries.end()) return;
  const RetryPolicy& policy = at->second.policy;
  steps.push_back(step(kLimits, StepEffect::kNotes,
                       "a request that fails is sent again, up to " +
                           std::to_string(policy.num_retries) + " times, on " + policy.retry_on,
                       at->second.origin));
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

void add_connection_limits(const UpstreamLimits& limits, std::vector<std::string>& out) {
  if (limits.connections != ConnectionSettings())
    out.push_back("connections and requests of each client are limited");
  if (limits.tcp) out.push_back("each workload accepts " + rate_text(*limits.tcp) + " connections");
  if (limits.global_tcp)
    out.push_back("the rate-limit server " + server_text(limits.global_tcp->server) +
                  " may refuse connections");
}

std::string joined(const std::vector<std::string>& parts) {
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
                 Limited limited, std::vector<ExplainedStep>& steps) {
  const bool http = is_http(protocol) && limited != Limited::kConnections;
  if (http) note_retries(call, service, steps);
  if (http) note_authorizer(call, steps);
  if (!service.limits) return;
  std::vector<std::string> parts;
  if (limited != Limited::kRequests) add_connection_limits(*service.limits, parts);
  if (http) add_request_limits(*service.limits, call.question, parts);
  if (!parts.empty())
    steps.push_back(step(kLimits, StepEffect::kNotes, joined(parts), service.limits_origin));
}

}  // namespace osm::inline v1::explain
