#include "cluster/namespace_marks.hpp"

#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <utility>

#include "base/json.hpp"

namespace osm::cli {

namespace json = boost::json;
using kubernetes::Cluster;
using kubernetes::ObjectKind;

ObjectKind namespace_kind() { return {"", "v1", "namespaces", "Namespace"}; }
ObjectKind pod_kind() { return {"", "v1", "pods", "Pod"}; }

Result<Marks> marks_of(const std::string& text) {
  OSM_TRY(const json::object object, parse_json_object(text, "the API server's answer"));
  const json::object& metadata = map_at(object, "metadata");
  return Marks{text_at(metadata, "name"), map_at(metadata, "labels"),
               map_at(metadata, "annotations")};
}

Result<Marks> read_namespace(Cluster& cluster, const std::string& name) {
  const auto text = kubernetes::get_object(cluster, namespace_kind(), {}, name);
  if (!text.ok() && text.error().code == ErrorCode::kNotFound)
    return Error{ErrorCode::kNotFound, fmt::format("there is no namespace {}; `kubectl create "
                                                   "namespace {}` makes it",
                                                   name, name)};
  if (!text.ok()) return text.error();
  return marks_of(*text);
}

Status change_marks(Cluster& cluster, const ObjectKind& kind, const std::string& ns,
                    const std::string& name, json::object labels, json::object annotations) {
  const json::object patch{
      {"metadata", {{"labels", std::move(labels)}, {"annotations", std::move(annotations)}}}};
  OSM_TRY(kubernetes::patch_object(cluster, kind, ns, name, json::serialize(patch)));
  return {};
}

Result<std::vector<Marks>> pods_of(Cluster& cluster, const std::string& ns, const char* selector) {
  OSM_TRY(const auto texts,
          kubernetes::list_objects(cluster, pod_kind(), {ns, selector, /*metadata_only=*/true}));
  std::vector<Marks> pods;
  for (const std::string& text : texts) {
    OSM_TRY(Marks pod, marks_of(text));
    pods.push_back(std::move(pod));
  }
  return pods;
}

}  // namespace osm::cli
