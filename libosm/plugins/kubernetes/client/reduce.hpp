// Reduces an API server's objects to the fields that the mesh reads.
//
// Always dropped: metadata.managedFields, the resource version, kubectl's last-applied annotation.
// Status is kept for Pods and Nodes only. Pods and EndpointSlices, which are many, keep only the
// fields that `pod` and `slice_table` read, Nodes their kubelet's version; other objects stay
// complete.
#pragma once

#include <boost/json/object.hpp>
#include <memory>
#include <string>

#include "kubernetes/client/api.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::kubernetes {

// Result: the object, without the server's version, which changes with every field. `server` is
// part of its source: "https://10.96.0.1:443".
std::shared_ptr<const Object> reduce(const Resource& resource, boost::json::object object,
                                     const std::string& server);

// As a metadata-only informer keeps an object: the metadata without managedFields. Its
// resource_version is the server's, so each version is a change.
std::shared_ptr<const Object> reduce_to_metadata(const Resource& resource,
                                                 boost::json::object object,
                                                 const std::string& server);

}  // namespace osm::inline v1::kubernetes
