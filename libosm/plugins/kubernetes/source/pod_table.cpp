#include "kubernetes/source/pod_table.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/maps.hpp"

namespace osm::inline v1::kubernetes {
namespace {

// Precedence of pods that claim one UUID.
bool comes_before(const Pod& a, const Pod& b) {
  return std::tuple(!a.mounts_bootstrap, std::tie(a.created, a.uid, a.name)) <
         std::tuple(!b.mounts_bootstrap, std::tie(b.created, b.uid, b.name));
}

// A pod whose claim of its UUID lost.
Problem refused_claim(ErrorCode code, const Pod& pod, std::string cause) {
  return {.code = code,
          .object = {kinds::kPod, pod.name.ns, pod.name.name},
          .path = {},
          .field = std::string("metadata.labels.") + kProxyUuidLabel,
          .cause = std::move(cause)};
}

}  // namespace

void PodTable::set_pod(const std::string& name, DecodedPod pod) {
  problems_touched_ |= put_or_erase(invalid_, name, std::move(pod.problem));
  const PodPtr* at = find_in(pods_, name);
  if (at ? pod.value == **at : !pod.value) return;
  if (at) {
    const ProxyId id = (*at)->proxy_id;
    remove_member(claims_, id, name);
    touched_ids_.insert(id);
  }
  if (!pod.value) {
    pods_.erase(name);
    return;
  }
  claims_[pod.value->proxy_id].insert(name);
  touched_ids_.insert(pod.value->proxy_id);
  pods_[name] = std::make_shared<const Pod>(*std::move(pod.value));
}

void PodTable::set_service(const std::string& name, const Service* service) {
  services_.set(name, service ? service->selector : endpoint::Labels());
}

void PodTable::retire(const ProxyId& id, Changes& changes) {
  const auto owner = owners_.find(id);
  if (owner == owners_.end()) return;
  const auto at = served_.find(owner->second);
  for (const std::string& address : at->second->addresses) {
    remove_member(by_address_, address, owner->second);
    changes.addresses.insert(address);
  }
  changes.pods.insert(owner->second);
  served_.erase(at);
  owners_.erase(owner);
}

std::optional<Problem> PodTable::elect(const ProxyId& id) {
  const auto* claimants = find_in(claims_, id);
  if (!claimants) return std::nullopt;
  std::vector<PodPtr> order;
  for (const std::string& name : *claimants) order.push_back(pods_.at(name));
  std::sort(order.begin(), order.end(),
            [](const PodPtr& a, const PodPtr& b) { return comes_before(*a, *b); });
  const PodPtr& first = order.front();
  if (!first->mounts_bootstrap)
    return refused_claim(
        ErrorCode::kDanglingReference, *first,
        "does not mount Secret " + bootstrap_secret(id) +
            ", which a pod with this proxy UUID was given, so it is not served; leave "
            "the label to the injector and create the pod anew");
  served_[first->name.name] = first;
  owners_[id] = first->name.name;
  for (const std::string& address : first->addresses) by_address_[address].insert(first->name.name);
  if (order.size() == 1) return std::nullopt;
  return refused_claim(
      ErrorCode::kDuplicateObject, *order[1],
      "Pod " + first->name.str() + " has this proxy UUID already and keeps it; " +
          (order.size() == 2 ? std::string("this one is")
                             : "this one and " + std::to_string(order.size() - 2) + " more are") +
          " not served: leave the label to the injector and create the pod anew");
}

PodTable::Changes PodTable::update() {
  Changes changes;
  const auto ids = std::exchange(touched_ids_, {});
  // A pod may change its UUID: retire all UUIDs before electing any.
  for (const ProxyId& id : ids) retire(id, changes);
  for (const ProxyId& id : ids) {
    problems_touched_ |= put_or_erase(conflicts_, id, elect(id));
    const std::string* owner = find_in(owners_, id);
    if (!owner) continue;
    changes.pods.insert(*owner);
    const auto& addresses = served_.at(*owner)->addresses;
    changes.addresses.insert(addresses.begin(), addresses.end());
  }
  std::set<std::string> touched = changes.pods;
  if (const auto selectors = services_.take_changed(); !selectors.empty())
    for (const auto& [name, pod] : served_)
      if (!selectors.matching(pod->labels).empty()) touched.insert(name);
  update_workloads(touched, changes);
  changes.problems = std::exchange(problems_touched_, false);
  return changes;
}

Workload PodTable::workload_of(const Pod& pod) const {
  Workload workload{pod.name,           pod.proxy_id,
                    pod.account,        pod.addresses.empty() ? "" : pod.addresses.front(),
                    pod.ports,          {},
                    WorkloadKind::kPod, pod.labels};
  for (const std::string& service : services_.matching(pod.labels))
    workload.services.push_back({ns_, service});
  return workload;
}

void PodTable::update_workloads(const std::set<std::string>& touched, Changes& changes) {
  for (const std::string& name : touched) {
    const Pod* pod = find(name);
    if (put_or_erase(workloads_, name, pod ? std::optional(workload_of(*pod)) : std::nullopt))
      changes.workloads.push_back({ns_, name});
  }
}

const Pod* PodTable::find(const std::string& name) const {
  const PodPtr* pod = find_in(served_, name);
  return pod ? pod->get() : nullptr;
}

std::vector<const Pod*> PodTable::at(const std::string& address) const {
  std::vector<const Pod*> out;
  if (const auto* names = find_in(by_address_, address))
    for (const std::string& name : *names) out.push_back(find(name));
  return out;
}

void PodTable::add_problems(std::vector<Problem>& out) const {
  for (const auto& [name, problem] : invalid_) out.push_back(problem);
  for (const auto& [id, problem] : conflicts_) out.push_back(problem);
}

}  // namespace osm::inline v1::kubernetes
