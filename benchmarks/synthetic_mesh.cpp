#include "synthetic_mesh.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace osm::bench {
namespace {

constexpr const char* kNamespace = "bench";
constexpr Port kTargetPort{8080};
// The service that the changes are made to. Not s0, which is split in permissive mode.
constexpr int kChanged = 2;

std::string address(int network, int index) {
  return fmt::format("10.{}.{}.{}", network, index / 250, index % 250 + 1);
}

Service http_service(const ServiceName& name, int index) {
  return {.name = name,
          .cluster_ip = address(96, index),
          .headless = false,
          .selector = {{"app", name.name}},
          .ports = {{.name = "http",
                     .port = Port{80},
                     .target_port = kTargetPort,
                     .protocol = Protocol::kHttp}}};
}

std::bitset<5> types(std::initializer_list<XdsType> list) {
  std::bitset<5> bits;
  for (XdsType type : list) bits.set(static_cast<std::size_t>(type));
  return bits;
}

const ServiceName kBeacon{kNamespace, "beacon"};
const ServiceAccount kBeaconAccount{kNamespace, "beacon"};

}  // namespace

std::string change_text(Change change) {
  switch (change) {
    case Change::kEndpoint:
      return "endpoint";
    case Change::kPolicy:
      return "policy";
    case Change::kCertificate:
      return "certificate";
    case Change::kBeacon:
      return "beacon";
    case Change::kService:
      return "service";
    case Change::kRoot:
      return "root";
    case Change::kWorkload:
      return "workload";
    case Change::kRefused:
      return "refused";
    case Change::kReset:
      return "reset";
  }
  return "";
}

std::string MeshSize::name() const {
  return fmt::format("{}-{}x{}", permissive ? "permissive" : "smi", proxies, services);
}

int SyntheticMesh::callers() const { return std::min(10, size_.services - 2); }

ServiceName SyntheticMesh::service(int index) const {
  return {kNamespace, fmt::format("s{:03}", index)};
}

Service SyntheticMesh::service_object(int index) const {
  return http_service(service(index), index);
}

ServiceAccount SyntheticMesh::account(int index) const {
  return {kNamespace, fmt::format("a{:03}", index)};
}

Workload SyntheticMesh::workload(int proxy) const {
  const int index = service_of(proxy);
  return {.name = {kNamespace, fmt::format("vm{:05}", proxy)},
          .proxy_id = ProxyId{fmt::format("00000000-0000-4000-8000-{:012}", proxy)},
          .account = account(index),
          .address = address(1, proxy),
          .ports = {},
          .services = {service(index)}};
}

ServiceIdentity SyntheticMesh::rotated_identity() const { return identity_of(account(kChanged)); }

std::vector<Endpoint> SyntheticMesh::endpoints(int index) const {
  std::vector<Endpoint> found;
  for (int proxy = index; proxy < size_.proxies; proxy += size_.services)
    found.push_back({.address = address(1, proxy),
                     .port = kTargetPort,
                     .service_port = "http",
                     .identity = identity_of(account(index)),
                     .zone = {},
                     .weight = {}});
  return found;
}

Endpoint SyntheticMesh::beacon(int generation) const {
  return {.address = address(3, generation % 1000),
          .port = kTargetPort,
          .service_port = "http",
          .identity = identity_of(kBeaconAccount),
          .zone = {},
          .weight = {}};
}

smi::TrafficTarget SyntheticMesh::target(int index, int sources) const {
  smi::TrafficTarget made{
      .name = {kNamespace, fmt::format("t{:03}", index)},
      .destination = account(index),
      .sources = {},
      .rules = {
          {.kind = smi::RouteKind::kHttpRouteGroup, .name = "routes", .matches = {"everything"}}}};
  for (int back = 1; back <= sources; ++back)
    made.sources.push_back(account((index - back + size_.services) % size_.services));
  std::sort(made.sources.begin(), made.sources.end());
  return made;
}

smi::TrafficSplit SyntheticMesh::split(int first_weight) const {
  return {.name = {kNamespace, "split"},
          .service = service(0),
          .backends = {{.service = service(1).name, .weight = first_weight},
                       {.service = service(2).name, .weight = 100 - first_weight}}};
}

void SyntheticMesh::fill(testing::MemoryMeshSpec& spec,
                         testing::MemoryEndpointsProvider& provider) const {
  MeshConfig config;
  config.proxy.permissive = size_.permissive;
  spec.set_mesh_config(config);
  smi::HttpMatch everything;
  everything.name = "everything";
  spec.put(smi::HttpRouteGroup{.name = {kNamespace, "routes"}, .matches = {everything}});

  smi::TrafficTarget to_beacon{.name = {kNamespace, "to-beacon"},
                               .destination = kBeaconAccount,
                               .sources = {},
                               .rules = target(0, 0).rules};
  for (int index = 0; index < size_.services; ++index) {
    spec.put(service_object(index));
    spec.put_service_account(account(index));
    if (!size_.permissive) spec.put(target(index, callers()));
    to_beacon.sources.push_back(account(index));
    provider.set_endpoints(service(index), endpoints(index));
  }
  spec.put(http_service(kBeacon, size_.services));
  spec.put_service_account(kBeaconAccount);
  provider.set_endpoints(kBeacon, {beacon(0)});
  if (size_.permissive) {
    spec.put(split(50));
  } else {
    spec.put(to_beacon);
  }
  for (int proxy = 0; proxy < size_.proxies; ++proxy) provider.put_workload(workload(proxy));
}

void SyntheticMesh::apply(Change change, testing::MemoryMeshSpec& spec,
                          testing::MemoryEndpointsProvider& provider) {
  ++generation_;
  switch (change) {
    case Change::kEndpoint: {
      auto changed = endpoints(kChanged);
      changed.push_back(changed.front());
      changed.back().address = address(2, generation_);
      provider.set_endpoints(service(kChanged), changed);
      break;
    }
    case Change::kPolicy:
      if (size_.permissive) {
        spec.put(split(generation_ % 49 + 1));
      } else {
        spec.put(target(kChanged, callers() + 1));
      }
      break;
    case Change::kBeacon:
      provider.set_endpoints(kBeacon, {beacon(generation_)});
      break;
    case Change::kService: {
      // Called by the accounts of as many services as any other.
      const int added = size_.services + 1;
      spec.put(service_object(added));
      spec.put_service_account(account(added));
      if (!size_.permissive) spec.put(target(added, callers()));
      Endpoint only = beacon(generation_);
      only.identity = identity_of(account(added));
      provider.set_endpoints(service(added), {only});
      break;
    }
    case Change::kRoot:
      spec.put(MeshRootCertificate{.name = kNextRoot, .trust_domain = kTrustDomain});
      break;
    case Change::kCertificate:
    case Change::kWorkload:
    case Change::kRefused:
    case Change::kReset:
      break;
  }
}

std::vector<Touch> SyntheticMesh::touched_by(Change change) const {
  const int newcomer = (kChanged - callers() - 1 + size_.services) % size_.services;
  std::vector<Touch> touched;
  for (int proxy = 0; proxy < size_.proxies; ++proxy) {
    const int own = service_of(proxy);
    const int distance = (kChanged - own + size_.services) % size_.services;
    const bool calls = size_.permissive || (distance >= 1 && distance <= callers());
    std::bitset<5> reached;
    switch (change) {
      case Change::kEndpoint:
        if (calls) reached = types({XdsType::kEndpoint});
        break;
      case Change::kPolicy:
        if (size_.permissive) {
          reached = types({XdsType::kRoute});
        } else if (own == newcomer) {
          reached =
              types({XdsType::kCluster, XdsType::kEndpoint, XdsType::kListener, XdsType::kRoute});
        } else if (own == kChanged) {
          reached = types({XdsType::kRoute});
        }
        break;
      case Change::kCertificate:
        if (own == kChanged) reached = types({XdsType::kSecret});
        break;
      case Change::kBeacon:
        reached = types({XdsType::kEndpoint});
        break;
      case Change::kRoot:
        reached = types({XdsType::kSecret});
        break;
      case Change::kService:  // of sessions without a server
      case Change::kWorkload:
      case Change::kRefused:
      case Change::kReset:
        break;
    }
    if (reached.any()) touched.push_back({proxy, reached});
  }
  return touched;
}

}  // namespace osm::bench
