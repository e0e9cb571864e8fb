// The mesh's own kinds, as the API server learns them: crds/*.yaml.
//
// Their schemas accept what the mesh's decoders accept, as far as a schema can say it; the rest is
// the validating webhook's. Members that a schema does not know are kept, not pruned: a mistyped
// field of a policy must be refused, and one that is dropped on the way cannot be.
#pragma once

#include <boost/json/object.hpp>
#include <string_view>
#include <vector>

namespace osm::inline v1::kubernetes {

// One YAML document each, ordered by file.
std::vector<std::string_view> crd_texts();

// The same as JSON.
std::vector<boost::json::object> crds();

// "1.2.3", of this library.
std::string_view product_version();

}  // namespace osm::inline v1::kubernetes
