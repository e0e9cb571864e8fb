#include "migrate/workloads.hpp"

#include <algorithm>

#include "base/maps.hpp"
#include "endpoint/selector_index.hpp"

namespace osm::inline v1::migrate {
namespace {

bool is_of(const Workload& workload, const ServiceAccount& account) {
  return workload.ns == account.ns && workload.account == account.name;
}

}  // namespace

ServicesOfAccount services_of(const Mesh& mesh, const ServiceAccount& account) {
  std::vector<const Workload*> own;
  for (const Workload& workload : mesh.workloads)
    if (is_of(workload, account)) own.push_back(&workload);
  ServicesOfAccount out{.services = {}, .known = !own.empty()};
  for (const auto& service : mesh.view.services) {
    if (service->name.ns != account.ns) continue;
    const bool selected = std::any_of(own.begin(), own.end(), [&](const Workload* workload) {
      return endpoint::selects(service->selector, workload->labels);
    });
    if (selected || !out.known) out.services.push_back(service);
  }
  return out;
}

std::optional<Port> target_port(const Mesh& mesh, const ServiceAccount& account,
                                const ServicePort& port) {
  if (const auto* number = std::get_if<Port>(&port.target_port)) return *number;
  const std::string& name = std::get<std::string>(port.target_port);
  for (const Workload& workload : mesh.workloads)
    if (is_of(workload, account))
      if (const Port* number = find_in(workload.ports, name)) return *number;
  return std::nullopt;
}

}  // namespace osm::inline v1::migrate
