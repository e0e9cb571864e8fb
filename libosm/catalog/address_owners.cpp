#include "catalog/address_owners.hpp"

#include <algorithm>

#include "base/maps.hpp"
#include "model/mesh_snapshot.hpp"

namespace osm::inline v1::catalog {
namespace {

using model::AddressClaim;

std::string field_of(const ObjectKey& object) {
  if (object.is(kinds::kService)) return "spec.clusterIP";
  return object.is(kinds::kVirtualMachine) ? "spec.address" : "spec";
}

std::string consequence(const ObjectKey& object) {
  return object.is(kinds::kService) ? "this Service has no address"
                                    : "clients do not send to this machine there";
}

// An address that a platform tells is no claim of a user that a network could be allotted for:
// ARM answers for an AzureResource.
bool needs_allotment(const AddressClaim& claim) {
  return !claim.assigned && !claim.object.is(kinds::kAzureResource);
}

Problem not_allotted(const AddressClaim& claim) {
  return {.code = ErrorCode::kAddressNotAllotted,
          .object = claim.object,
          .path = {},
          .field = field_of(claim.object),
          .cause = "namespace " + claim.object.ns + " may not claim " + claim.address + ", so " +
                   consequence(claim.object) +
                   ": use an address of its networks, or add one that holds it to "
                   "spec.addresses.allotments of the MeshConfig"};
}

Problem taken(const AddressClaim& claim, const AddressClaim& owner) {
  return {.code = ErrorCode::kConflictingAddress,
          .object = claim.object,
          .path = {},
          .field = field_of(claim.object),
          .cause = claim.address + " already belongs to " + owner.object.str() + ", so " +
                   consequence(claim.object) + ": use another address"};
}

}  // namespace

void AddressOwners::set_service(const ServiceName& name, const Service* service) {
  std::optional<AddressClaim> claim;
  if (service && !service->cluster_ip.empty())
    claim = AddressClaim{service->cluster_ip,
                         {kinds::kService, name.ns, name.name},
                         service->created,
                         service->assigned};
  set({0, name.ns, name.name}, std::move(claim));
}

void AddressOwners::set_workload(std::size_t provider, const WorkloadName& name,
                                 const Workload* workload) {
  std::optional<AddressClaim> claim;
  if (workload && !workload->address.empty()) {
    const bool assigned = workload->claimed_by.kind.empty();
    claim = AddressClaim{
        workload->address,
        assigned ? ObjectKey{model::kWorkloadKind, name.ns, name.name} : workload->claimed_by,
        workload->created, assigned};
  }
  set({provider + 1, name.ns, name.name}, std::move(claim));
}

void AddressOwners::set_allotments(const std::vector<AddressAllotment>& allotments) {
  if (allotments == allotments_) return;
  allotments_ = allotments;
  for (const auto& [address, claimants] : by_address_) touched_.insert(address);
}

void AddressOwners::set(const Claimant& claimant, std::optional<AddressClaim> claim) {
  const AddressClaim* held = find_in(claims_, claimant);
  if (claim ? held && *held == *claim : !held) return;
  if (held) {
    touched_.insert(held->address);
    remove_member(by_address_, held->address, claimant);
  }
  if (claim) {
    touched_.insert(claim->address);
    by_address_[claim->address].insert(claimant);
  }
  put_or_erase(claims_, claimant, std::move(claim));
}

// Adds the namespaces that do not have the address, with their problems.
void AddressOwners::settle(const std::string& address, Lost& lost) const {
  const auto* claimants = find_in(by_address_, address);
  if (!claimants) return;
  const auto allowed = [&](const AddressClaim& claim) {
    return !needs_allotment(claim) || model::may_claim(allotments_, address, claim.object.ns);
  };
  const AddressClaim* owner = nullptr;
  std::set<std::string> holders;  // namespaces
  for (const Claimant& claimant : *claimants) {
    const AddressClaim& claim = claims_.at(claimant);
    if (claim.assigned) holders.insert(claim.object.ns);
    if (allowed(claim) && (!owner || comes_before(claim, *owner))) owner = &claim;
  }
  if (owner) holders.insert(owner->object.ns);
  for (const Claimant& claimant : *claimants) {
    const AddressClaim& claim = claims_.at(claimant);
    if (holders.contains(claim.object.ns)) continue;
    lost[{address, claim.object.ns}].push_back(allowed(claim) ? taken(claim, *owner)
                                                              : not_allotted(claim));
  }
}

std::set<std::string> AddressOwners::settle() {
  std::set<std::string> moved;
  for (const std::string& address : std::exchange(touched_, {})) {
    Lost now;
    settle(address, now);
    for (auto at = lost_.lower_bound({address, ""});
         at != lost_.end() && at->first.first == address;) {
      if (now.contains(at->first)) {
        ++at;
        continue;
      }
      moved.insert(at->first.second);
      at = lost_.erase(at);
    }
    for (auto& [key, problems] : now)
      if (lost_.insert_or_assign(key, std::move(problems)).second) moved.insert(key.second);
  }
  return moved;
}

void AddressOwners::add_problems(std::vector<Problem>& out) const {
  for (const auto& [key, problems] : lost_) out.insert(out.end(), problems.begin(), problems.end());
}

}  // namespace osm::inline v1::catalog
