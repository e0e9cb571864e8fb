// Differences between the kinds of objects that an API server has, for the one in memory.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "kubernetes/client/api.hpp"
#include "osm/result.hpp"

namespace osm::kubernetes_test {

using kubernetes::Resource;

inline bool is_custom(const Resource& resource) {
  return resource.group.find(".k8s.io") == std::string_view::npos &&
         resource.group.find('.') != std::string_view::npos;
}
// Custom resources of the mesh have the status subresource; of the others none that is written
// here has a status.
inline bool has_status(const Resource& resource) { return is_custom(resource); }
inline bool has_generation(const Resource& resource) {
  return is_custom(resource) || resource.group == "admissionregistration.k8s.io" ||
         resource.group == "discovery.k8s.io" || resource.group == "apiextensions.k8s.io";
}
inline bool updates_unversioned(const Resource& resource) {
  return !is_custom(resource) && resource.group != "coordination.k8s.io" &&
         resource.group != "admissionregistration.k8s.io" &&
         resource.group != "apiextensions.k8s.io";
}
inline bool creates_on_update(const Resource& resource) {
  return resource.group == "coordination.k8s.io";
}
// RFC 1123 subdomain.
inline Status check_name(const std::string& name) {
  const auto inside = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const bool well = !name.empty() && name.size() <= 253 && inside(name.front()) &&
                    inside(name.back()) && std::all_of(name.begin(), name.end(), [&](char c) {
                      return inside(c) || c == '-' || c == '.';
                    });
  if (well) return {};
  return Error{ErrorCode::kInvalidField, "metadata.name: Invalid value: \"" + name + '"'};
}

}  // namespace osm::kubernetes_test
