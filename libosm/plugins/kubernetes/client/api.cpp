#include "kubernetes/client/api.hpp"

#include <boost/json.hpp>
#include <utility>

#include "base/json.hpp"
#include "base/secret_json.hpp"

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

Metadata metadata_of(const boost::json::object& object) {
  const boost::json::object& metadata = map_at(object, "metadata");
  return {text_at(metadata, "namespace"), text_at(metadata, "name"), text_at(metadata, "uid"),
          text_at(metadata, "resourceVersion")};
}

void erase_data(boost::json::object& secret) {
  if (boost::json::value* const data = secret.if_contains("data")) erase_texts(*data);
}

boost::json::object new_object(const Resource& resource, const std::string& ns,
                               const std::string& name, boost::json::object labels) {
  return {{"apiVersion", resource.api_version()},
          {"kind", resource.kind},
          {"metadata", {{"namespace", ns}, {"name", name}, {"labels", std::move(labels)}}}};
}

}  // namespace osm::inline v1::kubernetes
