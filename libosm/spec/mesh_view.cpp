#include "spec/mesh_view.hpp"

#include <algorithm>
#include <tuple>

#include "model/spec_objects.hpp"
#include "spec/fields.hpp"
#include "spec/yaml.hpp"

namespace osm::inline v1::spec {
namespace {

using model::key_of;

ObjectKey service_key(const ServiceName& name) { return {kinds::kService, name.ns, name.name}; }

template <class T>
void list_valid(const DecodedKind<T>& kind, SharedList<T>& list, std::vector<Problem>& problems) {
  for (const auto& [key, entry] : kind.entries) {
    if (entry.value) list.push_back(entry.value);
    problems.insert(problems.end(), entry.problems.begin(), entry.problems.end());
  }
}

template <class T>
const T* find(const DecodedKind<T>& kind, const ObjectKey& key) {
  const auto at = kind.entries.find(key);
  return at == kind.entries.end() ? nullptr : at->second.value.get();
}

void drop_shared_apexes(MeshView& view) {
  std::map<ServiceName, smi::ObjectName> owners;
  std::erase_if(view.splits, [&](const auto& split) {
    const auto [owner, first] = owners.emplace(split->service, split->name);
    if (first) return false;
    view.problems.push_back({ErrorCode::kDuplicateObject, key_of(*split), "", 0, "spec.service",
                             "TrafficSplit " + owner->second.str() + " already splits Service " +
                                 split->service.str() + " and is used; merge the two"});
    return true;
  });
}

class References {
 public:
  References(const DecodedObjects& objects, MeshView& view) : objects_(objects), view_(view) {}

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
  bool known(const ServiceName& name) const {
    return model::find(view_.services, service_key(name)) != nullptr;
  }

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
    view_.problems.push_back(
        {ErrorCode::kDanglingReference, object, "", 0, std::move(field), std::move(cause)});
  }

  const DecodedObjects& objects_;
  MeshView& view_;
};

}  // namespace

std::vector<VirtualAddresses::Move> resolve(const DecodedObjects& objects,
                                            VirtualAddresses& addresses, MeshView& view) {
  list_valid(objects.services, view.services, view.problems);
  list_valid(objects.accounts, view.accounts, view.problems);
  list_valid(objects.route_groups, view.route_groups, view.problems);
  list_valid(objects.tcp_routes, view.tcp_routes, view.problems);
  list_valid(objects.targets, view.targets, view.problems);
  list_valid(objects.splits, view.splits, view.problems);
  for (const auto& [key, entry] : objects.configs.entries) {
    if (entry.value) view.config = *entry.value;
    view.problems.insert(view.problems.end(), entry.problems.begin(), entry.problems.end());
  }
  for (const auto& [key, entry] : objects.roots.entries) {
    if (entry.value) view.roots.emplace(key, entry.value);
    view.problems.insert(view.problems.end(), entry.problems.begin(), entry.problems.end());
  }
  list_valid(objects.policies, view.policies, view.problems);
  auto moves = addresses.settle(view.services, view.problems);
  drop_shared_apexes(view);
  References references(objects, view);
  for (const auto& target : view.targets) references.check(*target);
  for (const auto& split : view.splits) references.check(*split);
  std::sort(view.problems.begin(), view.problems.end());
  return moves;
}

std::vector<ObjectKey> changed_keys(const MeshView& before, const MeshView& after) {
  std::vector<ObjectKey> changed;
  model::add_differing(before.services, after.services, changed);
  model::add_differing(before.accounts, after.accounts, changed);
  model::add_differing(before.route_groups, after.route_groups, changed);
  model::add_differing(before.tcp_routes, after.tcp_routes, changed);
  model::add_differing(before.targets, after.targets, changed);
  model::add_differing(before.splits, after.splits, changed);
  model::add_differing(before.policies, after.policies, changed);
  for (const auto& [key, root] : before.roots) {
    const auto at = after.roots.find(key);
    if (at == after.roots.end() || at->second != root) changed.push_back(key);
  }
  for (const auto& [key, root] : after.roots)
    if (!before.roots.contains(key)) changed.push_back(key);
  std::vector<std::string> namespaces;
  std::set_symmetric_difference(before.namespaces.begin(), before.namespaces.end(),
                                after.namespaces.begin(), after.namespaces.end(),
                                std::back_inserter(namespaces));
  for (std::string& ns : namespaces) changed.push_back({kinds::kNamespace, "", std::move(ns)});
  return changed;
}

}  // namespace osm::inline v1::spec
