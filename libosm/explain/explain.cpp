#include "explain/explain.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "base/maps.hpp"
#include "explain/call.hpp"
#include "model/host.hpp"
#include "model/ip_address.hpp"

namespace osm::inline v1::explain {
namespace {

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

// A name with the word in front of it, if it is one of `words`.
struct Reference {
  std::string word;
  std::string ns;  // empty: a host
  std::string name;
};

Result<Reference> parse(const std::string& text, const std::vector<std::string>& words,
                        const std::string& role, const std::string& forms) {
  Reference out;
  out.name = text;
  for (const std::string& word : words) {
    if (!text.starts_with(word + ':')) continue;
    out.word = word;
    out.name = text.substr(word.size() + 1);
  }
  const auto slash = out.name.find('/');
  const bool host = slash == std::string::npos;
  if (!host) {
    out.ns = out.name.substr(0, slash);
    out.name.erase(0, slash + 1);
  }
  const bool one_name =
      !out.name.empty() && out.name.find('/') == std::string::npos && (host || !out.ns.empty());
  if (!one_name) return invalid(role + " '" + text + "' is none of " + forms);
  return out;
}

const model::WorkloadEntry* find_workload(const model::MeshSnapshot& mesh, const Reference& name) {
  for (const auto& entry : mesh.workloads)
    if (entry->workload.name.ns == name.ns && entry->workload.name.name == name.name)
      return entry.get();
  return nullptr;
}

// A machine may be declared by a VirtualMachine, a resource or a provider's process.
ObjectKey workload_object(const Workload& workload) {
  return {workload.kind == WorkloadKind::kPod ? kinds::kPod : model::kWorkloadKind,
          workload.name.ns, workload.name.name};
}

// Finds the account that calls, and adds its step.
Result<ServiceIdentity> resolve_source(const model::MeshSnapshot& mesh, const std::string& text,
                                       const std::set<ServiceIdentity>& accounts,
                                       std::vector<ExplainedStep>& steps) {
  const char* const kForms = "NAMESPACE/ACCOUNT and NAMESPACE/WORKLOAD";
  static const std::vector<std::string> kWords{"account", "workload"};
  OSM_TRY(const Reference name, parse(text, kWords, "the source", kForms));
  if (name.ns.empty())
    return invalid("the source '" + text + "' lacks a namespace; it is one of " + kForms);
  const ServiceIdentity account{name.ns, name.name};
  if (name.word != "workload" && accounts.contains(account)) {
    steps.push_back(step("source", StepEffect::kAllows, "an account of the mesh",
                         {kinds::kServiceAccount, name.ns, name.name}));
    return account;
  }
  const model::WorkloadEntry* workload =
      name.word == "account" ? nullptr : find_workload(mesh, name);
  if (workload == nullptr)
    return Error{ErrorCode::kNotFound,
                 "the source " + account.str() +
                     " is not in the mesh: no workload has that name or runs as such an account, "
                     "no TrafficTarget names it, and no ServiceAccount object of a monitored "
                     "namespace has that name"};
  const ServiceIdentity runs_as = identity_of(workload->workload.account);
  steps.push_back(step("source", StepEffect::kAllows, "it runs as account " + runs_as.str(),
                       workload_object(workload->workload)));
  return runs_as;
}

// ---- destinations

struct AtAccount {
  ServiceIdentity account;
};
struct AtHost {
  std::string host;
};
struct Missing {
  ExplainedStep why;
};
using Destination = std::variant<DialledService, AtAccount, AtHost, Missing>;

Missing missing_service(const ExplainedCall& call, const ServiceName& service) {
  const auto& namespaces = call.objects().namespaces;
  const bool monitored =
      std::find(namespaces.begin(), namespaces.end(), service.ns) != namespaces.end();
  std::string others;
  for (const auto& entry : call.mesh.services)
    if (entry->name.ns == service.ns)
      others += (others.empty() ? "; the namespace has " : ", ") + entry->name.name;
  return {step("destination", StepEffect::kDenies,
               monitored ? "Service " + service.str() +
                               " is not in the mesh: it does not exist, or is invalid and left "
                               "out (osm problems)" +
                               others
                         : "namespace " + service.ns +
                               " is not in the mesh: label it openservicemesh.io/monitored-by")};
}

Missing missing_port(const DialledService& dialled, Port port) {
  return {step("destination", StepEffect::kDenies,
               "it has no port " + std::to_string(number(port)) + "; its ports are " +
                   list_ports(*dialled.entry),
               dialled.entry->origin.object, "spec.ports")};
}

// The destination at a port of a known Service. Sets the question's port if there is one only.
Result<Destination> at_service(CallQuestion& question, const ServiceEntryPtr& entry) {
  if (question.port == Port{0}) {
    if (entry->ports.size() != 1)
      return invalid("Service " + entry->name.str() + " has the ports " + list_ports(*entry) +
                     "; say which one (--port)");
    question.port = entry->ports.front().port;
  }
  if (auto dialled = dialled_port(entry, question.port)) return Destination(*std::move(dialled));
  return Destination(missing_port({entry, {}, {}}, question.port));
}

Result<Destination> at_host(const ExplainedCall& call, CallQuestion& question,
                            const std::string& host) {
  if (question.host.empty()) question.host = host;
  const auto written = model::host_of(host);
  const std::string name = written ? written->name : host;
  if (question.port == Port{0} && written) question.port = written->port.value_or(Port{0});
  if (const auto named = named_service(call, name)) return at_service(question, named);
  const auto at_address = std::find_if(
      call.mesh.services.begin(), call.mesh.services.end(),
      [&](const auto& entry) { return !entry->headless && entry->cluster_ip == name; });
  const bool has_service = at_address != call.mesh.services.end();
  if (question.port == Port{0}) {
    if (has_service) return at_service(question, *at_address);
    return invalid("the destination '" + host +
                   "' is no Service of the mesh; say the port (--port)");
  }
  if (model::is_ipv4(name))
    if (auto dialled = dialled_address(call, name)) return Destination(*std::move(dialled));
  if (has_service) return Destination(missing_port({*at_address, {}, {}}, question.port));
  return Destination(AtHost{name});
}

Result<Destination> resolve_destination(const ExplainedCall& call, CallQuestion& question,
                                        const std::set<ServiceIdentity>& accounts) {
  const std::string& text = question.destination;
  static const std::vector<std::string> kWords{"service", "account", "host"};
  OSM_TRY(const Reference name,
          parse(text, kWords, "the destination",
                "NAMESPACE/SERVICE, NAMESPACE/ACCOUNT, a host name and an IP address"));
  const bool host = name.ns.empty();
  if (host != (name.word == "host") && !name.word.empty())
    return invalid("the destination '" + text + "' is no " + name.word);
  if (host) return at_host(call, question, name.name);
  const ServiceIdentity account{name.ns, name.name};
  if (name.word != "account") {
    if (const auto entry = call.mesh.services.find({name.ns, name.name})) {
      if (question.host.empty()) question.host = name.name + '.' + name.ns;
      return at_service(question, entry);
    }
    if (name.word == "service" || !accounts.contains(account))
      return Destination(missing_service(call, {name.ns, name.name}));
  }
  if (!accounts.contains(account))
    return Destination(
        Missing{step("destination", StepEffect::kDenies,
                     "account " + account.str() + " is not in the mesh: no workload runs as it")});
  if (question.port == Port{0})
    return invalid("account " + account.str() +
                   ": say the workloads' port (--port), or name a Service as the destination");
  return Destination(AtAccount{account});
}

// ---- an account as destination: its workloads' sidecars alone

// True if workloads of the account serve the Service's port at `wanted`.
bool serves_at(const ExplainedCall& call, const model::ServiceEntry& entry, const MeshService& port,
               const ServiceIdentity& account) {
  const Port wanted = call.question.port;
  const auto known = call.mesh.endpoints.find(entry.name);
  return port.target_port == wanted ||
         (known && std::any_of(known->endpoints.begin(), known->endpoints.end(),
                               [&](const Endpoint& endpoint) {
                                 return endpoint.identity == account && endpoint.port == wanted &&
                                        (endpoint.service_port == port.port_name ||
                                         entry.ports.size() == 1);
                               }));
}

// The Service and port that the host names among those that lead to the account's port; else a
// headless one, which takes any host.
std::optional<DialledService> served_at(const ExplainedCall& call, const ServiceIdentity& account) {
  const std::string& host = call.question.host;
  for (const bool any_host : {false, true})
    for (const auto& entry : call.mesh.services)
      for (const MeshService& port : entry->ports)
        if (std::binary_search(entry->identities.begin(), entry->identities.end(), account) &&
            serves_at(call, *entry, port, account) &&
            (any_host ? entry->headless
                      : host.empty() ||
                            has_name(call, entry->name, true, request_name(host, port.port))))
          return DialledService{entry, port, {}};
  return std::nullopt;
}

void explain_account(const ExplainedCall& call, const ServiceIdentity& account, Explanation& out) {
  const std::string port = "port " + std::to_string(number(call.question.port));
  if (const Denial* denial = find_in(call.mesh.denied->accounts, account)) {
    out.ways.push_back(refusal(step("destination", StepEffect::kDenies,
                                    "nobody may call " + account.str() + ": " + denial->text(),
                                    denial->object, "spec.serviceAccounts"),
                               0));
    return;
  }
  const auto served = served_at(call, account);
  if (!served) {
    out.ways.push_back(
        refusal(step("destination", StepEffect::kDenies,
                     "no Service leads to " + port + " of workloads of " + account.str() +
                         (call.question.host.empty() ? "" : " by the name " + call.question.host) +
                         ", so their sidecars refuse connections to it: add it to a Service"),
                0));
    return;
  }
  ExplainedWay way{served->entry->name, call.question.port, account, {}, {}, {}};
  way.steps.push_back(step("destination", StepEffect::kAllows,
                           "it leads to " + port + " of workloads of " + account.str(),
                           served->entry->origin.object, "spec.ports"));
  explain_server(call, {*served->entry, *served->entry, served->port.protocol}, way);
  out.ways.push_back(std::move(way));
}

// ---- a gateway as source

constexpr std::string_view kGateway = "gateway:";

Result<Explanation> explain_from_gateway(const model::MeshSnapshot& mesh, CallQuestion question) {
  Explanation out;
  out.permissive = mesh.config.proxy.permissive;
  const std::string gateway = question.source.substr(kGateway.size());
  if (!model::is_ipv4(gateway)) return invalid("the gateway '" + gateway + "' is no IPv4 address");
  const ExplainedCall call{mesh, question, {}};
  static const std::vector<std::string> kWords{"service", "host"};
  OSM_TRY(const Reference name, parse(question.destination, kWords, "the destination",
                                      "NAMESPACE/SERVICE and a workload's address"));
  if (question.port == Port{0})
    return invalid("a gateway dials the workloads' own port: say which one (--port)");
  out.steps.push_back(
      step("source", StepEffect::kAllows, gateway + " calls as a gateway, without a sidecar"));
  const auto service = mesh.services.find({name.ns, name.name});
  if (!name.ns.empty() && !service)
    out.ways.push_back(refusal(missing_service(call, {name.ns, name.name}).why, 0));
  else
    explain_gateway(call, gateway, service, name.name, out);
  return out;
}

// ---- the answer

// A denied account has no configuration of the present mesh: its calls end somewhere.
ExplainedWay denied_source(const Denial& denial, const ServiceIdentity& source,
                           const Destination& destination) {
  const auto* dialled = std::get_if<DialledService>(&destination);
  return refusal(step("source", StepEffect::kDenies,
                      "nobody takes calls of " + source.str() + ": " + denial.text(), denial.object,
                      "spec.serviceAccounts"),
                 dialled != nullptr && is_http(dialled->port.protocol) ? kForbidden : 0);
}

// The namespace in "service:shop/api" and in the host "api.shop.svc"; empty: there is none.
std::string namespace_in(const std::string& text) {
  const auto slash = text.find('/');
  if (slash == std::string::npos) {
    const auto dot = text.find('.');
    if (dot == std::string::npos) return {};
    return text.substr(dot + 1, text.find_first_of(".:", dot + 1) - dot - 1);
  }
  const auto colon = text.rfind(':', slash);
  const std::size_t begin = colon == std::string::npos ? 0 : colon + 1;
  return text.substr(begin, slash - begin);
}

std::vector<Problem> concerning(const std::vector<Problem>& problems, const CallQuestion& question,
                                const Explanation& out) {
  std::set<std::string> namespaces{out.source.ns};
  for (const ExplainedWay& way : out.ways) namespaces.insert(way.service.ns);
  for (const ExplainedStep& one : out.steps) namespaces.insert(one.object.ns);
  namespaces.insert(namespace_in(question.destination));
  std::vector<Problem> found;
  for (const Problem& problem : problems)
    if (problem.object.kind.empty() ||  // a file that cannot be read may hold anything
        (!problem.object.ns.empty() && namespaces.contains(problem.object.ns)))
      found.push_back(problem);
  return found;
}

Status check(const CallQuestion& question) {
  if (question.path.empty() || question.path.front() != '/')
    return invalid("the path '" + question.path + "' does not begin with '/'");
  if (question.method.empty()) return invalid("the method is empty");
  return {};
}

}  // namespace

Result<Explanation> explain(const model::MeshSnapshot& mesh, const CallQuestion& asked,
                            const std::set<ServiceIdentity>& accounts,
                            const std::vector<Problem>& left_out) {
  OSM_TRY(check(asked));
  Explanation out;
  if (asked.source.starts_with(kGateway)) {
    OSM_TRY(out, explain_from_gateway(mesh, asked));
    out.problems = concerning(left_out, asked, out);
    return out;
  }
  CallQuestion question = asked;
  OSM_TRY(out.source, resolve_source(mesh, question.source, accounts, out.steps));
  out.permissive = mesh.config.proxy.permissive;
  const ExplainedCall call{mesh, question, out.source};
  OSM_TRY(const Destination destination, resolve_destination(call, question, accounts));
  if (const Denial* denial = find_in(mesh.denied->accounts, out.source))
    out.ways.push_back(denied_source(*denial, out.source, destination));
  else if (const auto* dialled = std::get_if<DialledService>(&destination))
    explain_client(call, *dialled, out);
  else if (const auto* account = std::get_if<AtAccount>(&destination))
    explain_account(call, account->account, out);
  else if (const auto* host = std::get_if<AtHost>(&destination))
    explain_outside(call, host->host, out);
  else
    out.ways.push_back(refusal(std::get<Missing>(destination).why, 0));
  out.problems = concerning(left_out, question, out);
  return out;
}

}  // namespace osm::inline v1::explain
