#include "install/stored_versions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <set>
#include <string>

#include "base/json.hpp"
#include "kubernetes/client/resources.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

const json::array& versions_of(const json::object& crd) {
  return list_at(map_at(crd, "spec"), "versions");
}

std::string storage_version(const json::object& crd) {
  for (const json::value& version : versions_of(crd))
    if (const json::value* storage = member(version, "storage"); storage && *storage == true)
      return text_at(version, "name");
  return {};
}

// An unchanged object is written if it is stored in another version than the present one.
Status write_unchanged(Api& api, const Resource& resource) {
  OSM_TRY(const auto objects, list_all(api, {.resource = resource}));
  for (const json::object& object : objects) {
    const auto written = api.update(resource, object);
    // Whoever changed it meanwhile has had it stored.
    if (written.ok() || written.error().code == ErrorCode::kConflict ||
        written.error().code == ErrorCode::kNotFound)
      continue;
    return written.error();
  }
  return {};
}

}  // namespace

Status store_anew(Api& api, const json::object& live, const json::object& wanted) {
  std::set<std::string> known;
  for (const json::value& version : versions_of(wanted)) known.insert(text_at(version, "name"));
  const std::string storage = storage_version(live), name = metadata_of(live).name;
  json::array stored{json::value(storage)};
  bool stale = false;
  for (const json::value& version : list_at(map_at(live, "status"), "storedVersions")) {
    const std::string text = version.is_string() ? std::string(version.get_string()) : "";
    if (!known.contains(text)) {
      stale = true;
    } else if (text != storage) {
      stored.push_back(version);
    }
  }
  if (!stale) return {};
  if (!known.contains(storage))
    return Error{
        ErrorCode::kConflict,
        fmt::format("CustomResourceDefinition {}: objects are stored as {}, which its next "
                    "definition lacks: set `storage` of another version in spec.versions",
                    name, storage)};
  const json::object& spec = map_at(live, "spec");
  const json::object& names = map_at(spec, "names");
  const std::string group = text_at(spec, "group"), plural = text_at(names, "plural"),
                    kind = text_at(names, "kind");
  OSM_TRY(
      write_unchanged(api, {group, storage, plural, kind, text_at(spec, "scope") == "Namespaced"}));
  const json::object status{{"status", {{"storedVersions", stored}}}};
  OSM_TRY(api.patch(kCrds, {}, name, {.body = json::serialize(status), .subresource = "status"}));
  return {};
}

}  // namespace osm::inline v1::kubernetes
