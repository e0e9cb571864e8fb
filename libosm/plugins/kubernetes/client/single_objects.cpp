#include <boost/json.hpp>

#include "base/json.hpp"
#include "base/times.hpp"
#include "kubernetes/client/api.hpp"
#include "osm/kubernetes/objects.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

// Lives as long as `kind`.
Resource resource_of(const ObjectKind& kind) {
  return {kind.group, kind.version, kind.plural, kind.kind, true};
}

Result<std::string> text_of(Result<json::object> object) {
  if (!object.ok()) return object.error();
  return json::serialize(*object);
}

}  // namespace

Result<std::string> create_object(Cluster& cluster, const ObjectKind& kind,
                                  const std::string& json) {
  OSM_TRY(const json::object object, parse_json_object(json, "a " + kind.kind + " to create"));
  return text_of(cluster.api().create(resource_of(kind), object));
}

Result<std::string> get_object(Cluster& cluster, const ObjectKind& kind, const std::string& ns,
                               const std::string& name) {
  return text_of(cluster.api().get(resource_of(kind), ns, name));
}

Status delete_object(Cluster& cluster, const ObjectKind& kind, const std::string& ns,
                     const std::string& name) {
  return cluster.api().remove(resource_of(kind), ns, name);
}

Result<std::vector<std::string>> list_older_objects(Cluster& cluster, const ObjectKind& kind,
                                                    const std::string& ns,
                                                    const std::string& label_selector,
                                                    WallTime made_before) {
  // Times of one form compare as texts do.
  const std::string limit = rfc3339(made_before);
  OSM_TRY(const auto objects, list_all(cluster.api(), {.resource = resource_of(kind),
                                                       .ns = ns,
                                                       .label_selector = label_selector,
                                                       .metadata_only = true}));
  std::vector<std::string> names;
  for (const json::object& object : objects) {
    const json::object& metadata = map_at(object, "metadata");
    const std::string created = text_at(metadata, "creationTimestamp");
    if (!created.empty() && created < limit) names.push_back(text_at(metadata, "name"));
  }
  return names;
}

}  // namespace osm::inline v1::kubernetes
