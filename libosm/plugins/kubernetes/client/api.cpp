#include "kubernetes/client/api.hpp"

namespace osm::inline v1::kubernetes {

std::string Resource::api_version() const {
  return group.empty() ? std::string(version) : std::string(group) + '/' + std::string(version);
}

std::string Resource::path(std::string_view ns, std::string_view name,
                           std::string_view subresource) const {
  std::string path = (group.empty() ? "/api/" : "/apis/") + api_version();
  if (namespaced && !ns.empty()) path.append("/namespaces/").append(ns);
  path.append("/").append(plural);
  if (!name.empty()) path.append("/").append(name);
  if (!subresource.empty()) path.append("/").append(subresource);
  return path;
}

}  // namespace osm::inline v1::kubernetes
