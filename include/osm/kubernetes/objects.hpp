// Objects of a cluster, for plugins that use other programs through objects (they create a request,
// read its answer and delete it), and for commands.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/result.hpp"
#include "osm/spec/object_writer.hpp"

namespace osm::inline v1::kubernetes {

// A kind, with the API server's names. Objects of a kind without namespaces have an empty one.
struct ObjectKind {
  std::string group;    // "cert-manager.io"; empty: core
  std::string version;  // "v1"
  std::string plural;   // "certificaterequests"
  std::string kind;     // "CertificateRequest"
};

// Creates `json`, an object with metadata.namespace and metadata.name. Result: the object as stored
// by the server, JSON.
// Failure: kAlreadyExists, kInvalidField, kPermissionDenied, kUnavailable, ... with the server's
// message; kInvalidSyntax if `json` is no JSON. Thread: any but an event loop's. Blocking: until
// the server answers.
OSM_API Result<std::string> create_object(Cluster& cluster, const ObjectKind& kind,
                                          const std::string& json);

// Result: the object, JSON. Failure: kNotFound; as above. Thread, blocking: as above.
OSM_API Result<std::string> get_object(Cluster& cluster, const ObjectKind& kind,
                                       const std::string& ns, const std::string& name);

// Changes what the JSON merge patch `change` names, and keeps the rest; null removes a member.
// Result: the object as stored. Failure: kNotFound; kInvalidSyntax; as above. Thread, blocking: as
// above.
OSM_API Result<std::string> patch_object(Cluster& cluster, const ObjectKind& kind,
                                         const std::string& ns, const std::string& name,
                                         const std::string& change);

// Asks the server to delete it. Failure: kNotFound; as above. Thread, blocking: as above.
OSM_API Status delete_object(Cluster& cluster, const ObjectKind& kind, const std::string& ns,
                             const std::string& name);

// Objects to list.
struct ObjectQuery {
  std::string ns{};              // empty: of all namespaces
  std::string label_selector{};  // empty: all
  bool metadata_only = false;    // the server sends apiVersion, kind and metadata
};

// Result: the objects, JSON. Failure, thread, blocking: as above.
OSM_API Result<std::vector<std::string>> list_objects(Cluster& cluster, const ObjectKind& kind,
                                                      const ObjectQuery& query);

// Result: names of objects that were created before `made_before`, by the server's clock.
// Failure, thread, blocking: as above.
OSM_API Result<std::vector<std::string>> list_older_objects(Cluster& cluster,
                                                            const ObjectKind& kind,
                                                            const std::string& ns,
                                                            const std::string& label_selector,
                                                            WallTime made_before);

// The writer of the mesh's objects, with the rights of the cluster's user. An object's version is
// its resourceVersion. Failure of each call: also kInvalidField (the webhook or the CRD refuses the
// object), kNotFound (no such namespace, no CRD). Lifetime: `cluster` outlives the writer.
OSM_API std::unique_ptr<spec::ObjectWriter> make_object_writer(Cluster& cluster);

// The end of the log of a pod, at most `max_bytes`; of its first container. Failure: kNotFound; as
// above. Thread, blocking: as above.
OSM_API Result<std::string> read_log(Cluster& cluster, const std::string& ns,
                                     const std::string& pod, std::size_t max_bytes);

}  // namespace osm::inline v1::kubernetes
