#include <boost/json.hpp>

#include "base/json.hpp"
#include "base/times.hpp"
#include "kubernetes/client/api.hpp"
#include "kubernetes/client/api_status.hpp"
#include "kubernetes/client/resources.hpp"
#include "osm/kubernetes/objects.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

// Lives as long as `kind`.
Resource resource_named(const ObjectKind& kind) {
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
  return text_of(cluster.api().create(resource_named(kind), object));
}

Result<std::string> get_object(Cluster& cluster, const ObjectKind& kind, const std::string& ns,
                               const std::string& name) {
  return text_of(cluster.api().get(resource_named(kind), ns, name));
}

Result<std::string> patch_object(Cluster& cluster, const ObjectKind& kind, const std::string& ns,
                                 const std::string& name, const std::string& change) {
  OSM_TRY(parse_json_object(change, "a change of " + kind.kind + ' ' + name));
  return text_of(cluster.api().patch(resource_named(kind), ns, name,
                                     {PatchType::kMerge, change, {}, {}, false}));
}

Status delete_object(Cluster& cluster, const ObjectKind& kind, const std::string& ns,
                     const std::string& name) {
  return cluster.api().remove(resource_named(kind), ns, name);
}

Result<std::vector<std::string>> list_objects(Cluster& cluster, const ObjectKind& kind,
                                              const ObjectQuery& query) {
  OSM_TRY(const auto objects, list_all(cluster.api(), {.resource = resource_named(kind),
                                                       .ns = query.ns,
                                                       .label_selector = query.label_selector,
                                                       .metadata_only = query.metadata_only}));
  std::vector<std::string> texts;
  for (const json::object& object : objects) texts.push_back(json::serialize(object));
  return texts;
}

Result<std::vector<std::string>> list_older_objects(Cluster& cluster, const ObjectKind& kind,
                                                    const std::string& ns,
                                                    const std::string& label_selector,
                                                    WallTime made_before) {
  // Times of one form compare as texts do.
  const std::string limit = rfc3339(made_before);
  OSM_TRY(const auto objects, list_all(cluster.api(), {.resource = resource_named(kind),
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

// The API server can cut a log at its beginning by lines only, so it is asked for as many lines as
// fit if they are long.
Result<std::string> read_log(Cluster& cluster, const std::string& ns, const std::string& pod,
                             std::size_t max_bytes) {
  constexpr std::size_t kLongLine = 400;
  ForwardRequest request;
  request.target =
      kPods.path(ns, pod, "log") + "?tailLines=" + std::to_string(max_bytes / kLongLine);
  OSM_TRY(net::Response response, cluster.api().forward(request));
  if (response.status >= 300)
    return error_of_response(response, "read the log of " + ns + '/' + pod);
  if (response.body.size() > max_bytes) response.body.erase(0, response.body.size() - max_bytes);
  return std::move(response.body);
}

}  // namespace osm::inline v1::kubernetes
