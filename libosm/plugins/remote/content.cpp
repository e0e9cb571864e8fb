#include "remote/content.hpp"

#include <algorithm>
#include <utility>

#include "base/maps.hpp"

namespace osm::inline v1::remote {
namespace {

template <class Value>
bool is_removal(const Received<Value>& received) {
  return !received.value && received.problems.empty();
}

Error too_large(const char* what, std::size_t count, std::size_t bound) {
  return {ErrorCode::kTooLarge, "it lists " + std::to_string(count) + ' ' + what + ", more than " +
                                    std::to_string(bound) + ": share them among several providers"};
}

// The size that `map` has after the edits.
template <class Map>
std::size_t size_after(const Map& map, const Map& edits) {
  std::size_t size = map.size();
  for (const auto& [name, received] : edits) {
    const bool there = map.contains(name);
    if (is_removal(received) && there) --size;
    if (!is_removal(received) && !there) ++size;
  }
  return size;
}

std::size_t count_of(const Received<std::vector<Endpoint>>* received) {
  return received == nullptr || !received->value ? 0 : received->value->size();
}

// Names whose values differ between the maps; nothing if neither has one.
template <class Map, class Names>
void add_differences(const Map& before, const Map& after, Names& names) {
  const auto value_in = [](const Map& map, const auto& name) {
    const auto* found = find_in(map, name);
    return found == nullptr ? std::nullopt : found->value;
  };
  for (const auto& [name, received] : before)
    if (received.value != value_in(after, name)) names.insert(name);
  for (const auto& [name, received] : after)
    if (received.value != value_in(before, name)) names.insert(name);
}

}  // namespace

Status Content::check(const Edits& edits, const RemoteLimits& limits) const {
  if (const auto size = size_after(services_, edits.services); size > limits.services)
    return too_large("services", size, limits.services);
  if (const auto size = size_after(workloads_, edits.workloads); size > limits.workloads)
    return too_large("workloads", size, limits.workloads);
  std::size_t endpoints = endpoint_count_;
  for (const auto& [name, received] : edits.services)
    endpoints = endpoints + count_of(&received) - count_of(find_in(services_, name));
  if (endpoints > limits.endpoints) return too_large("endpoints", endpoints, limits.endpoints);
  return {};
}

Status Content::put(Edits edits, const RemoteLimits& limits, Changes& changes) {
  OSM_TRY(check(edits, limits));
  for (auto& [name, received] : edits.services) set_service(name, std::move(received), changes);
  for (auto& [name, received] : edits.workloads) set_workload(name, std::move(received), changes);
  for (Problem& problem : edits.unnamed) {
    if (unnamed_.size() >= kMaxProblems) break;
    if (std::find(unnamed_.begin(), unnamed_.end(), problem) != unnamed_.end()) continue;
    unnamed_.push_back(std::move(problem));
    changes.problems = true;
  }
  return {};
}

void Content::set_service(const ServiceName& name, Received<std::vector<Endpoint>> received,
                          Changes& changes) {
  Received<std::vector<Endpoint>> former;
  if (auto* known = find_in(services_, name)) former = std::move(*known);
  changes.problems |= former.problems != received.problems;
  std::set<Place> touched;
  if (former.value) {
    for (const Endpoint& endpoint : *former.value)
      touched.insert({endpoint.address, endpoint.identity});
    remove_endpoints(name, *former.value);
  }
  if (received.value) {
    for (const Endpoint& endpoint : *received.value) {
      serving_[{endpoint.address, endpoint.identity}].insert(name);
      touched.insert({endpoint.address, endpoint.identity});
    }
    endpoint_count_ += received.value->size();
  }
  if (former.value != received.value) {
    changes.services.insert(name);
    for (const Place& place : touched)
      if (const auto* names = find_in(working_, place))
        changes.workloads.insert(names->begin(), names->end());
  }
  if (is_removal(received)) {
    services_.erase(name);
  } else {
    services_.insert_or_assign(name, std::move(received));
  }
}

void Content::remove_endpoints(const ServiceName& service, const std::vector<Endpoint>& endpoints) {
  endpoint_count_ -= endpoints.size();
  for (const Endpoint& endpoint : endpoints)
    remove_member(serving_, Place{endpoint.address, endpoint.identity}, service);
}

void Content::set_workload(const WorkloadName& name, Received<Workload> received,
                           Changes& changes) {
  const auto place_of = [](const Workload& workload) {
    return Place{workload.address, identity_of(workload.account)};
  };
  Received<Workload> former;
  if (auto* known = find_in(workloads_, name)) former = std::move(*known);
  changes.problems |= former.problems != received.problems;
  if (former.value != received.value) changes.workloads.insert(name);
  if (former.value) remove_member(working_, place_of(*former.value), name);
  if (received.value) working_[place_of(*received.value)].insert(name);
  if (is_removal(received)) {
    workloads_.erase(name);
  } else {
    workloads_.insert_or_assign(name, std::move(received));
  }
}

std::optional<std::vector<Endpoint>> Content::endpoints(const ServiceName& service) const {
  const auto* received = find_in(services_, service);
  return received == nullptr ? std::nullopt : received->value;
}

std::optional<Workload> Content::workload(const WorkloadName& name) const {
  const auto* received = find_in(workloads_, name);
  if (received == nullptr || !received->value) return std::nullopt;
  Workload workload = *received->value;
  if (const auto* services =
          find_in(serving_, Place{workload.address, identity_of(workload.account)}))
    workload.services.assign(services->begin(), services->end());
  return workload;
}

std::vector<Workload> Content::workloads() const {
  std::vector<Workload> out;
  for (const auto& [name, received] : workloads_)
    if (auto known = workload(name)) out.push_back(*std::move(known));
  return out;
}

std::vector<Problem> Content::problems() const {
  std::vector<Problem> out = unnamed_;
  std::size_t left_out = 0;
  const auto add = [&](const std::vector<Problem>& some) {
    for (const Problem& problem : some) {
      if (out.size() < kMaxProblems) {
        out.push_back(problem);
      } else {
        ++left_out;
      }
    }
  };
  for (const auto& [name, received] : services_) add(received.problems);
  for (const auto& [name, received] : workloads_) add(received.problems);
  std::sort(out.begin(), out.end());
  if (left_out > 0) {
    Problem rest = out.back();
    rest.object = {};
    rest.field = {};
    rest.cause = std::to_string(left_out) + " more problems of this provider are not shown";
    out.push_back(std::move(rest));
  }
  return out;
}

Changes Content::changes_since(const Content& before) const {
  Changes changes;
  add_differences(before.services_, services_, changes.services);
  add_differences(before.workloads_, workloads_, changes.workloads);
  // The services of a workload are computed: its own value is the same when they change.
  for (const ServiceName& service : changes.services)
    for (const Content* content : {&before, this})
      for (const Endpoint& endpoint : content->endpoints(service).value_or(std::vector<Endpoint>()))
        if (const auto* names = find_in(working_, Place{endpoint.address, endpoint.identity}))
          changes.workloads.insert(names->begin(), names->end());
  changes.problems = before.problems() != problems();
  return changes;
}

}  // namespace osm::inline v1::remote
