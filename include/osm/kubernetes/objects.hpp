// Single objects of a cluster, for plugins that use other programs through objects: they create a
// request, read its answer and delete it.
#pragma once

#include <string>
#include <vector>

#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::kubernetes {

// A namespaced kind, with the API server's names.
struct ObjectKind {
  std::string group;    // "cert-manager.io"
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

// Asks the server to delete it. Failure: kNotFound; as above. Thread, blocking: as above.
OSM_API Status delete_object(Cluster& cluster, const ObjectKind& kind, const std::string& ns,
                             const std::string& name);

// Result: names of objects that were created before `made_before`, by the server's clock.
// Failure, thread, blocking: as above.
OSM_API Result<std::vector<std::string>> list_older_objects(Cluster& cluster,
                                                            const ObjectKind& kind,
                                                            const std::string& ns,
                                                            const std::string& label_selector,
                                                            WallTime made_before);

}  // namespace osm::inline v1::kubernetes
