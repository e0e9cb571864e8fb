// Short ways to write mesh values in tests of the catalog.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/mesh_snapshot.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/values/endpoint.hpp"
#include "osm/values/service.hpp"
#include "osm/values/smi.hpp"
#include "osm/values/workload.hpp"

namespace osm::inline v1::catalog::values {

inline constexpr const char* kNs = "shop";

inline Port port(int number) { return Port(static_cast<std::uint16_t>(number)); }
inline ServiceName service_name(const std::string& name) { return {kNs, name}; }
inline ServiceIdentity identity(const std::string& account) { return {kNs, account}; }
inline ServiceAccount account(const std::string& name) { return {kNs, name}; }

inline ServicePort service_port(const std::string& name, int number, int target,
                                Protocol protocol = Protocol::kHttp) {
  return {.name = name, .port = port(number), .target_port = port(target), .protocol = protocol};
}
inline ServicePort named_port(const std::string& name, int number, const std::string& target) {
  return {.name = name, .port = port(number), .target_port = target, .protocol = Protocol::kHttp};
}

inline Service service(const std::string& name, const std::string& ip,
                       std::vector<ServicePort> ports = {service_port("http", 80, 8080)}) {
  Service out;
  out.name = service_name(name);
  out.cluster_ip = ip;
  out.headless = ip.empty();
  out.selector = {{"app", name}};
  out.ports = std::move(ports);
  return out;
}

inline Endpoint served_at(const std::string& address, const std::string& account, int number = 8080,
                          const std::string& service_port = "http", bool healthy = true) {
  return {.address = address,
          .port = port(number),
          .service_port = service_port,
          .identity = identity(account),
          .zone = std::nullopt,
          .weight = std::nullopt,
          .healthy = healthy};
}

inline smi::HttpRouteGroup routes(const std::string& name, std::vector<std::string> matches) {
  smi::HttpRouteGroup out{.name = {kNs, name}, .matches = {}};
  for (std::string& match : matches) {
    smi::HttpMatch one;
    one.path_regex = "/" + match;
    one.methods = {"GET"};
    one.name = std::move(match);
    out.matches.push_back(std::move(one));
  }
  return out;
}

inline smi::TrafficTargetRule http_rule(const std::string& name, std::vector<std::string> matches) {
  return {.kind = smi::RouteKind::kHttpRouteGroup, .name = name, .matches = std::move(matches)};
}
inline smi::TrafficTargetRule tcp_rule(const std::string& name) {
  return {.kind = smi::RouteKind::kTcpRoute, .name = name, .matches = {}};
}

inline smi::TrafficTarget target(const std::string& name, const std::string& destination,
                                 const std::vector<std::string>& sources,
                                 std::vector<smi::TrafficTargetRule> rules) {
  smi::TrafficTarget out{
      .name = {kNs, name}, .destination = account(destination), .sources = {}, .rules = {}};
  for (const std::string& source : sources) out.sources.push_back(account(source));
  out.rules = std::move(rules);
  for (std::size_t i = 0; i < out.rules.size(); ++i) out.rules[i].place = i;
  return out;
}

inline smi::TrafficSplit split(const std::string& name, const std::string& apex,
                               std::vector<smi::SplitBackend> backends) {
  for (std::size_t i = 0; i < backends.size(); ++i) backends[i].place = i;
  return {.name = {kNs, name}, .service = service_name(apex), .backends = std::move(backends)};
}

inline Workload workload(const std::string& name, const std::string& uuid,
                         const std::string& account_name, const std::string& address,
                         const std::vector<std::string>& services = {}) {
  Workload out;
  out.name = {kNs, name};
  out.proxy_id = ProxyId(uuid);
  out.account = account(account_name);
  out.address = address;
  for (const std::string& selecting : services) out.services.push_back(service_name(selecting));
  return out;
}

template <class T>
Table<T> shared(std::vector<T> values) {
  SharedList<T> out;
  for (T& value : values) out.push_back(std::make_shared<const T>(std::move(value)));
  return Table<T>(std::move(out));
}

// The keys of one type.
template <class Name>
std::set<Name> names_in(const std::set<model::EntryKey>& entries) {
  std::set<Name> out;
  for (const model::EntryKey& entry : entries)
    if (const auto* name = std::get_if<Name>(&entry)) out.insert(*name);
  return out;
}

}  // namespace osm::inline v1::catalog::values
