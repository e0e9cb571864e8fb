#include "kubernetes/upkeep/preset.hpp"

#include <boost/json.hpp>
#include <utility>

#include "base/json.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/upkeep/labels.hpp"
#include "kubernetes/upkeep/record_names.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr const char* kPresetManager = "osm-preset";
constexpr std::size_t kMaxPresetBytes = 64 * 1024;  // annotations end at 256 kB

Result<json::object> parse_preset(const std::string& text) {
  const std::string what = std::string("ConfigMap ") + kPresetConfigMap + ": " + kPresetKey;
  if (text.size() > kMaxPresetBytes)
    return Error{ErrorCode::kTooLarge, what + ": larger than 64 kB"};
  auto preset = parse_json_object(text, what);
  if (!preset.ok())
    return Error{ErrorCode::kInvalidField, what + ": must be the JSON of a MeshConfig's spec"};
  return preset;
}

// True if the mesh has had a MeshConfig: the last one stays in force until somebody creates
// another.
Result<bool> keeps_config(Api& api, const std::string& osm_namespace) {
  const auto kept = api.get(kConfigMaps, osm_namespace, kLastConfigName);
  if (kept.ok()) return !text_at(map_at(*kept, "data"), kRecordKey).empty();
  if (kept.error().code == ErrorCode::kNotFound) return false;
  return kept.error();
}

}  // namespace

json::object merge_preset(const json::object& last, const json::object& preset,
                          const json::object& live) {
  json::object out;
  for (const auto& [key, value] : preset) {
    const auto* was = last.if_contains(key);
    const auto* is = live.if_contains(key);
    const bool maps = value.is_object() && (is == nullptr || is->is_object()) &&
                      (was == nullptr || was->is_object());
    if (maps) {
      // A section that a user removed stays removed, except for new fields in it.
      json::object section = merge_preset(map_at(last, key), value.as_object(), map_at(live, key));
      if (!section.empty()) out[key] = std::move(section);
      continue;
    }
    const bool ours = is == nullptr ? was == nullptr : was != nullptr && *was == *is;
    if (ours) out[key] = value;
  }
  return out;
}

Result<bool> upgrade_preset(Api& api, const std::string& osm_namespace) {
  const auto config_map = api.get(kConfigMaps, osm_namespace, kPresetConfigMap);
  if (!config_map.ok()) {
    if (config_map.error().code == ErrorCode::kNotFound) return false;
    return config_map.error();
  }
  const std::string text = text_at(map_at(*config_map, "data"), kPresetKey);
  OSM_TRY(const json::object preset, parse_preset(text));
  const std::string noted = json::serialize(preset);

  const auto live = api.get(kMeshConfigs, osm_namespace, kMeshConfigName);
  const bool absent = !live.ok() && live.error().code == ErrorCode::kNotFound;
  if (!live.ok() && !absent) return live.error();
  if (absent) {
    OSM_TRY(const bool kept, keeps_config(api, osm_namespace));
    if (kept) return false;
  }
  json::object body = new_object(kMeshConfigs, osm_namespace, kMeshConfigName, name_label());
  json::object& metadata = body["metadata"].as_object();
  metadata["annotations"] = json::object{{kPresetAnnotation, noted}};
  json::object spec = preset;
  if (!absent) {
    const json::object& there = map_at(*live, "metadata");
    const std::string before = text_at(map_at(there, "annotations"), kPresetAnnotation);
    if (before == noted) return false;
    metadata["resourceVersion"] = text_at(there, "resourceVersion");
    const auto last = parse_json_object(before, "the annotation");
    spec = last.ok() ? merge_preset(*last, preset, map_at(*live, "spec")) : json::object();
  }
  if (!spec.empty()) body["spec"] = std::move(spec);
  const auto written = api.patch(kMeshConfigs, osm_namespace, kMeshConfigName,
                                 {.type = PatchType::kApply,
                                  .body = json::serialize(body),
                                  .field_manager = kPresetManager,
                                  // Created by another user meanwhile: theirs is kept.
                                  .force = !absent});
  if (!written.ok()) return written.error();
  return true;
}

}  // namespace osm::inline v1::kubernetes
