#include "kubernetes/source/pod_table.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

namespace osm::inline v1::kubernetes {
namespace {

// Precedence of pods that claim one UUID.
bool comes_before(const Pod& a, const Pod& b) {
  return std::tuple(!a.mounts_bootstrap, std::tie(a.created, a.uid, a.name)) <
         std::tuple(!b.mounts_bootstrap, std::tie(b.created, b.uid, b.name));
}

ObjectKey key_of(const Pod& pod) { return {"Pod", pod.name.ns, pod.name.name}; }

}  // namespace

void PodTable::set_pod(const std::string& name, DecodedPod pod) {
  const auto invalid = invalid_.find(name);
  const auto former_problem =
      invalid == invalid_.end() ? std::nullopt : std::optional(invalid->second);
  if (former_problem != pod.problem) {
    problems_touched_ = true;
    if (pod.problem) {
      invalid_.insert_or_assign(name, *std::move(pod.problem));
    } else {
      invalid_.erase(invalid);
    }
  }
  const auto at = pods_.find(name);
  const PodPtr former = at == pods_.end() ? nullptr : at->second;
  if (former ? pod.value == *former : !pod.value) return;
  if (former) {
    auto& claimants = claims_[former->proxy_id];
    claimants.erase(name);
    if (claimants.empty()) claims_.erase(former->proxy_id);
    touched_ids_.insert(former->proxy_id);
  }
  if (!pod.value) {
    pods_.erase(at);
    return;
  }
  claims_[pod.value->proxy_id].insert(name);
  touched_ids_.insert(pod.value->proxy_id);
  pods_[name] = std::make_shared<const Pod>(*std::move(pod.value));
}

void PodTable::set_service(const std::string& name, const Service* service) {
  Labels now = service == nullptr ? Labels() : service->selector;
  Labels& former = selectors_[name];
  if (former != now) {
    for (const Labels* selector : {&former, &now})
      touched_selectors_.set(std::to_string(touched_count_++), *selector);
    services_.set(name, now);
    former = std::move(now);
  }
  if (former.empty()) selectors_.erase(name);
}

void PodTable::retire(const ProxyId& id, Changes& changes) {
  const auto owner = owners_.find(id);
  if (owner == owners_.end()) return;
  const auto at = served_.find(owner->second);
  for (const std::string& address : at->second->addresses) {
    auto& names = by_address_[address];
    names.erase(owner->second);
    if (names.empty()) by_address_.erase(address);
    changes.addresses.insert(address);
  }
  changes.pods.insert(owner->second);
  served_.erase(at);
  owners_.erase(owner);
}

void PodTable::elect(const ProxyId& id) {
  const auto claimants = claims_.find(id);
  std::optional<Problem> problem;
  if (claimants != claims_.end()) {
    std::vector<PodPtr> order;
    for (const std::string& name : claimants->second) order.push_back(pods_.at(name));
    std::sort(order.begin(), order.end(),
              [](const PodPtr& a, const PodPtr& b) { return comes_before(*a, *b); });
    const PodPtr& first = order.front();
    const bool served = first->mounts_bootstrap;
    const std::string field = std::string("metadata.labels.") + kProxyUuidLabel;
    if (served) {
      served_[first->name.name] = first;
      owners_[id] = first->name.name;
      for (const std::string& address : first->addresses)
        by_address_[address].insert(first->name.name);
      if (order.size() > 1)
        problem = {ErrorCode::kDuplicateObject,
                   key_of(*order[1]),
                   "",
                   0,
                   field,
                   "Pod " + first->name.str() + " has this proxy UUID already and keeps it; " +
                       (order.size() == 2
                            ? std::string("this one is")
                            : "this one and " + std::to_string(order.size() - 2) + " more are") +
                       " not served: leave the label to the injector and create the pod anew"};
    } else {
      problem = {ErrorCode::kDanglingReference,
                 key_of(*first),
                 "",
                 0,
                 field,
                 "does not mount Secret " + bootstrap_secret(id) +
                     ", which a pod with this proxy UUID was given, so it is not served; leave the "
                     "label to the injector and create the pod anew"};
    }
  }
  const auto former = conflicts_.find(id);
  if ((former == conflicts_.end() ? std::nullopt : std::optional(former->second)) == problem)
    return;
  problems_touched_ = true;
  if (problem) {
    conflicts_.insert_or_assign(id, *std::move(problem));
  } else {
    conflicts_.erase(former);
  }
}

PodTable::Changes PodTable::update() {
  Changes changes;
  const auto ids = std::exchange(touched_ids_, {});
  // A pod may change its UUID: retire all UUIDs before electing any.
  for (const ProxyId& id : ids) retire(id, changes);
  for (const ProxyId& id : ids) {
    elect(id);
    const auto owner = owners_.find(id);
    if (owner == owners_.end()) continue;
    changes.pods.insert(owner->second);
    const auto& addresses = served_.at(owner->second)->addresses;
    changes.addresses.insert(addresses.begin(), addresses.end());
  }
  std::set<std::string> touched = changes.pods;
  if (std::exchange(touched_count_, 0) > 0) {
    const SelectorIndex selectors = std::exchange(touched_selectors_, {});
    for (const auto& [name, pod] : served_)
      if (selectors.matches_any(pod->labels)) touched.insert(name);
  }
  update_workloads(touched, changes);
  changes.problems = std::exchange(problems_touched_, false);
  return changes;
}

Workload PodTable::workload_of(const Pod& pod) const {
  Workload workload{pod.name,    pod.proxy_id,
                    pod.account, pod.addresses.empty() ? "" : pod.addresses.front(),
                    pod.ports,   {}};
  for (const std::string& service : services_.matching(pod.labels))
    workload.services.push_back({ns_, service});
  return workload;
}

void PodTable::update_workloads(const std::set<std::string>& touched, Changes& changes) {
  for (const std::string& name : touched) {
    const Pod* pod = find(name);
    const auto before = workloads_.find(name);
    if (pod == nullptr) {
      if (before == workloads_.end()) continue;
      changes.workloads.push_back(before->second.name);
      workloads_.erase(before);
      continue;
    }
    Workload next = workload_of(*pod);
    if (before != workloads_.end() && before->second == next) continue;
    changes.workloads.push_back(next.name);
    workloads_[name] = std::move(next);
  }
}

const Pod* PodTable::find(const std::string& name) const {
  const auto at = served_.find(name);
  return at == served_.end() ? nullptr : at->second.get();
}

std::vector<const Pod*> PodTable::at(const std::string& address) const {
  std::vector<const Pod*> out;
  if (const auto names = by_address_.find(address); names != by_address_.end())
    for (const std::string& name : names->second) out.push_back(find(name));
  return out;
}

void PodTable::add_problems(std::vector<Problem>& out) const {
  for (const auto& [name, problem] : invalid_) out.push_back(problem);
  for (const auto& [id, problem] : conflicts_) out.push_back(problem);
}

}  // namespace osm::inline v1::kubernetes
