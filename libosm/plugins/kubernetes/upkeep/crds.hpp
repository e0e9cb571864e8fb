// CustomResourceDefinitions of the mesh's kinds: crds/*.yaml.
//
// Their schemas accept what the mesh's decoders accept, as far as a schema can express it; the
// validating webhook checks the rest. The API server keeps unknown members: a mistyped field of a
// policy must be refused, and a pruned field could not be.
#pragma once

#include <boost/json/object.hpp>
#include <string_view>
#include <vector>

#include "osm/detail/api.hpp"

namespace osm::inline v1::kubernetes {

// One YAML document each, ordered by file.
OSM_API std::vector<std::string_view> crd_texts();

// The same as JSON.
OSM_API std::vector<boost::json::object> crds();

// "1.2.3", of this library.
OSM_API std::string_view product_version();

// True if the object's label app.kubernetes.io/version is that of a newer library.
OSM_API bool is_newer(const boost::json::object& object);

}  // namespace osm::inline v1::kubernetes
