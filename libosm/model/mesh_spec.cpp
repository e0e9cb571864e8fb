#include "osm/mesh_spec.hpp"

#include <set>

namespace osm::inline v1 {

std::vector<ServiceAccount> MeshSpec::list_service_accounts() const {
  const auto now = snapshot();
  std::set<ServiceAccount> named;
  for (const auto& target : now->targets) {
    named.insert(target->destination);
    named.insert(target->sources.begin(), target->sources.end());
  }
  return {named.begin(), named.end()};
}

std::vector<ServiceAccount> MeshSpec::list_all_service_accounts() const {
  const auto now = snapshot();
  std::vector<ServiceAccount> accounts;
  for (const auto& account : now->accounts) accounts.push_back(*account);
  return accounts;
}

}  // namespace osm::inline v1
