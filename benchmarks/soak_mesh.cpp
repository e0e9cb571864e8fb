#include "soak_mesh.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace osm::bench {
namespace {

constexpr int kMostAddedServices = 10;
constexpr int kRefusedService = 3;

ObjectKey key_of(const GroupKind& kind, const ServiceName& name) {
  return {kind, name.ns, name.name};
}

}  // namespace

SoakWorkloads::SoakWorkloads(const MeshSize& size)
    : mesh_(size), generations_(static_cast<std::size_t>(size.proxies)) {}

Workload SoakWorkloads::workload(int proxy) const {
  Workload made = mesh_.workload(proxy);
  const int generation = generations_[static_cast<std::size_t>(proxy)];
  made.name.name += fmt::format("-{}", generation);
  made.proxy_id = ProxyId{fmt::format("00000000-0000-4000-8000-{:06}{:06}", generation, proxy)};
  return made;
}

int SoakWorkloads::replace_next() {
  constexpr std::size_t kStride = 7919;  // a prime: all proxies take their turn
  const std::size_t proxy = ++replaced_ * kStride % generations_.size();
  ++generations_[proxy];
  return static_cast<int>(proxy);
}

SoakMesh::SoakMesh(const MeshSize& size, std::uint64_t seed)
    : size_(size), mesh_(size), workloads_(size), random_(seed) {}

void SoakMesh::fill(testing::MemoryMeshSpec& spec, testing::MemoryEndpointsProvider& provider) {
  mesh_.fill(spec, provider);
  for (int proxy = 0; proxy < size_.proxies; ++proxy) {
    provider.remove_workload(mesh_.workload(proxy).name);
    provider.put_workload(workloads_.workload(proxy));
  }
}

void SoakMesh::apply(Change change, testing::MemoryMeshSpec& spec,
                     testing::MemoryEndpointsProvider& provider) {
  switch (change) {
    case Change::kEndpoint:
      return change_endpoints(provider);
    case Change::kPolicy:
      return change_policy(spec);
    case Change::kService:
      return change_service(spec, provider);
    case Change::kRefused:
      return change_refused(spec);
    case Change::kReset:
      return reset(spec, provider);
    case Change::kBeacon:
      return mesh_.apply(change, spec, provider);
    case Change::kWorkload: {
      SoakWorkloads before = workloads_;
      const int proxy = workloads_.replace_next();
      provider.remove_workload(before.workload(proxy).name);
      return provider.put_workload(workloads_.workload(proxy));
    }
    case Change::kCertificate:
    case Change::kRoot:
      return;
  }
}

void SoakMesh::change_endpoints(testing::MemoryEndpointsProvider& provider) {
  const int index = below(size_.services);
  std::vector<Endpoint> endpoints = mesh_.endpoints(index);
  std::shuffle(endpoints.begin(), endpoints.end(), random_);
  endpoints.resize(static_cast<std::size_t>(below(static_cast<int>(endpoints.size())) + 1));
  for (int more = below(4); more > 0; --more) {
    Endpoint added = endpoints.front();
    added.address = fmt::format("10.2.{}.{}", below(250), below(250) + 1);
    endpoints.push_back(added);
  }
  provider.set_endpoints(mesh_.service(index), endpoints);
}

void SoakMesh::change_policy(testing::MemoryMeshSpec& spec) {
  if (below(3) > 0)
    return spec.put(mesh_.target(below(size_.services), below(mesh_.callers() + 3) + 1));
  const smi::TrafficSplit split = mesh_.split(below(99) + 1);
  if (below(2) == 0) return spec.put(split);
  spec.remove({kinds::kTrafficSplit, split.name.ns, split.name.name});
}

void SoakMesh::change_service(testing::MemoryMeshSpec& spec,
                              testing::MemoryEndpointsProvider& provider) {
  const int index = size_.services + 1 + below(kMostAddedServices);  // the beacon is before them
  if (added_.contains(index)) return remove_service(index, spec, provider);
  added_.insert(index);
  spec.put(mesh_.service_object(index));
  spec.put_service_account(mesh_.account(index));
  spec.put(mesh_.target(index, mesh_.callers()));
  Endpoint only = mesh_.beacon(index);
  only.identity = identity_of(mesh_.account(index));
  provider.set_endpoints(mesh_.service(index), {only});
}

void SoakMesh::remove_service(int index, testing::MemoryMeshSpec& spec,
                              testing::MemoryEndpointsProvider& provider) {
  added_.erase(index);
  const smi::TrafficTarget target = mesh_.target(index, 1);
  spec.remove({kinds::kTrafficTarget, target.name.ns, target.name.name});
  spec.remove(key_of(kinds::kService, mesh_.service(index)));
  spec.remove({kinds::kServiceAccount, mesh_.account(index).ns, mesh_.account(index).name});
  provider.remove_endpoints(mesh_.service(index));
}

void SoakMesh::change_refused(testing::MemoryMeshSpec& spec) {
  smi::TrafficTarget target = mesh_.target(kRefusedService, 2);
  target.name.name = "refused";
  target.rules.front().name = "refused";
  smi::HttpMatch match;
  match.name = target.rules.front().matches.front();
  match.headers = {{"x-soak", kRefusedMarker}};
  refused_ = !refused_;
  if (refused_) {
    spec.put(smi::HttpRouteGroup{.name = target.name, .matches = {match}});
    spec.put(target);
  } else {
    spec.remove({kinds::kTrafficTarget, target.name.ns, target.name.name});
    spec.remove({kinds::kHttpRouteGroup, target.name.ns, target.name.name});
  }
}

void SoakMesh::reset(testing::MemoryMeshSpec& spec, testing::MemoryEndpointsProvider& provider) {
  if (refused_) change_refused(spec);
  while (!added_.empty()) remove_service(*added_.begin(), spec, provider);
  const smi::TrafficSplit split = mesh_.split(50);
  spec.remove({kinds::kTrafficSplit, split.name.ns, split.name.name});
  for (int index = 0; index < size_.services; ++index) {
    spec.put(mesh_.target(index, mesh_.callers()));
    provider.set_endpoints(mesh_.service(index), mesh_.endpoints(index));
  }
}

}  // namespace osm::bench
