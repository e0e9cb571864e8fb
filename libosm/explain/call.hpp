// The parts of explain(), in the order in which a call meets them. Each adds its steps. Pure.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/mesh_snapshot.hpp"
#include "osm/values/explanation.hpp"

namespace osm::inline v1::explain {

using ServiceEntryPtr = std::shared_ptr<const model::ServiceEntry>;

// A question whose source is known.
struct ExplainedCall {
  const model::MeshSnapshot& mesh;
  const CallQuestion& question;
  ServiceIdentity source;

  bool permissive() const { return mesh.config.proxy.permissive; }
  bool egress() const { return mesh.config.proxy.egress; }
  // The upstream of the source's sidecar; null: it does not know the Service.
  const model::Upstream* upstream(const ServiceName& service) const;
  // The same, if the source may dial the Service itself.
  const model::Upstream* dialled(const ServiceName& service) const;
  // The objects of the mesh. Never null.
  const SpecSnapshot& objects() const;
};

// One port of a Service, as the source dials it.
struct DialledService {
  ServiceEntryPtr entry;
  MeshService port;  // headless: with the number that the dialled workloads give it
  std::vector<std::string> addresses;  // headless only: the dialled workloads, ordered
};

// Statuses that sidecars answer by themselves.
inline constexpr int kBadRequest = 400, kForbidden = 403, kNotFound = 404, kUnavailable = 503;

// ---- steps
ExplainedStep step(std::string stage, StepEffect effect, std::string text, ObjectKey object = {},
                   std::string field = {});
// A step that names the object and the field of the origin.
ExplainedStep step(std::string stage, StepEffect effect, std::string text,
                   const model::Origin& origin);
// A way that ends with this denial.
ExplainedWay refusal(ExplainedStep denial, int status);
ObjectKey object_of(const smi::ObjectName& target);
// "80 (http), 7000 (tcp)"
std::string list_ports(const model::ServiceEntry& service);
// The numbers, separated by commas.
std::string list_numbers(const std::vector<Port>& ports);

// ---- dialled.cpp: the Service that a name or an address and a port lead to
// The Service's port. Headless: at all its addresses, or at `address` alone. nullopt: it has no
// such port.
std::optional<DialledService> dialled_port(const ServiceEntryPtr& entry, Port port,
                                           const std::string& address = {});
// The Service that the source reaches at the address; else any that is there.
std::optional<DialledService> dialled_address(const ExplainedCall& call,
                                              const std::string& address);
// The Service with this host name; short names are those of the source's namespace.
ServiceEntryPtr named_service(const ExplainedCall& call, const std::string& host);
// True if the host, in lower case, is a name of the Service. `short_name`: also the name alone.
bool has_name(const ExplainedCall& call, const ServiceName& service, bool short_name,
              const std::string& host);
// The name that Envoy compares, of a request's host: in lower case, without ":<port>", and without
// one dot behind the name or behind all.
std::string request_name(std::string host, Port port);

// ---- client.cpp: the source's sidecar
void explain_client(const ExplainedCall& call, const DialledService& dialled, Explanation& out);

// ---- outside.cpp: calls past the mesh
// `host`: a name or an address that no Service has.
void explain_outside(const ExplainedCall& call, const std::string& host, Explanation& out);

// ---- egress.cpp: Egresses of the source, while egress of the whole mesh is off
ExplainedWay explain_egress(const ExplainedCall& call, const std::string& host);

// ---- gateway.cpp: calls of a gateway without a sidecar, which IngressBackends admit
// Either the Service is the destination, or it is null and `address` is that of a workload.
void explain_gateway(const ExplainedCall& call, const std::string& gateway,
                     const ServiceEntryPtr& service, const std::string& address, Explanation& out);

// ---- server.cpp: the sidecars of the workloads
// A call that arrives at the workloads of a way.
struct ServedCall {
  const model::ServiceEntry& service;  // whose port it is
  const model::ServiceEntry& named;    // that the host names: `service`, or the apex of a split
  Protocol protocol{};
};
// The denial of a path that has no normal form, by a Service that normalizes paths.
ExplainedStep refused_path(const model::ServiceEntry& service, const std::string& path,
                           std::string stage);
// The denial of a request with a header that the Service's sidecars refuse by its name; nullopt:
// there is none.
std::optional<ExplainedStep> refused_header_name(const ExplainedCall& call,
                                                 const model::ServiceEntry& service,
                                                 std::string stage);
// Sets the answer of the way, whose account and port are known.
void explain_server(const ExplainedCall& call, const ServedCall& served, ExplainedWay& way);

// ---- matches.cpp: HTTP matches
// The path in normal form; nullopt: it has an escaped slash or backslash.
std::optional<std::string> normal_path(const std::string& path);
// The parts of a match that a request lacks, as sentences; empty: it matches.
struct RequestParts {
  const CallQuestion& question;
  std::string path;         // without the query, in the form that the server compares
  bool checks_form = true;  // path rules accept the normal form only
  bool http2 = false;       // the client speaks HTTP/2
};
std::vector<std::string> lacking(const RoutePolicy& route, const RequestParts& request);
// True if Envoy's route of the match takes the request; rules may refuse it then.
bool routes_to(const RoutePolicy& route, const RequestParts& request);
bool matches_path(const std::string& regex, const std::string& path);
// Reason why sidecars refuse a request that asks for another protocol (403); nullopt: it asks for
// none, for WebSocket, or for one that sidecars ignore.
std::optional<std::string> refused_upgrade(const CallQuestion& question);

// ---- grants.cpp: TrafficTargets
// True if TCPRoutes of the target, if any, name the port.
bool reaches(const InboundTrafficPolicy& policy, Port port);
// "GET /books.* (match read of HTTPRouteGroup shop/books)", with the rule that names the match.
std::pair<model::Origin, std::string> rule_of(const ExplainedCall& call,
                                              const InboundTrafficPolicy& policy,
                                              const RoutePolicy& route);
// A denial because no TrafficTarget lets the source call one of the accounts: it names the nearest.
ExplainedStep missing_target(const ExplainedCall& call, std::string stage,
                             const std::vector<ServiceIdentity>& accounts);

// ---- limits.cpp: policies that permit nothing
// The part of a Service's limits that a call meets. Requests are those of the dialled Service, and
// connections those of the Service that serves: in a split, the backend.
enum class Limited { kRequests, kConnections, kBoth };
// Limits of the Service; with requests, also retries and external authorization.
void note_limits(const ExplainedCall& call, const model::ServiceEntry& service, Protocol protocol,
                 Limited limited, std::vector<ExplainedStep>& steps);

}  // namespace osm::inline v1::explain
