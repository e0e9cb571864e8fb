// Messages of a provider process → lists: only canonical services, valid endpoints and allowed
// accounts are listed, within the bounds; changes that are announced are those that happened.
//
//   input: messages. '0' and a line: the bytes of one. '1', then lines: namespace, name, and for
//   each endpoint until an empty line its address, account and port; '2' removes namespace and
//   name; '3' a workload: namespace, name, UUID, account, address.
#include <charconv>
#include <set>

#include "fuzz/fuzz.hpp"
#include "osm/values/endpoint.hpp"
#include "remote/content.hpp"
#include "remote/reader.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

namespace proto = openservicemesh::provider::v1;
using remote::Changes;
using remote::Content;

const remote::RemoteProviderOptions kOptions{
    .name = "fuzz",
    .address = "unix:/fuzz",
    .allow = {{.ns = "shop"}, {.ns = "bank", .accounts = {{"teller"}}}},
    .limits = {.services = 5, .endpoints = 10, .workloads = 3}};

bool allowed(const std::string& ns, const std::string& account) {
  return ns == "shop" || (ns == "bank" && account == "teller");
}

// nullopt: no message.
std::optional<proto::WatchResponse> next_message(Choices& choices) {
  proto::WatchResponse message;
  switch (choices.below(4)) {
    case 0:
      if (!message.ParseFromString(choices.line())) return std::nullopt;
      break;
    case 1: {
      auto& service = *message.add_services();
      service.set_namespace_(choices.line());
      service.set_name(choices.line());
      for (std::string address = choices.line(); !address.empty(); address = choices.line()) {
        auto& endpoint = *service.add_endpoints();
        endpoint.set_address(address);
        endpoint.set_service_account(choices.line());
        const std::string port = choices.line();
        std::uint32_t number = 0;
        std::from_chars(port.data(), port.data() + port.size(), number);
        endpoint.set_port(number);
      }
      break;
    }
    case 2: {
      auto& removed = *message.add_removed_services();
      removed.set_namespace_(choices.line());
      removed.set_name(choices.line());
      break;
    }
    default: {
      auto& workload = *message.add_workloads();
      workload.set_namespace_(choices.line());
      workload.set_name(choices.line());
      workload.set_proxy_uuid(choices.line());
      workload.set_service_account(choices.line());
      workload.set_address(choices.line());
    }
  }
  return message;
}

void check(const Content& content, const proto::WatchResponse& message) {
  std::size_t endpoints = 0;
  std::set<ServiceName> counted;
  for (const auto& listed : message.services()) {
    const ServiceName name{listed.namespace_(), listed.name()};
    const auto known = content.endpoints(name);
    if (!known) continue;
    const auto canonical = parse_service_name(name.ns, name.name);
    require(canonical.ok() && *canonical == name, "a listed service is canonical", name.str());
    if (counted.insert(name).second) endpoints += known->size();
    for (const Endpoint& endpoint : *known) {
      require(check_endpoint(name, endpoint).ok(), "a listed endpoint is valid", endpoint.address);
      require(allowed(endpoint.identity.ns, endpoint.identity.name), "a listed account is allowed",
              endpoint.identity.str());
    }
  }
  require(content.service_count() <= kOptions.limits.services, "services are bounded");
  require(endpoints <= kOptions.limits.endpoints, "endpoints are bounded");
  require(content.workloads().size() <= kOptions.limits.workloads, "workloads are bounded");
  for (const Workload& workload : content.workloads()) {
    require(allowed(workload.account.ns, workload.account.name) && is_uuid(workload.proxy_id.str()),
            "a listed workload is valid", workload.name.str());
    require(content.workload(workload.name) == workload, "a workload is found as it is listed");
  }
  require(content.problems().size() <= Content::kMaxProblems + 1, "problems are bounded");
  for (const Problem& problem : content.problems())
    for (const char c : problem.text())
      require(static_cast<unsigned char>(c) >= ' ', "a problem has no control characters");
}

void run(Choices choices) {
  const remote::Reader reader(kOptions, TrustDomain("cluster.local"));
  Content content;
  while (!choices.empty()) {
    const auto message = next_message(choices);
    if (!message) continue;
    const Content before = content;
    Changes changes;
    const Status put = content.put(reader.read(*message), kOptions.limits, changes);
    if (put.ok()) check(content, *message);
    const Changes real = content.changes_since(before);
    require(changes.services == real.services, "announced services are those that changed");
    for (const WorkloadName& name : real.workloads)
      require(content.workload(name) == before.workload(name) || changes.workloads.contains(name),
              "a changed workload is announced", name.str());
  }
}

const bool kAdded = add("provider_message", [](std::string_view input) { run(Choices(input)); });

}  // namespace
