#include <algorithm>
#include <iterator>
#include <map>

#include "explain/call.hpp"

namespace osm::inline v1::explain {
namespace {

std::string port_text(const MeshService& port) {
  return "port " + std::to_string(number(port.port)) + " (" +
         std::string(protocol_text(port.protocol)) + ')';
}

int unavailable(Protocol protocol) { return is_http(protocol) ? kUnavailable : 0; }

// ---- the Service is known to the source's sidecar

// A denial because of which no workload is left behind the Service; nullopt: none of them is
// denied.
std::optional<ExplainedStep> all_denied(const ExplainedCall& call, std::string stage,
                                        const ServiceName& service) {
  for (const auto& entry : call.mesh.workloads) {
    const auto& services = entry->workload.services;
    if (entry->denied.empty() ||
        std::find(services.begin(), services.end(), service) == services.end())
      continue;
    return step(std::move(stage), StepEffect::kDenies,
                "no workload is left behind Service " + service.str() + ": " +
                    entry->workload.name.str() +
                    " is denied, and so may others be: " + entry->denied,
                entry->denial_origin);
  }
  return std::nullopt;
}

ExplainedStep unknown_to_client(const ExplainedCall& call, const model::ServiceEntry& entry) {
  if (entry.identities.empty()) {
    if (auto denied = all_denied(call, "client", entry.name)) return *std::move(denied);
    return step("client", StepEffect::kDenies,
                "no workload is behind it, and no TrafficTarget lets " + call.source.str() +
                    " call an account of namespace " + entry.name.ns + ": add both",
                entry.origin.object);
  }
  ExplainedStep out = missing_target(call, "client", entry.identities);
  if (call.egress())
    out.text +=
        "; egress is on, so the call leaves the mesh unencrypted, and workloads of the "
        "mesh take no such call";
  return out;
}

ExplainedStep known_to_client(const ExplainedCall& call, const model::ServiceEntry& entry) {
  if (call.permissive())
    return step("client", StepEffect::kAllows,
                "in permissive mode every account may call every other, and no TrafficTarget is "
                "asked",
                model::mesh_config_key(), "spec.traffic.enablePermissiveTrafficPolicyMode");
  for (const auto& target : call.mesh.targets) {
    const bool behind =
        std::binary_search(entry.identities.begin(), entry.identities.end(), target->destination) ||
        (entry.idle && target->destination.ns == entry.name.ns);
    const auto& sources = target->policy.sources;
    if (behind && target->grants() &&
        std::binary_search(sources.begin(), sources.end(), call.source))
      return step("client", StepEffect::kAllows,
                  "it lets " + call.source.str() + " call " + target->destination.str() +
                      ", so the source's sidecar knows the Service",
                  target->origin);
  }
  return step("client", StepEffect::kAllows, "the source's sidecar knows the Service");
}

// ---- workloads

struct Members {
  ServiceIdentity account;
  Port port{};
  std::vector<std::string> addresses;
};

bool serves(const model::ServiceEntry& entry, Port target_port, const Endpoint& endpoint) {
  return std::any_of(entry.ports.begin(), entry.ports.end(), [&](const MeshService& port) {
    return port.target_port == target_port &&
           (endpoint.service_port == port.port_name ||
            (endpoint.service_port.empty() && entry.ports.size() == 1));
  });
}

// The workloads to which the source's sidecar balances calls of the port.
std::vector<Members> balanced_members(const ExplainedCall& call, const DialledService& dialled) {
  const auto* upstream = call.upstream(dialled.entry->name);
  const auto known = call.mesh.endpoints.find(dialled.entry->name);
  std::map<std::pair<ServiceIdentity, Port>, std::vector<std::string>> groups;
  if (upstream != nullptr && known)
    for (const Endpoint& endpoint : known->endpoints)
      if (serves(*dialled.entry, dialled.port.target_port, endpoint) && endpoint.weight != 0u &&
          (upstream->every_identity ||
           std::binary_search(upstream->allowed.begin(), upstream->allowed.end(),
                              endpoint.identity)))
        groups[{endpoint.identity, endpoint.port}].push_back(endpoint.address);
  std::vector<Members> out;
  for (auto& [key, addresses] : groups) {
    std::sort(addresses.begin(), addresses.end());
    addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
    out.push_back({key.first, key.second, std::move(addresses)});
  }
  return out;
}

// The account at a headless Service's address: also of a workload that is not healthy.
ServiceIdentity account_at(const ExplainedCall& call, const ServiceName& service,
                           const std::string& address) {
  if (const auto known = call.mesh.endpoints.find(service))
    for (const Endpoint& endpoint : known->endpoints)
      if (endpoint.address == address) return endpoint.identity;
  for (const auto& entry : call.mesh.workloads)
    if (entry->workload.address == address && entry->workload.name.ns == service.ns)
      return identity_of(entry->workload.account);
  return {};
}

std::vector<Members> dialled_members(const ExplainedCall& call, const DialledService& dialled) {
  std::map<std::pair<ServiceIdentity, Port>, std::vector<std::string>> groups;
  for (const std::string& address : dialled.addresses)
    if (const auto there = dialled_port(dialled.entry, call.question.port, address))
      groups[{account_at(call, dialled.entry->name, address), there->port.target_port}].push_back(
          address);
  std::vector<Members> out;
  for (auto& [key, addresses] : groups)
    out.push_back({key.first, key.second, std::move(addresses)});
  return out;
}

// The accounts behind the Service that no TrafficTarget lets the source call.
std::vector<ServiceIdentity> refused_accounts(const ExplainedCall& call,
                                              const model::ServiceEntry& entry) {
  const auto* upstream = call.upstream(entry.name);
  std::vector<ServiceIdentity> out;
  if (upstream != nullptr && !upstream->every_identity)
    std::set_difference(entry.identities.begin(), entry.identities.end(), upstream->allowed.begin(),
                        upstream->allowed.end(), std::back_inserter(out));
  return out;
}

ExplainedStep no_members(const ExplainedCall& call, const DialledService& dialled) {
  if (auto denied = all_denied(call, "endpoints", dialled.entry->name)) return *std::move(denied);
  if (const auto refused = refused_accounts(call, *dialled.entry); !refused.empty()) {
    ExplainedStep out = missing_target(call, "endpoints", refused);
    if (refused.size() < dialled.entry->identities.size())
      out.text += "; workloads of the accounts that it may call are not healthy";
    return out;
  }
  return step("endpoints", StepEffect::kDenies,
              "no healthy workload of an account that " + call.source.str() +
                  " may call serves port " + std::to_string(number(dialled.port.port)) +
                  " of Service " + dialled.entry->name.str() +
                  ": start one, take a drained one back (`osm problems`), or "
                  "correct the selector",
              dialled.entry->origin.object, "spec.selector");
}

// Adds a way for each account and number of the workloads. `apex`: of the split that leads to them;
// null: none does.
void add_ways(const ExplainedCall& call, const DialledService& dialled,
              const std::vector<Members>& members, const model::ServiceEntry* apex,
              std::vector<ExplainedWay>& out) {
  const Protocol protocol = dialled.port.protocol;
  if (members.empty()) {
    ExplainedWay way = refusal(no_members(call, dialled), unavailable(protocol));
    way.service = dialled.entry->name;
    out.push_back(std::move(way));
    return;
  }
  for (const Members& one : members) {
    ExplainedWay way{dialled.entry->name, one.port, one.account, one.addresses, {}, {}};
    std::string at;
    for (const std::string& address : one.addresses) at += (at.empty() ? "" : ", ") + address;
    way.steps.push_back(step("endpoints", StepEffect::kAllows,
                             "workloads of " + one.account.str() + " at " + at + ", port " +
                                 std::to_string(number(one.port)),
                             dialled.entry->origin.object));
    explain_server(call, {*dialled.entry, apex ? *apex : *dialled.entry, protocol}, way);
    if (apex) note_limits(call, *dialled.entry, protocol, Limited::kConnections, way.steps);
    out.push_back(std::move(way));
  }
}

// The workloads to which the sidecar balances, and a note about those that get no call.
void add_balanced(const ExplainedCall& call, const DialledService& dialled,
                  const model::ServiceEntry* apex, Explanation& out) {
  const std::vector<Members> members = balanced_members(call, dialled);
  if (const auto refused = refused_accounts(call, *dialled.entry);
      !members.empty() && !refused.empty())
    out.steps.push_back(step(
        "endpoints", StepEffect::kNotes,
        "some workloads behind it get no call: " + missing_target(call, "endpoints", refused).text,
        dialled.entry->origin.object));
  add_ways(call, dialled, members, apex, out.ways);
}

// ---- splits

// The backends that may get the call, with their weights.
std::vector<std::pair<DialledService, int>> backends_of(const ExplainedCall& call,
                                                        const DialledService& apex) {
  std::vector<std::pair<DialledService, int>> out;
  for (const WeightedCluster& backend : *apex.entry->split) {
    const auto entry = call.mesh.services.find(backend.service);
    if (!entry || call.upstream(backend.service) == nullptr || backend.weight <= 0) continue;
    const auto port =
        std::find_if(entry->ports.begin(), entry->ports.end(), [&](const MeshService& candidate) {
          return candidate.port == apex.port.port &&
                 is_http(candidate.protocol) == is_http(apex.port.protocol);
        });
    if (port != entry->ports.end()) out.push_back({{entry, *port, {}}, backend.weight});
  }
  return out;
}

void explain_split(const ExplainedCall& call, const DialledService& apex, Explanation& out) {
  const model::Origin& origin = apex.entry->split_origin;
  const auto backends = backends_of(call, apex);
  if (backends.empty()) {
    out.ways.push_back(
        refusal(step("split", StepEffect::kDenies,
                     "no backend has a weight, exists, and has " + port_text(apex.port) +
                         ": give one a weight and the port, or delete the split",
                     origin),
                unavailable(apex.port.protocol)));
    return;
  }
  std::string text;
  for (const auto& [backend, weight] : backends)
    text += (text.empty() ? "" : ", ") + backend.entry->name.str() + " with weight " +
            std::to_string(weight);
  out.steps.push_back(step("split", StepEffect::kAllows, "the call goes to " + text, origin));
  for (const auto& [backend, weight] : backends) add_balanced(call, backend, apex.entry.get(), out);
}

// ---- host names

bool has_host(const ExplainedCall& call, const DialledService& dialled) {
  const ServiceName& service = dialled.entry->name;
  return has_name(call, service, service.ns == call.source.ns,
                  request_name(call.question.host, dialled.port.port));
}

// The denial of a request whose host is no name of the Service; nullopt: it is one, or no host is
// asked for.
std::optional<ExplainedWay> wrong_host(const ExplainedCall& call, const DialledService& dialled) {
  if (!is_http(dialled.port.protocol) || dialled.entry->headless || has_host(call, dialled))
    return std::nullopt;
  const ServiceName& service = dialled.entry->name;
  return refusal(step("host", StepEffect::kDenies,
                      "the host " + call.question.host + " is no name of it: send a name such as " +
                          service.name + '.' + service.ns,
                      dialled.entry->origin.object),
                 kNotFound);
}

// True if a TrafficSplit divides the call. Connections to a headless Service, and requests with
// another host, reach the workload that the client dials.
bool is_split(const ExplainedCall& call, const DialledService& dialled) {
  return dialled.entry->split &&
         (!dialled.entry->headless || (is_http(dialled.port.protocol) && has_host(call, dialled)));
}

void explain_headless(const ExplainedCall& call, const DialledService& dialled, Explanation& out) {
  if (dialled.addresses.empty())
    out.ways.push_back(
        refusal(step("endpoints", StepEffect::kDenies,
                     "it is headless and no workload is behind it, so its name has no address: "
                     "start one, or correct the selector",
                     dialled.entry->origin.object, "spec.selector"),
                0));
  else
    add_ways(call, dialled, dialled_members(call, dialled), nullptr, out.ways);
}

}  // namespace

void explain_client(const ExplainedCall& call, const DialledService& dialled, Explanation& out) {
  const model::ServiceEntry& entry = *dialled.entry;
  if (!entry.headless && entry.cluster_ip.empty()) {
    out.ways.push_back(refusal(step("destination", StepEffect::kDenies,
                                    "it has no address that clients could dial: its spec.clusterIP "
                                    "is left out, and `osm problems` says why",
                                    entry.origin.object, "spec.clusterIP"),
                               0));
    return;
  }
  out.steps.push_back(step(
      "destination", StepEffect::kAllows,
      port_text(dialled.port) + (entry.headless ? " of its workloads, which clients dial by address"
                                                : " at " + entry.cluster_ip),
      entry.origin.object));
  if (call.dialled(entry.name) == nullptr) {
    if (entry.outside) {
      out.steps.push_back(step("client", StepEffect::kNotes,
                               "no workload of the mesh is behind it, so calls go past the mesh",
                               entry.origin.object, "spec.selector"));
      explain_outside(call, entry.headless ? entry.name.str() : entry.cluster_ip, out);
    } else {
      out.ways.push_back(refusal(unknown_to_client(call, entry), 0));
    }
    return;
  }
  out.steps.push_back(known_to_client(call, entry));
  if (auto wrong = wrong_host(call, dialled)) {
    out.ways.push_back(*std::move(wrong));
    return;
  }
  if (is_http(dialled.port.protocol)) {
    if (const auto why = refused_upgrade(call.question)) {
      out.ways.push_back(refusal(step("client", StepEffect::kDenies, *why), kForbidden));
      return;
    }
  }
  const bool split = is_split(call, dialled);
  note_limits(call, entry, dialled.port.protocol, split ? Limited::kRequests : Limited::kBoth,
              out.steps);
  if (split)
    explain_split(call, dialled, out);
  else if (entry.headless)
    explain_headless(call, dialled, out);
  else
    add_balanced(call, dialled, nullptr, out);
}

}  // namespace osm::inline v1::explain
