#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/digest.hpp"
#include "envoy/config/endpoint/v3/endpoint.pb.h"
#include "translate/class_view.hpp"
#include "translate/input.hpp"
#include "translate/pack_any.hpp"

namespace osm::inline v1::translate {
namespace {

namespace endpoint = envoy::config::endpoint::v3;

// The members of an Endpoint that Envoy gets. The identity only decides if the endpoint is listed.
struct Host {
  std::string address;
  Port port{};
  std::optional<std::uint32_t> weight;
};

struct Zone {
  std::string name;
  std::vector<Host> hosts;
};

struct AssignmentValues {
  static constexpr XdsType kType = XdsType::kEndpoint;
  static constexpr std::string_view kKind = "cluster-load-assignment";

  std::vector<Zone> zones;  // at least one: a cluster without a locality never warms
  LocalityWeights weights = LocalityWeights::kNone;

  Encoding encode(const std::string& name) const {
    endpoint::ClusterLoadAssignment assignment;
    assignment.set_cluster_name(name);
    for (const Zone& zone : zones) {
      auto& locality = *assignment.add_endpoints();
      locality.mutable_locality()->set_zone(zone.name);
      if (weights == LocalityWeights::kHosts)
        locality.mutable_load_balancing_weight()->set_value(weight_of(zone));
      for (const Host& host : zone.hosts) {
        auto& lb_endpoint = *locality.add_lb_endpoints();
        auto& address =
            *lb_endpoint.mutable_endpoint()->mutable_address()->mutable_socket_address();
        address.set_address(host.address);
        address.set_port_value(number(host.port));
        if (host.weight) lb_endpoint.mutable_load_balancing_weight()->set_value(*host.weight);
      }
    }
    return {deterministic_bytes(pack_any(assignment)), {}};
  }

  // fit_weights() keeps the sum within 32 bits. A zone without hosts has none, and is left out.
  static std::uint32_t weight_of(const Zone& zone) {
    std::uint32_t sum = 0;
    for (const Host& host : zone.hosts) sum += host.weight.value_or(1);
    return sum;
  }
};

bool allowed(const model::Upstream& upstream, const Endpoint& candidate) {
  return upstream.every_identity ||
         std::binary_search(upstream.allowed.begin(), upstream.allowed.end(), candidate.identity);
}

// True if `candidate` serves the cluster of `target_port`. Its own port may differ if the port is a
// named one.
bool serves(const model::ServiceEntry& entry, Port target_port, const Endpoint& candidate) {
  for (const MeshService& port : entry.ports) {
    if (port.target_port != target_port) continue;
    if (candidate.service_port == port.port_name) return true;
    if (candidate.service_port.empty() && entry.ports.size() == 1) return true;
  }
  return false;
}

// Envoy refuses a cluster whose weights sum to more than 32 bits. Providers may use any weights, so
// larger ones are scaled down together: their ratios stay, over all zones, and each is at least 1.
void fit_weights(std::vector<Zone>& zones) {
  std::uint64_t sum = 0, hosts = 0;
  for (const Zone& zone : zones) {
    hosts += zone.hosts.size();
    for (const Host& host : zone.hosts) sum += host.weight.value_or(1);
  }
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (sum <= kMost) return;
  for (Zone& zone : zones)
    for (Host& host : zone.hosts)
      if (host.weight)
        host.weight =
            std::max(1u, static_cast<std::uint32_t>(*host.weight * (kMost - hosts) / sum));
}

AssignmentValues assignment(const model::ServiceEndpoints* known,
                            const ClassView::UpstreamService& upstream, Port target_port) {
  std::map<std::string, std::vector<Host>> zones;
  std::set<std::pair<std::string, Port>> seen;
  if (known) {
    for (const Endpoint& candidate : known->endpoints) {
      if (!serves(*upstream.entry, target_port, candidate)) continue;
      if (!allowed(*upstream.upstream, candidate)) continue;
      // Envoy has no weight 0: such an endpoint is not listed.
      if (candidate.weight == 0u) continue;
      if (!seen.emplace(candidate.address, candidate.port).second) continue;
      zones[candidate.zone.value_or("local")].push_back(
          {candidate.address, candidate.port, candidate.weight});
    }
  }
  if (zones.empty()) zones["local"];

  AssignmentValues values;
  for (auto& [name, hosts] : zones) values.zones.push_back({name, std::move(hosts)});
  fit_weights(values.zones);
  return values;
}

std::optional<endpoint::ClusterLoadAssignment> assignment_in(const EncodedResource& resource) {
  google::protobuf::Any any;
  endpoint::ClusterLoadAssignment assignment;
  if (!any.ParseFromString(resource.any) || !any.UnpackTo(&assignment)) return std::nullopt;
  return assignment;
}

std::string address_of(const endpoint::LbEndpoint& host) {
  return deterministic_bytes(host.endpoint().address());
}

}  // namespace

EncodedPtr known_endpoints(const EncodedResource& known, const EncodedResource& fresh) {
  const auto before = assignment_in(known);
  auto assignment = assignment_in(fresh);
  if (!before || !assignment) return nullptr;
  std::set<std::string> addresses;
  for (const auto& locality : before->endpoints())
    for (const auto& host : locality.lb_endpoints()) addresses.insert(address_of(host));
  int left = 0, removed = 0;
  auto& localities = *assignment->mutable_endpoints();
  for (auto& locality : localities) {
    auto& hosts = *locality.mutable_lb_endpoints();
    const auto unknown = std::remove_if(hosts.begin(), hosts.end(), [&](const auto& host) {
      return !addresses.contains(address_of(host));
    });
    removed += static_cast<int>(hosts.end() - unknown);
    hosts.erase(unknown, hosts.end());
    left += hosts.size();
  }
  if (left == 0 || removed == 0) return nullptr;
  EncodedResource both = fresh;
  both.any = deterministic_bytes(pack_any(*assignment));
  both.hash = digest_of(both.any);
  return std::make_shared<const EncodedResource>(std::move(both));
}

std::vector<InputPtr> endpoint_inputs(const model::MeshSnapshot& snapshot,
                                      const ClassView::UpstreamService& upstream,
                                      LocalityWeights weights) {
  const auto known = snapshot.endpoints.find(upstream.entry->name);
  std::vector<InputPtr> inputs;
  for (const MeshService& port : upstream.entry->ports) {
    AssignmentValues values = assignment(known.get(), upstream, port.target_port);
    values.weights = weights;
    inputs.push_back(make_input(port.cluster_name().str(), std::move(values)));
  }
  return inputs;
}

std::vector<InputPtr> endpoint_inputs(const ClassView& view) {
  std::vector<InputPtr> inputs;
  const LocalityWeights weights =
      view.proxy_class.grpc ? LocalityWeights::kHosts : LocalityWeights::kNone;
  for (const auto& upstream : view.upstreams)
    for (InputPtr& input : endpoint_inputs(view.snapshot, upstream, weights))
      inputs.push_back(std::move(input));
  return inputs;
}

}  // namespace osm::inline v1::translate
