// Decides which namespace has an address that objects of several namespaces claim (docs/adr/0076).
// Objects of one namespace share addresses as they like. The cost of a change is proportional to
// the claims of its addresses. Plain data; not thread-safe.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/address_rules.hpp"
#include "osm/object.hpp"
#include "osm/values/mesh_config.hpp"
#include "osm/values/service.hpp"
#include "osm/values/workload.hpp"

namespace osm::inline v1::catalog {

class AddressOwners {
 public:
  // Sets or (null) removes the claim of a Service, or of a workload of a provider (by its place).
  void set_service(const ServiceName& name, const Service* service);
  void set_workload(std::size_t provider, const WorkloadName& name, const Workload* workload);
  // Sets the allotments; all claims are decided anew.
  void set_allotments(const std::vector<AddressAllotment>& allotments);

  // Decides the claims that changed since the last call. Result: the namespaces that lost an
  // address or got one back.
  std::set<std::string> settle();

  // True if objects of the namespace claim the address and none of them has it.
  bool is_lost(const std::string& address, const std::string& ns) const {
    return !lost_.empty() && lost_.contains({address, ns});
  }
  void add_problems(std::vector<Problem>& out) const;

 private:
  // A Service has source 0; a workload the place of its provider, plus one.
  struct Claimant {
    std::size_t source = 0;
    std::string ns;
    std::string name;

    friend auto operator<=>(const Claimant&, const Claimant&) = default;
  };
  using Lost = std::map<std::pair<std::string, std::string>, std::vector<Problem>>;

  void set(const Claimant& claimant, std::optional<model::AddressClaim> claim);
  void settle(const std::string& address, Lost& lost) const;

  std::vector<AddressAllotment> allotments_;
  std::map<Claimant, model::AddressClaim> claims_;
  std::map<std::string, std::set<Claimant>> by_address_;
  Lost lost_;  // by address and namespace
  std::set<std::string> touched_;
};

}  // namespace osm::inline v1::catalog
