#include "admin/admin_json.hpp"

#include "base/times.hpp"

namespace osm::inline v1::admin {
namespace {

namespace json = boost::json;

std::string time_text(WallTime time) { return rfc3339(time, 3); }

json::object state_json(const ProxyTypeState& state, SteadyTime now) {
  json::value lag;  // null: the proxy owes nothing
  if (state.sent_at)
    lag = std::chrono::duration_cast<std::chrono::milliseconds>(now - *state.sent_at).count();
  return {{"state", sync_state_text(state.state)},
          {"sent_version", state.last_sent_version},
          {"applied_version", state.last_applied_version},
          {"lag_ms", lag},
          {"nack", state.nack_detail}};
}

std::string route_text(const RoutePolicy& route) {
  std::string text;
  for (const std::string& method : route.methods) text += (text.empty() ? "" : ",") + method;
  if (text.empty()) text = "*";
  text += ' ' + route.path_regex;
  for (const auto& [name, value] : route.headers) text += ' ' + name + ": " + value;
  return text;
}

// A mesh has one MeshConfig, whatever its name is.
std::string object_text(const ObjectKey& object) {
  return object.name.empty() ? object.kind : object.str();
}

using SourceOf = std::function<ObjectSource(const ObjectKey&)>;

json::array steps_json(const std::vector<ExplainedStep>& steps, const SourceOf& source_of) {
  json::array out;
  for (const ExplainedStep& step : steps) {
    const bool named = !step.object.kind.empty();
    const ObjectSource source = named ? source_of(step.object) : ObjectSource{};
    out.push_back(
        json::object{{"step", step.stage},
                     {"effect", step_effect_text(step.effect)},
                     {"object", named ? object_text(step.object) : ""},
                     {"field", step.field},
                     {"path", source.path},
                     {"line", step.field.empty() ? source.line : source.line_of(step.field)},
                     {"reason", step.text}});
  }
  return out;
}

json::object way_json(const ExplainedWay& way, const SourceOf& source_of) {
  return {{"service", way.service.empty() ? "" : way.service.str()},
          {"port", number(way.port)},
          {"account", way.account.empty() ? "" : way.account.str()},
          {"addresses", json::array(way.addresses.begin(), way.addresses.end())},
          {"allowed", way.answer.allowed},
          {"status", way.answer.status},
          {"answer", way.text()},
          {"not_connected", json::array(way.not_connected.begin(), way.not_connected.end())},
          {"steps", steps_json(way.steps, source_of)}};
}

}  // namespace

json::object to_json(const Explanation& explanation, const SourceOf& source_of) {
  json::array ways;
  for (const ExplainedWay& way : explanation.ways) ways.push_back(way_json(way, source_of));
  return {{"verdict", call_verdict_text(explanation.verdict())},
          {"mode", explanation.permissive ? "permissive" : "SMI"},
          {"source", explanation.source.empty() ? "" : explanation.source.str()},
          {"steps", steps_json(explanation.steps, source_of)},
          {"ways", std::move(ways)},
          {"problems", list(explanation.problems)}};
}

json::object to_json(const Proxy& proxy, SteadyTime now) {
  json::array services;
  for (const ServiceName& service : proxy.services) services.emplace_back(service.str());
  json::object types;
  for (const XdsType type : kXdsTypes)
    types[xds_type_text(type)] = state_json(proxy.types[static_cast<std::size_t>(type)], now);
  const bool here = proxy.connected_at != WallTime();  // another replica's is not known
  json::object out{{"name", proxy.workload.str()},
                   {"uuid", proxy.id.str()},
                   {"common_name", proxy.common_name.str()},
                   {"identity", proxy.identity.str()},
                   {"services", std::move(services)},
                   {"peer_address", proxy.peer_address},
                   {"connected_at", here ? time_text(proxy.connected_at) : ""},
                   {"certificate_served_until", time_text(proxy.certificate_served_until)},
                   {"certificate_not_after", time_text(proxy.certificate_not_after)},
                   {"xds", xds_variant_text(proxy.xds)},
                   {"types", std::move(types)}};
  if (!proxy.replica.empty()) out["replica"] = proxy.replica;
  return out;
}

json::object to_json(const certificate::ProxyCertificate& certificate) {
  return {{"common_name", certificate.common_name.str()},
          {"uuid", certificate.proxy_id.str()},
          {"namespace", certificate.ns},
          {"not_after", time_text(certificate.not_after)},
          {"claimed", certificate.claimed}};
}

json::object to_json(const certificate::Certificate& certificate) {
  return {{"common_name", certificate.subject.common_name.str()},
          {"spiffe_id", certificate.subject.spiffe_id.str()},
          {"usage", certificate::usage_text(certificate.subject.usage)},
          {"serial_number", certificate.serial_number},
          {"fingerprint", certificate.fingerprint},
          {"not_before", time_text(certificate.not_before)},
          {"not_after", time_text(certificate.not_after)}};
}

json::object to_json(const Problem& problem) {
  return {{"code", error_code_text(problem.code)},
          {"severity", severity_text(severity_of(problem.code))},
          {"object", problem.object.kind.empty() ? "" : problem.object.str()},
          {"path", problem.path},
          {"line", problem.line},
          {"field", problem.field},
          {"cause", problem.cause}};
}

json::object to_json(const RootStatus& root) {
  return {{"name", root.name},
          {"state", root.state},
          {"role", root.role},
          {"since", time_text(root.since)},
          {"waiting_for", root.waiting_for},
          {"left_behind", root.left_behind},
          {"trust_domain", root.trust_domain.str()},
          {"fingerprint", root.fingerprint},
          {"not_after", root.not_after ? time_text(*root.not_after) : ""},
          {"latest_not_after", root.latest_not_after ? time_text(*root.latest_not_after) : ""}};
}

json::object to_json(const DistrustEffect& effect) {
  return {{"signs", effect.signs},
          {"proxies", effect.proxies},
          {"bundles", effect.bundles},
          {"some", json::array(effect.some.begin(), effect.some.end())}};
}

json::object to_json(const ObjectStatus& status) {
  json::array lagging;
  for (const ProxyLag& lag : status.lagging)
    lagging.push_back(json::object{{"workload", lag.workload.str()},
                                   {"uuid", lag.proxy.str()},
                                   {"refused", lag.refused},
                                   {"detail", lag.detail}});
  json::array absent;
  for (const WorkloadName& workload : status.not_connected) absent.emplace_back(workload.str());
  const auto names = [](const std::vector<std::string>& replicas) {
    return json::array(replicas.begin(), replicas.end());
  };
  return {{"object", status.object.str()},
          {"generation", status.generation},
          {"removed", status.removed},
          {"phase", object_phase_text(status.phase)},
          {"concerned", status.concerned},
          {"applied", status.applied},
          {"lagging", std::move(lagging)},
          {"not_connected", std::move(absent)},
          {"problems", list(status.problems)},
          {"replicas", status.replicas},
          {"replicas_behind", names(status.replicas_behind)},
          {"replicas_unknown", names(status.replicas_unknown)},
          {"replicas_known", status.replicas_known}};
}

json::object to_json(const MergedEndpoint& merged) {
  const Endpoint& endpoint = merged.endpoint;
  json::value weight;  // null: equal
  if (endpoint.weight) weight = *endpoint.weight;
  return {{"address", endpoint.address},
          {"port", number(endpoint.port)},
          {"service_port", endpoint.service_port},
          {"identity", endpoint.identity.str()},
          {"zone", endpoint.zone.value_or("")},
          {"weight", weight},
          {"provider", merged.provider}};
}

json::object to_json(const MeshService& service) {
  return {{"service", service.name.str()},
          {"port_name", service.port_name},
          {"port", number(service.port)},
          {"target_port", number(service.target_port)},
          {"protocol", protocol_text(service.protocol)}};
}

json::object to_json(const IngressTrafficPolicy& policy) {
  json::value networks;  // null: any address
  if (policy.networks) networks = json::array(policy.networks->begin(), policy.networks->end());
  return {{"object", policy.ingress.str()},
          {"target_port", number(policy.target_port)},
          {"encryption", encryption_text(policy.tls)},
          {"networks", std::move(networks)},
          {"principals", json::array(policy.principals.begin(), policy.principals.end())}};
}

const char* encryption_text(const std::optional<IngressTls>& tls) {
  if (!tls) return "none";
  return tls->client_certificate ? "mTLS" : "TLS";
}

json::object to_json(const TrafficPolicy& policy, const ObjectSource& source) {
  std::string ports;
  for (const Port port : policy.tcp_ports)
    ports += (ports.empty() ? "" : ",") + std::to_string(number(port));
  json::array routes;
  for (const RoutePolicy& route : policy.http_routes)
    routes.emplace_back(route_text(route) + (ports.empty() ? "" : " on port " + ports));
  if (policy.tcp) routes.emplace_back(ports.empty() ? "any TCP port" : "TCP port " + ports);
  return {{"object", "TrafficTarget " + policy.target.str()},
          {"path", source.path},
          {"line", source.line},
          {"routes", std::move(routes)}};
}

}  // namespace osm::inline v1::admin
