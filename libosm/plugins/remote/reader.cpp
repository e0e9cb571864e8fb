#include "remote/reader.hpp"

#include <algorithm>
#include <utility>

#include "base/utf8.hpp"
#include "osm/object.hpp"
#include "osm/values/endpoint.hpp"
#include "osm/values/proxy_id.hpp"
#include "osm/values/workload.hpp"

namespace osm::inline v1::remote {
namespace {

constexpr std::size_t kMaxQuoted = 80;
constexpr std::size_t kMaxProblems = 10;  // of one service or workload
constexpr std::size_t kMaxPorts = 1024;   // of one workload, as of a VirtualMachine
constexpr std::size_t kMaxLabels = 1024;
constexpr std::size_t kMaxText = 253;  // of a zone, a label's name or its value

std::string quoted(std::string text) {
  if (text.size() > kMaxQuoted) text = text.substr(0, kMaxQuoted) + "...";
  return '\'' + escape_controls(to_utf8(text), "?") + '\'';
}

std::optional<Port> port_of(std::uint32_t number) {
  if (number < 1 || number > 65535) return std::nullopt;
  return static_cast<Port>(number);
}

// Adds a problem unless there are many.
void add(std::vector<Problem>& problems, Problem problem) {
  if (problems.size() < kMaxProblems) problems.push_back(std::move(problem));
}

}  // namespace

Reader::Reader(const RemoteProviderOptions& options, TrustDomain trust_domain)
    : name_("provider " + options.name), trust_domain_(std::move(trust_domain)) {
  for (const AllowedAccounts& allowed : options.allow) {
    const auto [at, first] = allowed_.try_emplace(allowed.ns, std::set<std::string>());
    if (!allowed.accounts) at->second.reset();
    if (allowed.accounts && at->second)
      at->second->insert(allowed.accounts->begin(), allowed.accounts->end());
  }
}

std::string Reader::refusal_of(const ServiceAccount& account) const {
  const auto at = allowed_.find(account.ns);
  if (at != allowed_.end() && (!at->second || at->second->contains(account.name))) return {};
  return name_ + " may not name account " + quoted(account.str()) +
         "; if it should, add the account to the provider's `allow` in the file of --providers";
}

Problem Reader::problem(ErrorCode code, const ObjectKey& object, std::string field,
                        std::string cause) const {
  return {.code = code,
          .object = object,
          .path = name_,
          .line = 0,
          .field = std::move(field),
          .cause = std::move(cause)};
}

Edits Reader::read(const proto::WatchResponse& message) const {
  Edits edits;
  // The last entry of a name wins, as if each had come in a message of its own.
  for (const proto::ServiceName& removed : message.removed_services())
    edits.services[{removed.namespace_(), removed.name()}] = {};
  for (const proto::WorkloadName& removed : message.removed_workloads())
    edits.workloads[{removed.namespace_(), removed.name()}] = {};
  for (const proto::ServiceEndpoints& service : message.services()) {
    const ServiceName name{service.namespace_(), service.name()};
    const auto canonical = parse_service_name(name.ns, name.name);
    if (canonical.ok() && *canonical == name) {
      edits.services[name] = read_service(name, service);
    } else {
      add(edits.unnamed, problem(ErrorCode::kInvalidField, {}, "services",
                                 quoted(name.str()) +
                                     " cannot be a Service: namespace and name must be DNS labels "
                                     "in lower case; it is left out"));
    }
  }
  for (const proto::Workload& workload : message.workloads()) {
    const WorkloadName name{workload.namespace_(), workload.name()};
    if (is_dns_label(name.ns) && is_dns_label(name.name)) {
      edits.workloads[name] = read_workload(name, workload);
    } else {
      add(edits.unnamed, problem(ErrorCode::kInvalidField, {}, "workloads",
                                 quoted(name.str()) +
                                     " cannot be a workload: namespace and name must be DNS labels "
                                     "in lower case; it is left out"));
    }
  }
  return edits;
}

Received<std::vector<Endpoint>> Reader::read_service(const ServiceName& name,
                                                     const proto::ServiceEndpoints& service) const {
  Received<std::vector<Endpoint>> out;
  const ObjectKey object(kinds::kService, name.ns, name.name);
  if (!may_name(name.ns)) {
    out.problems.push_back(
        problem(ErrorCode::kPermissionDenied, object, {},
                name_ + " may not list services of namespace " + name.ns +
                    "; if it should, add the namespace to the provider's `allow` in the file of "
                    "--providers"));
    return out;
  }
  out.value.emplace();
  out.value->reserve(static_cast<std::size_t>(service.endpoints_size()));
  for (const proto::Endpoint& listed : service.endpoints()) {
    Endpoint endpoint{.address = listed.address(),
                      .port = port_of(listed.port()).value_or(Port{}),
                      .service_port = listed.service_port(),
                      .identity = {name.ns, listed.service_account()},
                      .zone = std::nullopt,
                      .weight = std::nullopt,
                      .healthy = !listed.has_healthy() || listed.healthy()};
    if (listed.has_zone()) endpoint.zone = listed.zone();
    if (listed.has_weight()) endpoint.weight = listed.weight();
    const std::string field =
        "endpoints[" + quoted(listed.address() + ':' + std::to_string(listed.port())) + ']';
    if (const Status valid = check_endpoint(name, endpoint); !valid.ok()) {
      add(out.problems, problem(valid.error().code, object, field, valid.error().message));
    } else if (std::string refusal = refusal_of({name.ns, listed.service_account()});
               !refusal.empty()) {
      add(out.problems, problem(ErrorCode::kPermissionDenied, object, field + ".service_account",
                                std::move(refusal)));
    } else if (listed.zone().size() > kMaxText || listed.service_port().size() > kMaxText) {
      add(out.problems, problem(ErrorCode::kTooLarge, object, field,
                                "its zone or its service_port has more than " +
                                    std::to_string(kMaxText) + " bytes"));
    } else {
      out.value->push_back(std::move(endpoint));
    }
  }
  return out;
}

Received<Workload> Reader::read_workload(const WorkloadName& name,
                                         const proto::Workload& listed) const {
  Received<Workload> out;
  const ObjectKey object(kinds::kVirtualMachine, name.ns, name.name);
  const auto refuse = [&](ErrorCode code, std::string field, std::string cause) {
    add(out.problems, problem(code, object, std::move(field), std::move(cause)));
  };
  Workload workload{.name = name,
                    .proxy_id = derived_proxy_id(trust_domain_, name),
                    .account = {name.ns, listed.service_account()},
                    .address = listed.address(),
                    .ports = {},
                    .services = {},
                    .kind = WorkloadKind::kMachine,
                    .labels = {}};
  if (!listed.proxy_uuid().empty()) {
    auto given = parse_proxy_id(listed.proxy_uuid());
    if (given.ok()) {
      workload.proxy_id = *std::move(given);
    } else {
      refuse(given.error().code, "proxy_uuid", given.error().message);
    }
  }
  // The same rules as for an endpoint: an address, an account of its own namespace.
  const Endpoint as_endpoint{.address = workload.address,
                             .port = Port{1},
                             .service_port = {},
                             .identity = identity_of(workload.account),
                             .zone = {},
                             .weight = {}};
  if (const Status valid = check_endpoint({name.ns, name.name}, as_endpoint); !valid.ok())
    refuse(valid.error().code, {}, valid.error().message);
  else if (std::string refusal = refusal_of(workload.account); !refusal.empty())
    refuse(ErrorCode::kPermissionDenied, "service_account", std::move(refusal));
  if (listed.ports().size() > kMaxPorts || listed.labels().size() > kMaxLabels)
    refuse(ErrorCode::kTooLarge, "ports", "more than 1024 ports or labels");
  for (const auto& [port_name, number] : listed.ports()) {
    const auto port = port_of(number);
    if (!port || !is_dns_label(port_name))
      refuse(ErrorCode::kInvalidField, "ports",
             quoted(port_name) +
                 ": give each port a name that is a DNS label, and a number from 1 "
                 "to 65535");
    else
      workload.ports.emplace(port_name, *port);
  }
  for (const auto& [label, value] : listed.labels()) {
    if (label.size() > kMaxText || value.size() > kMaxText)
      refuse(ErrorCode::kTooLarge, "labels", quoted(label) + " is too long: at most 253 bytes");
    else
      workload.labels.emplace(label, value);
  }
  if (out.problems.empty()) out.value = std::move(workload);
  return out;
}

}  // namespace osm::inline v1::remote
