// Services behind an account, from the workloads of the dump.
#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "migrate/dump.hpp"

namespace osm::inline v1::migrate {

struct ServicesOfAccount {
  std::vector<std::shared_ptr<const Service>> services;  // ordered by name
  bool known = false;  // false: the dump has no workload of the account, so all of its namespace
};
ServicesOfAccount services_of(const Mesh& mesh, const ServiceAccount& account);

// Number of a port at the account's workloads; nullopt: no workload has its name.
std::optional<Port> target_port(const Mesh& mesh, const ServiceAccount& account,
                                const ServicePort& port);

}  // namespace osm::inline v1::migrate
