// One object as it was written, whatever store holds it: its metadata and its parsed text.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/result.hpp"

namespace boost::json {
class value;
}

namespace osm::inline v1 {

// The age of an object: its place in the order in which its store got its objects. All replicas
// that read one store know the same. Of two objects that claim one address, the older one has it.
struct Created {
  // Kubernetes: the second of creationTimestamp. etcd: the create revision. A directory: the look
  // that saw it first. Lower is older. 0: the store does not tell.
  std::uint64_t order = 0;
  // An API server's id of the object: two objects of one second are ordered by it. Empty elsewhere.
  std::string uid{};

  friend bool operator==(const Created&, const Created&) = default;
  friend std::strong_ordering operator<=>(const Created&, const Created&) = default;
};

// A kind of object in its API group. Borrows both texts: constants, or the members of a key.
struct GroupKind {
  std::string_view group;  // "specs.smi-spec.io"; empty: Kubernetes' core
  std::string_view kind;   // "TCPRoute"

  friend bool operator==(const GroupKind&, const GroupKind&) = default;
};

// The kinds that describe a mesh, and the kinds of its workloads.
namespace kinds {
inline constexpr GroupKind kNamespace{"", "Namespace"};
inline constexpr GroupKind kService{"", "Service"};
inline constexpr GroupKind kServiceAccount{"", "ServiceAccount"};
inline constexpr GroupKind kPod{"", "Pod"};
inline constexpr GroupKind kTrafficTarget{"access.smi-spec.io", "TrafficTarget"};
inline constexpr GroupKind kHttpRouteGroup{"specs.smi-spec.io", "HTTPRouteGroup"};
inline constexpr GroupKind kTcpRoute{"specs.smi-spec.io", "TCPRoute"};
inline constexpr GroupKind kTrafficSplit{"split.smi-spec.io", "TrafficSplit"};
inline constexpr GroupKind kMeshConfig{"config.openservicemesh.io", "MeshConfig"};
inline constexpr GroupKind kMeshRootCertificate{"config.openservicemesh.io", "MeshRootCertificate"};
inline constexpr GroupKind kEgress{"policy.openservicemesh.io", "Egress"};
inline constexpr GroupKind kIngressBackend{"policy.openservicemesh.io", "IngressBackend"};
inline constexpr GroupKind kRetry{"policy.openservicemesh.io", "Retry"};
inline constexpr GroupKind kUpstreamTrafficSetting{"policy.openservicemesh.io",
                                                   "UpstreamTrafficSetting"};
inline constexpr GroupKind kVirtualMachine{"workload.openservicemesh.io", "VirtualMachine"};
inline constexpr GroupKind kAzureResource{"workload.openservicemesh.io", "AzureResource"};
inline constexpr GroupKind kDnsResource{"workload.openservicemesh.io", "DNSResource"};
inline constexpr GroupKind kDenylist{"workload.openservicemesh.io", "Denylist"};
}  // namespace kinds

// Identifies an object in a mesh. Kinds of one name in two groups are two kinds: SMI and the
// Gateway API both have a TCPRoute.
struct OSM_API ObjectKey {
  std::string kind;   // "TrafficTarget"
  std::string group;  // "access.smi-spec.io"; empty: Kubernetes' core
  std::string ns;     // empty for cluster-scoped kinds
  std::string name;

  ObjectKey() = default;
  ObjectKey(const GroupKind& of, std::string in_namespace, std::string named)
      : kind(of.kind), group(of.group), ns(std::move(in_namespace)), name(std::move(named)) {}

  // Lifetime: borrows the key's texts.
  GroupKind group_kind() const { return {group, kind}; }
  // True if the object is of this kind, in its group.
  bool is(const GroupKind& other) const { return group_kind() == other; }
  // "TrafficTarget bookstore/buyer"; with the group if it is neither SMI's, OSM's nor Kubernetes':
  // "TCPRoute.gateway.networking.k8s.io shop/db"
  std::string str() const;

  friend bool operator==(const ObjectKey&, const ObjectKey&) = default;
  friend std::strong_ordering operator<=>(const ObjectKey&, const ObjectKey&) = default;
};

// Place that an object was read from. A store without files puts its own name of the object into
// `path`.
struct OSM_API ObjectSource {
  std::string path;
  int line = 0;                       // line of the document's first line; 0: unknown
  std::map<std::string, int> fields;  // "spec.rules[0].kind" → line

  // The line of `field`, or of its nearest ancestor that has one, or `line`.
  int line_of(std::string_view field) const;
};

// An object as its store holds it: shared, immutable, parsed and not decoded. While its content and
// place are the same, a store gives out the same pointer.
struct Object {
  ObjectKey key;
  std::string api_version;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  std::string resource_version;  // the store's own; empty: it has none
  Created created{};             // set by the store; nothing in the document changes it
  // The whole object, metadata included; <boost/json/value.hpp> defines it. Never null in an object
  // of a store.
  std::shared_ptr<const boost::json::value> document;
  ObjectSource source;
};

// One fault of one object or source. Operators see it in logs, in /metrics and in the CLI.
struct OSM_API Problem {
  ErrorCode code = ErrorCode::kInvalidField;
  ObjectKey object;  // empty kind: the source itself
  std::string path;  // file
  int line = 0;
  std::string field;  // "spec.rules[0].kind"; empty: the whole object
  std::string cause;  // the fault and the remedy

  // "mesh/a.yaml:12: TrafficTarget bookstore/buyer: spec.rules[0].kind: <cause> [invalid-field]"
  std::string text() const;
  // The same as an error, which has the code beside its text.
  Error error() const;
  // Fills in `path` and `line` from the object's present place.
  void locate(const ObjectSource& source);

  friend bool operator==(const Problem&, const Problem&) = default;
  friend std::strong_ordering operator<=>(const Problem&, const Problem&) = default;
};

}  // namespace osm::inline v1
