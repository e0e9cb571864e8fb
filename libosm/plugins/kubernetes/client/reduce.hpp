// What is kept of an API server's objects: what the mesh reads, and nothing that changes otherwise.
//
// Never: metadata.managedFields, the resource version, kubectl's last-applied annotation. Status
// only of Pods. Pods and EndpointSlices are cut down to what `pod` and `slice_table` read, since
// there are many; everything else stays as it is.
#pragma once

#include <boost/json/object.hpp>
#include <memory>
#include <string>

#include "kubernetes/client/api.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::kubernetes {

// Result: the object; its resource_version is a digest of what is kept, so that it changes only
// with that. `server` is for its source: "https://10.96.0.1:443".
std::shared_ptr<const Object> reduce(const Resource& resource, boost::json::object object,
                                     const std::string& server);

// As a metadata-only informer keeps an object: the metadata without managedFields. Its
// resource_version is the server's, so each version is a change.
std::shared_ptr<const Object> reduce_to_metadata(const Resource& resource,
                                                 boost::json::object object,
                                                 const std::string& server);

}  // namespace osm::inline v1::kubernetes
