// The preset MeshConfig: what an installation brings, in a ConfigMap, becomes the MeshConfig where
// there is none, and keeps up with it where there is one.
//
// Three ways are merged: the preset of last time (kept in an annotation), the preset now, and what
// is there. A field that is as the last preset said follows the preset; one that is new in the
// preset is added; one that somebody changed or took away stays as they left it. A MeshConfig
// without the annotation is somebody's own: the preset is only noted, since a field added to it
// could open what its owner left closed.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>

#include "kubernetes/client/api.hpp"

namespace osm::inline v1::kubernetes {

inline constexpr const char* kPresetConfigMap = "preset-mesh-config";
inline constexpr const char* kPresetKey = "preset-mesh-config.json";
inline constexpr const char* kPresetAnnotation = "openservicemesh.io/preset";

// What of `preset` is to be set, given what it was and what is there. Lists are values.
boost::json::object merge_preset(const boost::json::object& last, const boost::json::object& preset,
                                 const boost::json::object& live);

// Result: whether something was written. No ConfigMap: nothing to do.
// Failure: kInvalidField (the ConfigMap, naming it), the API's. Blocking: for some calls of it.
Result<bool> upgrade_preset(Api& api, const std::string& osm_namespace);

}  // namespace osm::inline v1::kubernetes
