#include "spec/resolve.hpp"

#include <algorithm>

#include "model/claims.hpp"
#include "model/spec_tables.hpp"
#include "spec/fields.hpp"
#include "spec/yaml.hpp"

namespace osm::inline v1::spec {
namespace {

using model::key_of;

ObjectKey service_key(const ServiceName& name) { return {kinds::kService, name.ns, name.name}; }

template <class T>
SharedList<T> valid(const DecodedKind<T>& kind, std::vector<Problem>& problems) {
  SharedList<T> list;
  for (const auto& [key, entry] : kind.entries) {
    if (entry.value) list.push_back(entry.value);
    problems.insert(problems.end(), entry.problems.begin(), entry.problems.end());
  }
  return list;
}

template <class T>
void take(Table<T>& table, SharedList<T> list) {
  if (table.list() != list) table = Table<T>::sorted(std::move(list));
}

template <class T>
const T* find(const DecodedKind<T>& kind, const ObjectKey& key) {
  const auto at = kind.entries.find(key);
  return at == kind.entries.end() ? nullptr : at->second.value.get();
}

class References {
 public:
  References(const DecodedObjects& objects, const Table<Service>& services,
             std::vector<Problem>& problems)
      : objects_(objects), services_(services), problems_(problems) {}

  void check(const smi::TrafficTarget& target) {
    for (const smi::TrafficTargetRule& rule : target.rules) {
      const bool http = rule.kind == smi::RouteKind::kHttpRouteGroup;
      const ObjectKey route{http ? kinds::kHttpRouteGroup : kinds::kTcpRoute, target.name.ns,
                            rule.name};
      const std::string field = field_path("spec.rules", rule.place);
      const auto* group = http ? find(objects_.route_groups, route) : nullptr;
      if (http ? group == nullptr : find(objects_.tcp_routes, route) == nullptr) {
        dangling(key_of(target), field + ".name",
                 missing(route) + (http ? "; this rule allows nothing"
                                        : "; this TrafficTarget allows nothing, since the ports of "
                                          "its TCPRoutes limit all its rules"));
      } else if (http) {
        check_matches(target, rule, *group, field);
      }
    }
  }

  void check(const smi::TrafficSplit& split) {
    const ObjectKey key = key_of(split);
    if (!known(split.service)) dangling(key, "spec.service", missing(service_key(split.service)));
    for (const smi::SplitBackend& backend : split.backends) {
      const ServiceName name{split.name.ns, backend.service};
      if (!known(name))
        dangling(key, field_path("spec.backends", backend.place) + ".service",
                 missing(service_key(name)));
    }
  }

 private:
  bool known(const ServiceName& name) const { return services_.find(name) != nullptr; }

  static std::string missing(const ObjectKey& key) {
    return key.str() + " is not there, or is invalid and left out";
  }

  void check_matches(const smi::TrafficTarget& target, const smi::TrafficTargetRule& rule,
                     const smi::HttpRouteGroup& group, const std::string& field) {
    for (const std::string& name : rule.matches) {
      const bool there =
          std::any_of(group.matches.begin(), group.matches.end(),
                      [&](const smi::HttpMatch& match) { return match.name == name; });
      if (!there)
        dangling(key_of(target), field + ".matches",
                 "HTTPRouteGroup " + group.name.str() + " has no match \"" + name +
                     "\", or it is invalid and left out");
    }
  }

  void dangling(const ObjectKey& object, std::string field, std::string cause) {
    problems_.push_back(
        {ErrorCode::kDanglingReference, object, "", 0, std::move(field), std::move(cause)});
  }

  const DecodedObjects& objects_;
  const Table<Service>& services_;
  std::vector<Problem>& problems_;
};

}  // namespace

std::vector<VirtualAddresses::Move> resolve(const DecodedObjects& objects,
                                            VirtualAddresses& addresses, SpecSnapshot& snapshot,
                                            std::vector<Problem>& problems) {
  auto services = valid(objects.services, problems);
  auto splits = valid(objects.splits, problems);
  auto moves = addresses.settle(services, problems);
  model::Owners apexes;
  std::erase_if(splits, [&](const auto& split) {
    return !apexes.take(key_of(*split), model::links_of(*split).claims.front(), problems);
  });
  take(snapshot.services, std::move(services));
  take(snapshot.accounts, valid(objects.accounts, problems));
  take(snapshot.http_routes, valid(objects.route_groups, problems));
  take(snapshot.tcp_routes, valid(objects.tcp_routes, problems));
  take(snapshot.targets, valid(objects.targets, problems));
  take(snapshot.splits, std::move(splits));
  take(snapshot.policies, valid(objects.policies, problems));
  take(snapshot.roots, valid(objects.roots, problems));
  for (auto& config : valid(objects.configs, problems)) snapshot.config = std::move(config);
  References references(objects, snapshot.services, problems);
  for (const auto& target : snapshot.targets) references.check(*target);
  for (const auto& split : snapshot.splits) references.check(*split);
  std::sort(problems.begin(), problems.end());
  return moves;
}

}  // namespace osm::inline v1::spec
