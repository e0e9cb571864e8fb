#include "catalog/resolve_egress.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "catalog/resolve_policies.hpp"
#include "model/cluster_names.hpp"
#include "model/egress.hpp"
#include "osm/values/upstream_traffic_setting.hpp"

namespace osm::inline v1::catalog {
namespace {

using model::EgressGrant;
using model::ServiceEntry;
using ServiceTable = Table<ServiceEntry>;

// Limits for the virtual hosts, routes and matches that all grants of one identity become together,
// and that one object becomes for all its sources (docs/adr/0019).
constexpr std::size_t kMaxCost = 16'384;
constexpr std::size_t kMaxObjectCost = 65'536;

bool is_tls(EgressProtocol protocol) { return protocol == EgressProtocol::kHttps; }
bool is_http(EgressProtocol protocol) { return protocol == EgressProtocol::kHttp; }

// ---- names and addresses of the mesh

// Services whose names and addresses lead to sidecars. Others have clients past the mesh in SMI
// mode.
bool is_in_mesh(const ServiceEntry& service, bool permissive) {
  return !service.outside || service.split || permissive;
}

class MeshNames {
 public:
  MeshNames(const ServiceTable& services, const ProxySettings& settings)
      : services_(services),
        permissive_(settings.permissive),
        cluster_domain_(settings.cluster_domain) {}

  // The Service that the host names, or one below the wildcard; null: there is none. Short names
  // resolve in `ns`.
  const ServiceEntry* named_by(const EgressHost& host, const std::string& ns) const {
    std::string_view name = host.name;
    const bool wildcard = name.starts_with("*.");
    if (wildcard) name.remove_prefix(2);
    const bool full = drop_suffix(name);
    if (full && name.empty()) return wildcard ? first_in(std::nullopt) : nullptr;
    const auto labels = static_cast<std::size_t>(std::count(name.begin(), name.end(), '.')) + 1;
    if (labels == 1) {
      if (wildcard) return first_in(std::string(name));
      return full ? nullptr : find({ns, std::string(name)});
    }
    // Names of a headless Service's pods have more labels.
    if (!full && !wildcard && labels > 2) return nullptr;
    const auto dot = name.rfind('.');
    const std::string_view rest = name.substr(0, dot);
    return find({std::string(name.substr(dot + 1)), std::string(rest.substr(rest.rfind('.') + 1))});
  }

  // The Service to which the address belongs, as Egresses in `ns` see it; null: there is none. The
  // author of a machine writes its address freely, so a member of a headless Service has its
  // address only for the Service's own namespace.
  const ServiceEntry* at(const Ipv4Network& network, const std::string& ns) {
    if (network.length != 32) return nullptr;
    if (cluster_ips_.empty() && members_.empty())
      for (const auto& service : services_) add_addresses(*service);
    const std::string address = model::text_of(network);
    if (const auto found = cluster_ips_.find(address); found != cluster_ips_.end())
      return found->second;
    const auto member = members_.find({ns, address});
    return member == members_.end() ? nullptr : member->second;
  }

 private:
  // Drops "svc.<domain>", "svc" and so on. Result: false if the name does not end so. As in other
  // objects, "cluster.local" means this cluster too.
  bool drop_suffix(std::string_view& name) const {
    for (const std::string& domain : {cluster_domain_, std::string(model::kDefaultClusterDomain),
                                      std::string("cluster"), std::string()}) {
      const std::string services = domain.empty() ? ".svc" : ".svc." + domain;
      if (name == domain || name == std::string_view(services).substr(1)) {
        name = {};
        return true;
      }
      if (name.ends_with(services)) {
        name.remove_suffix(services.size());
        return true;
      }
    }
    if (name != "local") return false;
    name = {};
    return true;
  }

  const ServiceEntry* find(const ServiceName& name) const {
    const auto service = services_.find(name);
    return service && is_in_mesh(*service, permissive_) ? service.get() : nullptr;
  }

  const ServiceEntry* first_in(const std::optional<std::string>& ns) const {
    const auto found = std::find_if(services_.begin(), services_.end(), [&](const auto& service) {
      return (!ns || service->name.ns == *ns) && is_in_mesh(*service, permissive_);
    });
    return found == services_.end() ? nullptr : found->get();
  }

  void add_addresses(const ServiceEntry& service) {
    if (!is_in_mesh(service, permissive_)) return;
    if (!service.cluster_ip.empty()) cluster_ips_.emplace(service.cluster_ip + "/32", &service);
    for (const std::string& address : service.addresses)
      members_.emplace(std::pair(service.name.ns, address + "/32"), &service);
  }

  const ServiceTable& services_;
  const bool permissive_;
  const std::string cluster_domain_;
  std::map<std::string, const ServiceEntry*> cluster_ips_;
  std::map<std::pair<std::string, std::string>, const ServiceEntry*> members_;  // by namespace
};

// ---- one identity's grants together

// An upper bound of what the grants of one port become in a proxy: each network has the hosts and
// routes of the grants that hold it, each host those of the wildcards that hold it.
struct PortCost {
  std::set<Ipv4Network> networks;
  std::size_t hosts = 0;
  std::size_t routes = 0;           // of all hosts
  std::size_t wildcard_routes = 0;  // of one host below all wildcards

  void add(const EgressGrant& grant) {
    std::size_t routes_each = 1;
    if (grant.routes)
      for (const RoutePolicy& route : *grant.routes)
        routes_each += std::max<std::size_t>(1, route.methods.size());
    const std::size_t count = grant.hosts ? grant.hosts->size() : 1;
    if (grant.networks) networks.insert(grant.networks->begin(), grant.networks->end());
    hosts += count;
    routes += count * routes_each;
    if (grant.hosts && std::any_of(grant.hosts->begin(), grant.hosts->end(), model::is_wildcard))
      wildcard_routes += routes_each;
  }
  std::size_t total() const { return (networks.size() + 1) * (routes + hosts * wildcard_routes); }
};

using PortCosts = std::map<Port, PortCost>;

void add_to(PortCosts& costs, const EgressGrant& grant) {
  for (const EgressPort& port : grant.ports) costs[port.number].add(grant);
}

std::size_t total_of(const PortCosts& costs) {
  std::size_t total = 0;
  for (const auto& [port, cost] : costs) total += cost.total();
  return total;
}

bool overlap(const std::optional<std::vector<Ipv4Network>>& a,
             const std::optional<std::vector<Ipv4Network>>& b) {
  if (!a || !b) return true;
  return std::any_of(a->begin(), a->end(), [&](const Ipv4Network& one) {
    return std::any_of(b->begin(), b->end(), [&](const Ipv4Network& other) {
      return model::holds(one, other) || model::holds(other, one);
    });
  });
}

using Report = std::function<void(ErrorCode, std::string, std::string)>;

// The grants of one identity, added in the order of their objects.
class ClientGrants {
 public:
  void add(const ObjectKey& object, EgressGrant grant, const Report& report) {
    std::vector<Port> opened;
    std::erase_if(grant.ports, [&](const EgressPort& port) {
      return is_excluded(object, port, opened, report);
    });
    if (grant.ports.empty()) return;
    if (!afford(grant, report)) {  // then it excludes nobody
      for (const Port port : opened) readers_.erase(port);
      return;
    }
    if (!grant.setting.empty()) check_setting(object, grant, report);
    grants_.push_back(std::move(grant));
    owners_.push_back(object);
  }

  std::vector<EgressGrant> take() && { return std::move(grants_); }

 private:
  // A sidecar that reads the TLS name of a port waits for the client's first bytes, and the client
  // of a server-first protocol sends none. Adds the port to `opened` if nobody else opens it so.
  bool is_excluded(const ObjectKey& object, const EgressPort& port, std::vector<Port>& opened,
                   const Report& report) {
    const bool tls = is_tls(port.protocol);
    if (!tls && port.protocol != EgressProtocol::kTcpServerFirst) return false;
    const auto [first, fresh] = readers_.try_emplace(port.number, tls, object);
    if (fresh) opened.push_back(port.number);
    if (first->second.first == tls) return false;
    report(ErrorCode::kConflictingProtocol, "spec.ports",
           "port " + std::to_string(number(port.number)) + " cannot be " +
               (tls ? "https, since " : "tcp-server-first, since ") + first->second.second.str() +
               (tls ? " opens it as tcp-server-first" : " opens it as https") +
               " for the same source and is used");
    return true;
  }

  bool afford(const EgressGrant& grant, const Report& report) {
    PortCosts costs = costs_;
    add_to(costs, grant);
    const std::size_t total = total_of(costs);
    if (total > kMaxCost) {
      report(ErrorCode::kTooLarge, "spec",
             "has no effect: the hosts, addresses and routes of all Egresses of its source "
             "together would become " +
                 std::to_string(total) + " entries of its sidecars, and at most " +
                 std::to_string(kMaxCost) + " are supported");
      return false;
    }
    costs_ = std::move(costs);
    return true;
  }

  // Reports that another object already limits one of the grant's destinations: the first counts.
  // The caller adds the grant to the end of `grants_` afterwards.
  void check_setting(const ObjectKey& object, const EgressGrant& grant, const Report& report) {
    const auto told = [&](const ObjectKey& owner, const std::string& setting,
                          const std::string& what) {
      if (setting == grant.setting) return false;
      report(ErrorCode::kDuplicateObject, "spec.matches",
             owner.str() + " already limits " + what + " by UpstreamTrafficSetting " + setting +
                 " and is used");
      return true;
    };
    for (const EgressPort& port : grant.ports) {
      const std::string number_text = std::to_string(number(port.number));
      if (is_http(port.protocol) || is_tls(port.protocol)) {
        if (!grant.hosts) continue;
        for (const EgressHost& host : *grant.hosts) {
          if (host.port && *host.port != port.number) continue;
          const std::string at = host.name + ':' + number_text;
          const auto& [owner, setting] =
              host_settings_.try_emplace(at, object, grant.setting).first->second;
          if (told(owner, setting, at)) return;
        }
        continue;
      }
      auto& limited = tcp_settings_[port.number];
      for (const std::size_t other : limited)
        if (overlap(grants_[other].networks, grant.networks) &&
            told(owners_[other], grants_[other].setting, "addresses of port " + number_text))
          return;
      limited.push_back(grants_.size());
    }
  }

  std::vector<EgressGrant> grants_;
  std::vector<ObjectKey> owners_;  // of grants_, in the same order
  // Ports that are read as TLS, or must not be read.
  std::map<Port, std::pair<bool, ObjectKey>> readers_;
  PortCosts costs_;
  std::map<std::string, std::pair<ObjectKey, std::string>> host_settings_;
  std::map<Port, std::vector<std::size_t>> tcp_settings_;  // places in grants_
};

// ---- one object

class EgressResolver {
 public:
  EgressResolver(const SpecSnapshot& objects, const ServiceTable& services)
      : objects_(objects), names_(services, objects.config->proxy) {}

  void add(const Policy& policy, const Egress& egress) {
    Report report = [&](ErrorCode code, std::string field, std::string cause) {
      problems_.push_back({.code = code,
                           .object = policy.key,
                           .path = {},
                           .field = std::move(field),
                           .cause = std::move(cause)});
    };
    if (auto why = why_idle()) {
      report(ErrorCode::kUnusedField, "", *std::move(why));
      if (!objects_.config->proxy.egress_policy) return;
      // With global egress a proxy keeps the grants' clusters. Nothing else is of interest then.
      report = [](const auto&...) {};
    }
    const bool in_force = !objects_.config->proxy.egress;
    EgressGrant grant{
        {policy.key, "spec", in_force}, egress.ports, egress.hosts, egress.networks, {}};
    leave_out_mesh(policy.key.ns, grant, report);
    add_routes(policy.key.ns, egress, grant, report);
    if (!add_setting(policy.key.ns, egress, grant, report)) return;
    if (grant.networks && grant.networks->empty()) return;
    if (grant.hosts && grant.hosts->empty())
      std::erase_if(grant.ports, [](const EgressPort& port) {
        return is_http(port.protocol) || is_tls(port.protocol);
      });
    PortCosts costs;
    add_to(costs, grant);
    if (total_of(costs) * egress.sources.size() > kMaxObjectCost)
      return report(ErrorCode::kTooLarge, "spec",
                    "has no effect: its hosts, addresses, routes and sources are too many "
                    "together; split the object");
    for (const ServiceIdentity& source : egress.sources)
      grants_[source].add(policy.key, grant, report);
  }

  std::map<ServiceIdentity, ClientGrants> take_grants() && { return std::move(grants_); }
  std::vector<Problem> take_problems() && { return std::move(problems_); }

 private:
  std::optional<std::string> why_idle() const {
    const ProxySettings& settings = objects_.config->proxy;
    if (!settings.egress_policy)
      return "has no effect: set MeshConfig's spec.featureFlags.enableEgressPolicy to true";
    if (settings.egress)
      return "has no effect: MeshConfig's spec.traffic.enableEgress lets everything outside of the "
             "mesh pass; set it to false if only what Egresses name is to pass";
    return std::nullopt;
  }

  void leave_out_mesh(const std::string& ns, EgressGrant& grant, const Report& report) {
    const auto refuse = [&](const ServiceEntry* service, const char* field,
                            const std::string& what) {
      if (service == nullptr) return false;
      report(ErrorCode::kConflictingAddress, field,
             what + " belongs to Service " + service->name.str() +
                 " of the mesh and is left out; TrafficTargets say who may call it");
      return true;
    };
    if (grant.hosts)
      std::erase_if(*grant.hosts, [&](const EgressHost& host) {
        return refuse(names_.named_by(host, ns), "spec.hosts", host.name);
      });
    if (grant.networks)
      std::erase_if(*grant.networks, [&](const Ipv4Network& network) {
        return refuse(names_.at(network, ns), "spec.ipAddresses", model::text_of(network));
      });
  }

  void add_routes(const std::string& ns, const Egress& egress, EgressGrant& grant,
                  const Report& report) const {
    if (!egress.route_groups) return;
    grant.routes.emplace();
    for (const std::string& name : *egress.route_groups) {
      if (const auto group = objects_.http_routes.find({ns, name}))
        for (const smi::HttpMatch& match : group->matches)
          grant.routes->push_back(route_policy(group->name, match));
      else
        report(ErrorCode::kDanglingReference, "spec.matches",
               ObjectKey{kinds::kHttpRouteGroup, ns, name}.str() +
                   " is not there, or is invalid and left out; it matches no request");
    }
  }

  // Result: false if the setting is not there. Without its limits more would pass than the author
  // meant.
  bool add_setting(const std::string& ns, const Egress& egress, EgressGrant& grant,
                   const Report& report) const {
    if (egress.setting.empty()) return true;
    const ObjectKey key{kinds::kUpstreamTrafficSetting, ns, egress.setting};
    const auto policy = objects_.policies.find(key);
    const auto* setting = policy ? policy->get<UpstreamTrafficSetting>() : nullptr;
    if (setting == nullptr) {
      report(ErrorCode::kDanglingReference, "spec.matches",
             key.str() +
                 " is not there, or is invalid and left out; until it is, this Egress "
                 "allows nothing");
      return false;
    }
    grant.setting = ns + '/' + egress.setting;
    grant.setting_origin = {key, "", grant.origin.in_force};
    grant.connections = setting->limits.connections;
    return true;
  }

  const SpecSnapshot& objects_;
  MeshNames names_;
  std::map<ServiceIdentity, ClientGrants> grants_;
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> resolve_egress(const SpecSnapshot& objects, const ServiceTable& services,
                                    std::vector<model::ClientPolicy>& clients) {
  EgressResolver resolver(objects, services);
  for (const auto& policy : objects.policies)
    if (const auto* egress = policy->get<Egress>()) resolver.add(*policy, *egress);
  std::map<ServiceIdentity, model::ClientPolicy> all;
  for (model::ClientPolicy& client : clients) all.emplace(client.identity, std::move(client));
  for (auto& [identity, grants] : std::move(resolver).take_grants()) {
    std::vector<EgressGrant> list = std::move(grants).take();
    if (list.empty()) continue;
    model::ClientPolicy& client = all[identity];
    client.identity = identity;
    client.egress = std::move(list);
  }
  clients.clear();
  for (auto& [identity, client] : all) clients.push_back(std::move(client));
  return std::move(resolver).take_problems();
}

}  // namespace osm::inline v1::catalog
