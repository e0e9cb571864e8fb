// The kinds of objects that describe a mesh, one row each. Stores, the MeshSpec, the webhook, the
// status writer and the osm command read this table, and so know a kind as soon as it has a row.
// CONTRIBUTING.md says how to add one.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/object.hpp"
#include "osm/values/policy.hpp"

namespace osm::inline v1::spec {

// A policy, or the reasons why it is left out.
struct DecodedPolicy {
  std::shared_ptr<const Policy> value;  // null: invalid
  std::vector<Problem> problems;        // without path and line
};

// Place of a kind's objects that count.
enum class Scope {
  kCluster,              // no namespace
  kMesh,                 // the namespaces of the mesh
  kControlPlane,         // the control plane's own namespace
  kMeshAndControlPlane,  // both
};

// True if objects in the namespaces of the mesh count.
constexpr bool counts_in_mesh(Scope scope) {
  return scope == Scope::kMesh || scope == Scope::kMeshAndControlPlane;
}
// True if objects in the control plane's own namespace count, also if it is not in the mesh.
constexpr bool counts_in_control_plane(Scope scope) {
  return scope == Scope::kControlPlane || scope == Scope::kMeshAndControlPlane;
}

// Requests that the validating webhook reviews.
enum class Review { kNone, kWrites, kWritesAndDeletes };

// One kind. The texts are constants.
struct OSM_API Kind {
  GroupKind name;
  std::string_view version;  // the accepted one: "v1alpha3"
  std::string_view plural;   // in the API server's URLs: "traffictargets"
  std::string_view alias{};  // of the osm command: "tt"; empty: it shows no status of this kind
  Scope scope = Scope::kMesh;
  bool status = false;  // the controller writes .status on Kubernetes
  Review review = Review::kNone;
  // True: without an object of this kind everybody is allowed less, or the same. So a proxy that
  // refuses such an object is served without it. A proxy that refuses another object keeps its last
  // good content (docs/adr/0070-refusals-per-proxy.md).
  bool may_be_left_out = false;
  // Both: `cluster_domain` as in ProxySettings. Must not throw. Thread: any, concurrently.
  // Blocking: no; a mesh's lock may be held. All faults of an object; null: `decode` finds them.
  std::vector<Problem> (*check)(const Object&, const std::string& cluster_domain) = nullptr;
  // For the kinds that MeshSpec::list_policies() lists; null: others.
  DecodedPolicy (*decode)(const Object&, const std::string& cluster_domain) = nullptr;

  std::string api_version() const;  // "access.smi-spec.io/v1alpha3"
};

using Kinds = std::vector<Kind>;

// The kinds of the mesh that ship with libosm. An embedder's own kinds are added to a copy.
// Thread: any. Blocking: no. Lifetime: the process's.
OSM_API const Kinds& mesh_kinds();

// The rows of mesh_kinds() with these names; a name without a row adds none.
OSM_API Kinds mesh_kinds(std::initializer_list<GroupKind> names);

// The row of a kind; null: there is none. Lifetime: that of `kinds`.
OSM_API const Kind* find_kind(const Kinds& kinds, const GroupKind& name);

// Checks the namespace and name of an object of mesh_kinds(). Failure: kInvalidArgument: the kind
// has no namespace, or needs one, or one of them is no DNS name.
OSM_API Status check_place(const ObjectKey& key);

// Reads the objects of a YAML or JSON text, as a store of text does. `path` is their place.
// Failure: the first fault: kInvalidSyntax, kInvalidField, kUnknownKind, kTooLarge.
OSM_API Result<std::vector<std::shared_ptr<const Object>>> read_objects(
    std::string_view text, const std::string& path, const Kinds& kinds = mesh_kinds());

}  // namespace osm::inline v1::spec
