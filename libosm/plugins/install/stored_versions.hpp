// Versions in which the API server stores objects of a CRD.
#pragma once

#include <boost/json/object.hpp>

#include "kubernetes/client/api.hpp"

namespace osm::inline v1::kubernetes {

// Has the server store objects of `live`, a CRD, anew if they may be stored in a version that
// `wanted`, its next definition, lacks: the server refuses `wanted` otherwise. Failure: kConflict:
// the version in which the server stores them is not in `wanted`; as Api. Blocking: as Api.
Status store_anew(Api& api, const boost::json::object& live, const boost::json::object& wanted);

}  // namespace osm::inline v1::kubernetes
