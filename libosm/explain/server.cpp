#include <algorithm>
#include <tuple>

#include "explain/call.hpp"
#include "model/own_ports.hpp"

namespace osm::inline v1::explain {
namespace {

constexpr const char* kServer = "server";

bool names_source(const InboundTrafficPolicy& policy, const ServiceIdentity& source) {
  return std::binary_search(policy.sources.begin(), policy.sources.end(), source);
}

const std::vector<InboundTrafficPolicy>& inbound_of(const ExplainedCall& call,
                                                    const ServiceIdentity& account) {
  static const std::vector<InboundTrafficPolicy> kNone;
  const auto own = call.mesh.policies.find(account);  // the snapshot keeps it
  return own ? own->inbound : kNone;
}

std::string at_port(Port port) { return "port " + std::to_string(number(port)); }

// A TrafficTarget that names the source and the account, and its distance from the call.
struct Miss {
  std::size_t lacks;  // number of parts
  smi::ObjectName target;
  std::string field;
  std::string reason;
};

bool nearer(const Miss& a, const Miss& b) {
  return std::tie(a.lacks, a.target) < std::tie(b.lacks, b.target);
}

void add_miss(std::vector<Miss>& misses, const InboundTrafficPolicy& policy, std::size_t lacks,
              std::string field, std::string reason) {
  misses.push_back({lacks, policy.target, std::move(field), std::move(reason)});
}

// The denial of a call that no TrafficTarget allows.
ExplainedStep denial(const ExplainedCall& call, const ServiceIdentity& account,
                     std::vector<Miss> misses) {
  const auto nearest = std::min_element(misses.begin(), misses.end(), nearer);
  if (nearest == misses.end()) return missing_target(call, kServer, {account});
  return step(kServer, StepEffect::kDenies, nearest->reason, object_of(nearest->target),
              nearest->field);
}

std::string other_ports(const InboundTrafficPolicy& policy, Port port) {
  return "its TCPRoutes bound it to port " + list_numbers(policy.tcp_ports) +
         " of the workload, and this is " + at_port(port) + ": add the port to a TCPRoute";
}

void explain_tcp(const ExplainedCall& call, ExplainedWay& way) {
  std::vector<Miss> misses;
  for (const InboundTrafficPolicy& policy : inbound_of(call, way.account)) {
    if (!names_source(policy, call.source)) continue;
    if (!policy.tcp) {
      add_miss(misses, policy, 1, "spec.rules",
               "it has no TCPRoute among its rules, and this is a TCP port: add one, or, if the "
               "server speaks HTTP, set appProtocol: http at the Service's port");
    } else if (!reaches(policy, way.port)) {
      add_miss(misses, policy, 0, "spec.rules", other_ports(policy, way.port));
    } else {
      way.steps.push_back(step(kServer, StepEffect::kAllows,
                               "its TCPRoutes allow " + call.source.str() + " TCP to " +
                                   way.account.str() + ", " +
                                   (policy.tcp_ports.empty() ? "any port" : at_port(way.port)),
                               object_of(policy.target), "spec.rules"));
      way.answer = {.allowed = true};
      return;
    }
  }
  way.steps.push_back(denial(call, way.account, std::move(misses)));
}

void add_http_miss(const ExplainedCall& call, const InboundTrafficPolicy& policy,
                   const RequestParts& request, std::vector<Miss>& misses) {
  if (policy.http_routes.empty())
    add_miss(misses, policy, 100, "spec.rules",
             "it has no HTTPRouteGroup among its rules, and this is an HTTP port: add one");
  for (const RoutePolicy& route : policy.http_routes) {
    const auto [rule, text] = rule_of(call, policy, route);
    std::string reasons;
    const auto parts = lacking(route, request);
    for (const std::string& part : parts) reasons += (reasons.empty() ? "" : ", and ") + part;
    add_miss(misses, policy, parts.size(), rule.field,
             "it allows " + call.source.str() + ' ' + text + ", but " + reasons);
  }
}

// True if a route of any source's match takes the request: the rules then refuse it.
bool is_routed(const model::ServiceEntry& named,
               const std::vector<const InboundTrafficPolicy*>& policies,
               const RequestParts& request) {
  if (policies.empty()) return false;
  for (const InboundTrafficPolicy* policy : policies)
    for (const RoutePolicy& route : policy->http_routes)
      if (routes_to(route, request)) return true;
  return named.limits && std::any_of(named.limits->paths.begin(), named.limits->paths.end(),
                                     [&](const HttpRouteRateLimit& limit) {
                                       return matches_path(limit.path_regex, request.path);
                                     });
}

// True if the request was allowed.
bool explain_match(const ExplainedCall& call, const InboundTrafficPolicy& policy,
                   const RequestParts& request, ExplainedWay& way) {
  for (const RoutePolicy& route : policy.http_routes) {
    if (!lacking(route, request).empty()) continue;
    const auto [rule, text] = rule_of(call, policy, route);
    const std::string bound =
        policy.tcp_ports.empty() ? "" : ", on port " + list_numbers(policy.tcp_ports);
    way.steps.push_back(step(kServer, StepEffect::kAllows,
                             "it allows " + call.source.str() + ' ' + text + bound, rule));
    way.answer = {.allowed = true};
    return true;
  }
  return false;
}

void explain_http(const ExplainedCall& call, const ServedCall& served, const RequestParts& request,
                  ExplainedWay& way) {
  std::vector<Miss> misses;
  std::vector<const InboundTrafficPolicy*> here;  // with HTTP grants at this port
  for (const InboundTrafficPolicy& policy : inbound_of(call, way.account)) {
    const bool here_too = reaches(policy, way.port);
    if (here_too && !policy.http_routes.empty()) here.push_back(&policy);
    if (!names_source(policy, call.source)) continue;
    if (!here_too)
      add_miss(misses, policy, 10, "spec.rules", other_ports(policy, way.port));
    else if (explain_match(call, policy, request, way))
      return;
    else
      add_http_miss(call, policy, request, misses);
  }
  way.answer.status = is_routed(served.named, here, request) ? kForbidden : kNotFound;
  way.steps.push_back(denial(call, way.account, std::move(misses)));
}

// False if the workloads' sidecars have no chain for the port, because another Service's port has
// its number with another protocol.
bool is_kept(const ExplainedCall& call, const ServedCall& served, const ExplainedWay& way) {
  for (const auto& entry : call.mesh.workloads) {
    const Workload& workload = entry->workload;
    if (identity_of(workload.account) != way.account ||
        std::find(way.addresses.begin(), way.addresses.end(), workload.address) ==
            way.addresses.end())
      continue;
    const auto own = model::own_ports_of(call.mesh.services, workload).ports;
    if (std::none_of(own.begin(), own.end(), [&](const MeshService& port) {
          return port.name == served.service.name && port.target_port == way.port &&
                 is_http(port.protocol) == is_http(served.protocol);
        }))
      return false;
  }
  return true;
}

}  // namespace

ExplainedStep refused_path(const model::ServiceEntry& service, const std::string& path,
                           std::string stage) {
  return step(std::move(stage), StepEffect::kDenies,
              "the Service normalizes paths, and refuses the escaped slash or backslash in " + path,
              service.origin.object, "metadata.annotations[openservicemesh.io/http-paths]");
}

std::optional<ExplainedStep> refused_header_name(const ExplainedCall& call,
                                                 const model::ServiceEntry& service,
                                                 std::string stage) {
  if (service.header_names == HeaderNames::kUnchecked) return std::nullopt;
  for (const auto& [name, value] : call.question.headers)
    if (name.find('_') != std::string::npos)
      return step(std::move(stage), StepEffect::kDenies,
                  "the header name " + name +
                      " has an underscore, which applications may take for '-': send the header "
                      "with '-', or set the annotation to unchecked",
                  service.origin.object,
                  "metadata.annotations[openservicemesh.io/http-header-names]");
  return std::nullopt;
}

void explain_server(const ExplainedCall& call, const ServedCall& served, ExplainedWay& way) {
  way.answer = {};
  if (!is_kept(call, served, way)) {
    way.steps.push_back(step(kServer, StepEffect::kDenies,
                             "another port of a Service has target " + at_port(way.port) +
                                 " with another protocol and is used there: give the two ports "
                                 "different target ports",
                             served.service.origin.object, "spec.ports"));
    return;
  }
  RequestParts request{call.question, call.question.path.substr(0, call.question.path.find('?')),
                       served.service.http_paths != HttpPaths::kUnchecked,
                       served.protocol == Protocol::kGrpc || served.protocol == Protocol::kH2c};
  if (is_http(served.protocol)) {
    if (auto denial = refused_header_name(call, served.service, kServer)) {
      way.answer.status = kBadRequest;
      way.steps.push_back(*std::move(denial));
      return;
    }
    if (served.service.http_paths == HttpPaths::kNormalize) {
      const auto normal = normal_path(request.path);
      if (!normal) {
        way.answer.status = kBadRequest;
        way.steps.push_back(refused_path(served.service, request.path, kServer));
        return;
      }
      request.path = *normal;
    }
    if (const auto why = refused_upgrade(call.question)) {
      way.answer.status = kForbidden;
      way.steps.push_back(step(kServer, StepEffect::kDenies, *why));
      return;
    }
  }
  if (call.permissive()) {
    way.answer = {.allowed = true};
    way.steps.push_back(
        step(kServer, StepEffect::kAllows,
             "the mesh is in permissive mode, where every account may call " + way.account.str(),
             model::mesh_config_key(), "spec.traffic.enablePermissiveTrafficPolicyMode"));
  } else if (is_http(served.protocol)) {
    explain_http(call, served, request, way);
  } else {
    explain_tcp(call, way);
  }
}

}  // namespace osm::inline v1::explain
