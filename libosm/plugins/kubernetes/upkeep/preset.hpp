// The preset MeshConfig: an installation brings it in a ConfigMap. It becomes the MeshConfig if
// there never was one, and updates an existing one. A MeshConfig that was deleted stays in
// force, so no preset replaces it.
//
// Three versions are merged: the previous preset (in an annotation), the present preset, and the
// present MeshConfig. A field with the previous preset's value follows the preset. A field that is
// new in the preset is added. A field that a user changed or removed stays so. A MeshConfig without
// the annotation belongs to its user: the preset is only recorded, since an added field could open
// something that its owner left closed.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>

#include "kubernetes/client/api.hpp"

namespace osm::inline v1::kubernetes {

inline constexpr const char* kMeshConfigName = "osm-mesh-config";
inline constexpr const char* kPresetConfigMap = "preset-mesh-config";
inline constexpr const char* kPresetKey = "preset-mesh-config.json";
inline constexpr const char* kPresetAnnotation = "openservicemesh.io/preset";

// The fields of `preset` to set, given the previous preset and the present object. Lists are single
// values.
boost::json::object merge_preset(const boost::json::object& last, const boost::json::object& preset,
                                 const boost::json::object& live);

// Result: true if it wrote something. Without a ConfigMap it does nothing.
// Failure: kInvalidField (naming the ConfigMap), the API's. Blocking: for several API calls.
Result<bool> upgrade_preset(Api& api, const std::string& osm_namespace);

}  // namespace osm::inline v1::kubernetes
