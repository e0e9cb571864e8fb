#include "ads/leaving_ports.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/maps.hpp"
#include "model/own_ports.hpp"

namespace osm::inline v1::ads {
namespace {

using translate::ServedPort;

template <class Ports>
auto find_port(Ports& ports, const MeshService& port) {
  return std::find_if(ports.begin(), ports.end(),
                      [&](const ServedPort& one) { return one.port == port; });
}

std::vector<ServiceName> minus(const std::vector<ServiceName>& a,
                               const std::vector<ServiceName>& b) {
  std::vector<ServiceName> rest;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(rest));
  return rest;
}

std::vector<ServiceName> joined(const std::vector<ServiceName>& a,
                                const std::vector<ServiceName>& b) {
  std::vector<ServiceName> both;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

void add(std::vector<ServedPort>& ports, const ServedPort& one) {
  const auto same = find_port(ports, one.port);
  if (same == ports.end()) {
    ports.push_back(one);
  } else {
    same->apexes = joined(same->apexes, one.apexes);
  }
}

// True if clients still have an endpoint of the workload at this port.
bool is_endpoint(const model::MeshSnapshot& mesh, const Workload& workload,
                 const MeshService& port) {
  const auto known = mesh.endpoints.find(port.name);
  return known && std::any_of(known->endpoints.begin(), known->endpoints.end(),
                              [&](const Endpoint& endpoint) {
                                return endpoint.address == workload.address &&
                                       endpoint.port == port.target_port;
                              });
}

}  // namespace

void LeavingPorts::note(const model::ProxyKey& proxy, const std::vector<ServedPort>& before,
                        const std::vector<ServedPort>& after, SteadyTime now) {
  std::vector<Leaving> leaving;
  if (std::vector<Leaving>* held = find_in(leaving_, proxy)) leaving = std::move(*held);
  for (Leaving& one : leaving) {  // some of it may be back
    const auto back = find_port(after, one.what.port);
    if (back == after.end()) continue;
    one.port = false;
    one.what.apexes = minus(one.what.apexes, back->apexes);
  }
  std::erase_if(leaving, [](const Leaving& one) { return !one.port && one.what.apexes.empty(); });
  add_lost(leaving, before, after, now + kBound, now + kLatest);
  keep(proxy, std::move(leaving));
}

void LeavingPorts::add_lost(std::vector<Leaving>& leaving, const std::vector<ServedPort>& before,
                            const std::vector<ServedPort>& after, SteadyTime until,
                            SteadyTime latest) {
  for (const ServedPort& one : before) {
    const auto stays = find_port(after, one.port);
    const bool port = stays == after.end();
    ServedPort lost = one;
    if (!port) lost.apexes = minus(one.apexes, stays->apexes);
    if (port || !lost.apexes.empty()) leaving.push_back({std::move(lost), port, until, latest});
  }
}

void LeavingPorts::keep(const model::ProxyKey& proxy, std::vector<Leaving> leaving) {
  if (leaving.empty()) {
    leaving_.erase(proxy);
  } else {
    leaving_[proxy] = std::move(leaving);
  }
}

void LeavingPorts::remember(std::shared_ptr<const model::MeshSnapshot> mesh, SteadyTime now) {
  if (!former_.empty() && now - former_.back().ended < kApart) {
    former_.back().until = now;
  } else {
    former_.push_back({std::move(mesh), now, now});
  }
}

void LeavingPorts::forget_meshes(SteadyTime now) {
  while (!former_.empty() && now - former_.front().until >= kLatest) former_.pop_front();
}

void LeavingPorts::recall(const model::ProxyKey& proxy, const std::vector<ServedPort>& after,
                          SteadyTime away, SteadyTime now) {
  forget_meshes(now);
  std::vector<Leaving> leaving;
  if (const std::vector<Leaving>* held = find_in(leaving_, proxy)) leaving = *held;
  std::vector<ServedPort> known = after;
  for (const ServedPort& one : of(proxy)) add(known, one);
  for (auto former = former_.rbegin(); former != former_.rend(); ++former) {
    if (former->until < away) break;
    const auto workload = former->mesh->workloads.find(proxy);
    if (!workload) continue;
    const auto own = model::own_ports_of(former->mesh->services, workload->workload).ports;
    const std::vector<ServedPort> before = translate::served_ports(*former->mesh, own);
    const SteadyTime latest = former->until + kLatest;
    add_lost(leaving, before, known, std::min(now + kBound, latest), latest);
    for (const ServedPort& one : before) add(known, one);
  }
  keep(proxy, std::move(leaving));
}

std::vector<ServedPort> LeavingPorts::of(const model::ProxyKey& proxy) const {
  std::vector<ServedPort> ports;
  const std::vector<Leaving>* leaving = find_in(leaving_, proxy);
  if (!leaving) return ports;
  for (const Leaving& one : *leaving) add(ports, one.what);
  std::sort(ports.begin(), ports.end());
  return ports;
}

std::vector<model::ProxyKey> LeavingPorts::tick(SteadyTime now, const model::MeshSnapshot& mesh,
                                                std::uint64_t acknowledged) {
  std::vector<model::ProxyKey> ended;
  for (auto& [proxy, leaving] : leaving_) {
    const auto workload = mesh.workloads.find(proxy);
    const auto ends = [&](Leaving& one) {
      if (now >= one.until) return true;
      if (one.port && workload && is_endpoint(mesh, workload->workload, one.what.port)) {
        one.until = std::min(now + kBound, one.latest);
        one.gone_in = 0;
        one.known = false;
        return false;
      }
      if (one.gone_in == 0) one.gone_in = mesh.generation;
      return std::exchange(one.known, acknowledged >= one.gone_in);
    };
    std::vector<Leaving> rest;
    for (Leaving& one : leaving)
      if (!ends(one)) rest.push_back(std::move(one));
    if (rest.size() < leaving.size()) ended.push_back(proxy);
    leaving = std::move(rest);
  }
  std::erase_if(leaving_, [](const auto& entry) { return entry.second.empty(); });
  return ended;
}

}  // namespace osm::inline v1::ads
