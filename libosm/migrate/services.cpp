// Services and the TrafficSplits of them.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/json.hpp"
#include "migrate/differences.hpp"
#include "model/spec_tables.hpp"

namespace osm::inline v1::migrate {
namespace {

namespace json = boost::json;

// Ports that made OSM v1.2 send filter chains which Envoy refused.
void compare_ports(const Object& object, const Service& service, Differences& out) {
  const auto add = [&](std::string field, std::string reason) {
    out.add(object, {.verdict = Verdict::kMore,
                     .field = std::move(field),
                     .reason = std::move(reason),
                     .remedy = "Nothing to do: the port works here."});
  };
  const auto& ports = list_at(map_at(*object.document, "spec"), "ports");
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const bool other =
        text_at(ports[i], "protocol") == "UDP" || text_at(ports[i], "protocol") == "SCTP";
    const auto port = port_at(ports[i], "port");
    const bool shared = std::any_of(service.ports.begin(), service.ports.end(),
                                    [&](const auto& tcp) { return port == tcp.port; });
    if (other && shared)
      add(fmt::format("spec.ports[{}]", i),
          fmt::format("TCP port {} works here beside {}; Envoys refused the listener that OSM v1.2 "
                      "made of the two",
                      number(*port), text_at(ports[i], "protocol")));
  }
  std::map<std::variant<Port, std::string>, Port> seen;
  for (const ServicePort& port : service.ports) {
    const auto [first, added] = seen.emplace(port.target_port, port.port);
    if (!added)
      add("spec.ports",
          fmt::format("ports {} and {} may have one target port here; Envoys refused the listener "
                      "that OSM v1.2 made of the two",
                      number(first->second), number(port.port)));
  }
}

// Ports that OSM v1.2 closed, because it did not know Kubernetes' values of appProtocol.
void compare_app_protocols(const Object& object, Differences& out) {
  const auto& ports = list_at(map_at(*object.document, "spec"), "ports");
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const std::string text = text_at(ports[i], "appProtocol");
    const auto protocol = protocol_of(text, "");
    if (text.find('/') == std::string::npos || !protocol) continue;
    out.add(object,
            {.verdict = Verdict::kMore,
             .access = Access::kAllowed,
             .field = fmt::format("spec.ports[{}].appProtocol", i),
             .reason = fmt::format("{} is {} here, and policies that allow it open the port; OSM "
                                   "v1.2 closed it",
                                   text, is_http(*protocol) ? "HTTP" : "TCP"),
             .remedy = "Nothing to do, unless a policy allows more on this port than you wish."});
  }
}

void compare_headless(const Object& object, const Service& service, Differences& out) {
  const bool http = std::any_of(service.ports.begin(), service.ports.end(),
                                [](const auto& port) { return is_http(port.protocol); });
  if (service.headless && http)
    out.add(object, {.verdict = Verdict::kMore,
                     .field = "spec.clusterIP",
                     .reason = "a client reaches the pod that it dials, under any host name; OSM "
                               "v1.2 knew the names of the Service, and answered 404 to others",
                     .remedy = "Nothing to do: who may call it is the same."});
}

bool weights_are_zero(const smi::TrafficSplit& split) {
  return std::all_of(split.backends.begin(), split.backends.end(),
                     [](const auto& backend) { return backend.weight == 0; });
}

void compare_split(const Mesh& mesh, const smi::TrafficSplit& split, Differences& out) {
  const Object& object = mesh.object(model::key_of(split));
  if (weights_are_zero(split))
    out.add(object,
            {.verdict = Verdict::kLess,
             .access = Access::kRefused,
             .field = "spec.backends",
             .reason = "the weights sum to 0: requests to Service " + split.service.str() +
                       " get 503 and TCP connections are closed. Envoys refused such routes of "
                       "OSM v1.2, and kept the ones before",
             .remedy = "Give at least one backend a weight above 0, or delete the split."});
  const auto apex = mesh.view.services.find(split.service);
  const bool tcp = apex && std::any_of(apex->ports.begin(), apex->ports.end(),
                                       [](const auto& port) { return !is_http(port.protocol); });
  if (tcp && apex->headless)
    out.add(object,
            {.verdict = Verdict::kLess,
             .field = "spec.service",
             .reason = "TCP connections to the headless Service " + split.service.str() +
                       " reach the pod that the client dials: the weights hold for HTTP only",
             .remedy = "Give the Service a cluster IP, if its TCP connections must be split."});
}

}  // namespace

void compare_services(const Mesh& mesh, Differences& out) {
  for (const auto& service : mesh.view.services) {
    const Object& object = mesh.object(model::key_of(*service));
    compare_ports(object, *service, out);
    compare_app_protocols(object, out);
    compare_headless(object, *service, out);
  }
  for (const auto& split : mesh.view.splits) compare_split(mesh, *split, out);
}

}  // namespace osm::inline v1::migrate
