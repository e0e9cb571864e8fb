#include "catalog/spec_changes.hpp"

#include "model/spec_tables.hpp"

namespace osm::inline v1::catalog {

SpecChanges changes_between(const SpecSnapshot& before, const SpecSnapshot& after) {
  SpecChanges changes;
  changes.objects = model::differences(before, after);
  std::erase_if(changes.objects, [&](const auto& object) {
    const ObjectKey& key = object.first;
    changes.namespaces |= key.is(kinds::kNamespace);
    changes.accounts |= key.is(kinds::kServiceAccount);
    if (key.is(kinds::kService)) changes.services.emplace(key.ns, key.name);
    if (key.is(kinds::kTrafficTarget)) changes.targets.emplace(key.ns, key.name);
    changes.splits |= key.is(kinds::kTrafficSplit);
    changes.routes |= key.is(kinds::kHttpRouteGroup) || key.is(kinds::kTcpRoute);
    return key.is(kinds::kServiceAccount) || key.is(kinds::kMeshRootCertificate);
  });
  return changes;
}

}  // namespace osm::inline v1::catalog
