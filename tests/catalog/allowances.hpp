// Whom a mesh allows what, as sentences that can be compared.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "model/mesh_snapshot.hpp"

namespace osm::inline v1::catalog::values {

inline std::string text(const RoutePolicy& route) {
  std::string out = route.path_regex;
  for (const std::string& method : route.methods) out += ' ' + method;
  for (const auto& [name, value] : route.headers) out += ' ' + name + '=' + value;
  return out;
}

inline std::set<std::string> allowances(const model::MeshSnapshot& mesh) {
  std::set<std::string> out;
  if (mesh.config.proxy.egress) out.insert("egress");
  if (mesh.config.proxy.permissive) out.insert("anybody");
  for (const auto& service : mesh.services) {
    for (const MeshService& port : service->ports)
      out.insert("port " + service->name.str() + ':' + std::to_string(number(port.port)) + '>' +
                 std::to_string(number(port.target_port)));
    if (service->http_paths == HttpPaths::kUnchecked)
      out.insert("port " + service->name.str() + " with unchecked paths");
  }
  for (const auto& policy : mesh.policies)
    for (const InboundTrafficPolicy& inbound : policy->inbound)
      for (const ServiceIdentity& source : inbound.sources) {
        const std::string who = source.str() + " at " + policy->identity.str() + ' ';
        std::vector<std::string> ports{"any"};
        if (!inbound.tcp_ports.empty()) ports.clear();
        for (const Port port : inbound.tcp_ports) ports.push_back(std::to_string(number(port)));
        for (const std::string& port : ports) {
          for (const RoutePolicy& route : inbound.http_routes)
            out.insert(who + text(route) + " on " + port);
          if (inbound.tcp) out.insert(who + "tcp on " + port);
        }
      }
  return out;
}

// Calls that `mesh` allows and `newest` does not; in permissive mode every call is allowed.
inline std::vector<std::string> allowed_beyond(const model::MeshSnapshot& mesh,
                                               const model::MeshSnapshot& newest) {
  const std::set<std::string> most = allowances(newest);
  const auto covered = [&](const std::string& one) {
    const bool connects = one != "egress" && !one.starts_with("port ");
    const std::size_t on = one.rfind(" on ");
    return most.contains(one) || (connects && most.contains("anybody")) ||
           (on != one.npos && most.contains(one.substr(0, on) + " on any"));
  };
  std::vector<std::string> out;
  for (const std::string& one : allowances(mesh))
    if (!covered(one)) out.push_back(one);
  if (mesh.config.proxy.permissive)
    for (const auto& [account, denial] : newest.denied->accounts)
      if (!mesh.denied->accounts.contains(account)) out.push_back("denied " + account.str());
  return out;
}

}  // namespace osm::inline v1::catalog::values
