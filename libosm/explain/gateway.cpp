#include <arpa/inet.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/maps.hpp"
#include "explain/call.hpp"
#include "model/own_ports.hpp"
#include "osm/values/ingress_backend.hpp"

namespace osm::inline v1::explain {
namespace {

using model::IngressPort;

constexpr const char* kIngress = "ingress";

// A Service whose backend may take the connection.
struct Backend {
  ServiceEntryPtr service;
  MeshService port;
  const IngressPort* callers;
};

bool is_in(const std::string& network, const std::string& address) {
  const auto slash = network.find('/');
  in_addr of_network{}, of_address{};
  if (slash == std::string::npos ||
      inet_pton(AF_INET, network.substr(0, slash).c_str(), &of_network) != 1 ||
      inet_pton(AF_INET, address.c_str(), &of_address) != 1)
    return false;
  const int bits = std::stoi(network.substr(slash + 1));
  return bits == 0 || (ntohl(of_network.s_addr) ^ ntohl(of_address.s_addr)) >> (32 - bits) == 0;
}

// Length of the server name that takes the host: an exact one is longer than every wildcard. -1:
// none does.
int best_server_name(const IngressTls& tls, const std::string& host) {
  if (tls.sni_hosts.empty()) return 0;
  int best = -1;
  for (const std::string& name : tls.sni_hosts) {
    const int length = static_cast<int>(name.size());
    if (name == host) return 1000;
    if (name.starts_with("*.") && host.size() >= name.size() && host.ends_with(name.substr(1)))
      best = std::max(best, length);
  }
  return best;
}

std::vector<Backend> backends_at(const ExplainedCall& call, const Workload& workload) {
  std::vector<Backend> out;
  std::set<ServiceName> taken;
  for (const MeshService& port : model::own_ports_of(call.mesh.services, workload).ports) {
    if (port.target_port != call.question.port) continue;
    const auto entry = call.mesh.services.find(port.name);
    const IngressPort* callers = entry ? find_in(entry->ingress, port.target_port) : nullptr;
    if (callers != nullptr && taken.insert(port.name).second) out.push_back({entry, port, callers});
  }
  std::sort(out.begin(), out.end(),
            [](const Backend& a, const Backend& b) { return a.service->name < b.service->name; });
  return out;
}

// The backend whose chain takes the connection; null: none does. The first by name has what several
// could take.
const Backend* chosen(const std::vector<Backend>& backends, const CallQuestion& question) {
  const bool plain = question.certificate.empty() &&
                     std::any_of(backends.begin(), backends.end(),
                                 [](const Backend& one) { return !one.callers->tls; });
  const Backend* best = nullptr;
  int length = -1;
  for (const Backend& one : backends) {
    if (one.callers->tls.has_value() == plain) continue;
    const int matched =
        plain ? 0 : best_server_name(*one.callers->tls, normal_dns_name(question.host));
    if (matched <= length) continue;
    best = &one;
    length = matched;
  }
  return best;
}

// Sets the answer to a call that the backend's chain takes.
void explain_admission(const ExplainedCall& call, const std::string& gateway,
                       const Backend& backend, ExplainedWay& way) {
  const IngressPort& callers = *backend.callers;
  const ObjectKey& object = callers.origin.object;
  const auto deny = [&](ExplainedStep denial, int status) {
    way.steps.push_back(std::move(denial));
    way.answer.status = status;
  };
  const auto& names = callers.principals;
  const std::string& certificate = call.question.certificate;
  if (callers.asks_for_certificate() &&
      std::find(names.begin(), names.end(), certificate) == names.end())
    return deny(
        step(kIngress, StepEffect::kDenies,
             "it asks for a client certificate with a name of its AuthenticatedPrincipals" +
                 (certificate.empty() ? ", and the caller has none: give it one"
                                      : ", and " + certificate + " is none of them: add it"),
             object, "spec.sources"),
        0);
  if (auto denial = refused_header_name(call, *backend.service, kIngress))
    return deny(*std::move(denial), kBadRequest);
  const std::string path = call.question.path.substr(0, call.question.path.find('?'));
  if (backend.service->http_paths == HttpPaths::kNormalize && !normal_path(path))
    return deny(refused_path(*backend.service, path, kIngress), kBadRequest);
  if (const auto why = refused_upgrade(call.question))
    return deny(step(kIngress, StepEffect::kDenies, *why), kForbidden);
  if (callers.networks && std::none_of(callers.networks->begin(), callers.networks->end(),
                                       [&](const auto& one) { return is_in(one, gateway); }))
    return deny(step(kIngress, StepEffect::kDenies,
                     "none of its IPRanges and source Services has the address " + gateway, object,
                     "spec.sources"),
                kForbidden);
  way.steps.push_back(
      step(kIngress, StepEffect::kAllows,
           "it admits " + gateway + (callers.asks_for_certificate() ? " as " + certificate : ""),
           callers.origin));
  way.answer = {.allowed = true};
  note_limits(call, *backend.service, backend.port.protocol, Limited::kBoth, way.steps);
}

ExplainedStep no_backend(const ExplainedCall& call, const Workload& workload,
                         const ServiceEntryPtr& service) {
  const std::string port = std::to_string(number(call.question.port));
  std::string text = "no IngressBackend lets a caller outside of the mesh into port " + port +
                     " of workload " + workload.name.str();
  if (service)
    for (const MeshService& one : service->ports)
      if (one.port == call.question.port && one.target_port != one.port)
        text += "; " + port + " is a port of Service " + service->name.str() +
                ", and gateways dial its target port " + std::to_string(number(one.target_port));
  return step(kIngress, StepEffect::kDenies, text + ": add one to its namespace");
}

ExplainedWay way_to(const ExplainedCall& call, const std::string& gateway, const Workload& workload,
                    const ServiceEntryPtr& service) {
  const std::vector<Backend> backends = backends_at(call, workload);
  const Backend* backend = chosen(backends, call.question);
  ExplainedWay way;
  way.port = call.question.port;
  way.account = identity_of(workload.account);
  if (service) way.service = service->name;
  if (backend != nullptr) {
    way.service = backend->service->name;
    explain_admission(call, gateway, *backend, way);
  } else if (backends.empty()) {
    way.steps.push_back(no_backend(call, workload, service));
  } else {
    const IngressPort& callers = *backends.front().callers;
    way.steps.push_back(step(
        kIngress, StepEffect::kDenies,
        "no backend of the port takes " + (callers.tls ? "the server name " + call.question.host
                                                       : std::string("a connection with TLS")),
        callers.origin));
  }
  return way;
}

}  // namespace

void explain_gateway(const ExplainedCall& call, const std::string& gateway,
                     const ServiceEntryPtr& service, const std::string& address, Explanation& out) {
  if (!call.mesh.config.proxy.ingress) {
    out.ways.push_back(refusal(
        step(kIngress, StepEffect::kDenies, "no sidecar obeys IngressBackends: set it to true",
             model::mesh_config_key(), "spec.featureFlags.enableIngressBackendPolicy"),
        0));
    return;
  }
  for (const auto& entry : call.mesh.workloads) {
    const Workload& workload = entry->workload;
    const auto& services = workload.services;
    if (service ? std::find(services.begin(), services.end(), service->name) == services.end()
                : workload.address != address)
      continue;
    ExplainedWay way = way_to(call, gateway, workload, service);
    auto same = std::find_if(out.ways.begin(), out.ways.end(), [&](const auto& other) {
      return std::tie(other.service, other.account, other.answer) ==
             std::tie(way.service, way.account, way.answer);
    });
    if (same == out.ways.end()) same = out.ways.insert(same, std::move(way));
    same->addresses.push_back(workload.address);
  }
  if (out.ways.empty())
    out.ways.push_back(refusal(
        step("endpoints", StepEffect::kDenies,
             service ? "no workload of the mesh is behind it" : "no workload has that address",
             service ? service->origin.object : ObjectKey()),
        0));
}

}  // namespace osm::inline v1::explain
