// Labels of the objects that the mesh writes, and of its namespaces.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>

#include "osm/object_store.hpp"
#include "osm/spec/object_mesh_spec.hpp"

namespace osm::inline v1::kubernetes {

inline constexpr const char* kNameLabel = "app.kubernetes.io/name";
inline constexpr const char* kNameLabelValue = "openservicemesh.io";
inline constexpr const char* kInstanceLabel = "app.kubernetes.io/instance";
inline constexpr const char* kVersionLabel = "app.kubernetes.io/version";
inline constexpr const char* kComponentLabel = "app.kubernetes.io/component";

inline boost::json::object name_label() { return {{kNameLabel, kNameLabelValue}}; }

// Labels of one component of a mesh.
inline boost::json::object component_labels(const std::string& mesh_name,
                                            const std::string& component) {
  return {{kNameLabel, kNameLabelValue}, {kInstanceLabel, mesh_name}, {kComponentLabel, component}};
}

// Selects the objects of one mesh, of one component if that is not empty.
inline std::string mesh_selector(const std::string& mesh_name, const std::string& component = {}) {
  std::string selector =
      std::string(kNameLabel) + '=' + kNameLabelValue + ',' + kInstanceLabel + '=' + mesh_name;
  if (!component.empty()) selector += std::string(",") + kComponentLabel + '=' + component;
  return selector;
}

// True for an object that OSM v1.2 wrote, whose names and other labels are ours: its versions begin
// with "v". Its own control plane keeps the object.
inline bool is_of_osm_v1(const Object& object) {
  const auto version = object.labels.find(kVersionLabel);
  return version != object.labels.end() && version->second.starts_with('v');
}

// True if the namespace belongs to the mesh. Precondition: `store` has the Namespaces.
inline bool is_monitored(const ObjectStore& store, const std::string& ns,
                         const std::string& mesh_name) {
  const auto object = store.get({kinds::kNamespace, "", ns});
  if (!object) return false;
  const auto label = object->labels.find(spec::kMonitoredByLabel);
  return label != object->labels.end() && label->second == mesh_name;
}

}  // namespace osm::inline v1::kubernetes
