#include "kubernetes/install/installed.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.hpp"
#include "kubernetes/upkeep/labels.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr std::string_view kEventsNamespace = "default";  // of the injector's Role for Events

}  // namespace

std::string display_name(const Resource& resource, const Metadata& metadata) {
  return fmt::format("{} {}{}{}", resource.kind, metadata.ns, metadata.ns.empty() ? "" : "/",
                     metadata.name);
}

bool is_applied(const json::value& manager, std::string_view by) {
  return text_at(manager, "manager") == by && text_at(manager, "operation") == "Apply";
}

bool is_installed(const json::object& object) {
  const json::array& managers = list_at(map_at(object, "metadata"), "managedFields");
  return std::any_of(managers.begin(), managers.end(),
                     [](const json::value& manager) { return is_applied(manager, kInstaller); });
}

Result<std::vector<json::object>> list_installed(Api& api, const Resource& resource,
                                                 const std::string& mesh_name,
                                                 const std::string& osm_namespace) {
  OSM_TRY(auto objects,
          list_all(api, {.resource = resource, .label_selector = mesh_selector(mesh_name)}));
  std::erase_if(objects, [&](const json::object& object) {
    const std::string ns = metadata_of(object).ns;
    const bool elsewhere = !ns.empty() && ns != osm_namespace && ns != kEventsNamespace;
    return elsewhere || !is_installed(object);
  });
  return objects;
}

}  // namespace osm::inline v1::kubernetes
