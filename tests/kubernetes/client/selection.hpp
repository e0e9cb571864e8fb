// Selectors of lists and watches, for the API servers in memory.
#pragma once

#include <algorithm>
#include <boost/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "kubernetes/client/api.hpp"

namespace osm::kubernetes_test {

namespace json = boost::json;

// "a=b,c": every part holds.
inline bool labelled(const json::object& object, std::string_view selector) {
  const json::object& labels = map_at(map_at(object, "metadata"), "labels");
  while (!selector.empty()) {
    const auto comma = std::min(selector.find(','), selector.size());
    const std::string_view part = selector.substr(0, comma);
    selector.remove_prefix(std::min(comma + 1, selector.size()));
    const auto equals = part.find('=');
    const auto* value = member(labels, part.substr(0, equals));
    if (value == nullptr) return false;
    if (equals != std::string_view::npos && *value != json::value(part.substr(equals + 1)))
      return false;
  }
  return true;
}

// Hands the items over as the request wants them.
inline kubernetes::ListPage handed_over(kubernetes::ListPage page,
                                        const kubernetes::ListRequest& request) {
  if (!request.on_item) return page;
  for (json::object& item : page.items) request.on_item(std::move(item));
  page.items.clear();
  return page;
}

// Namespace and selectors of a ListRequest or WatchRequest; its resource is the caller's.
template <class Request>
bool selected(const json::object& object, const Request& request) {
  const json::object& metadata = map_at(object, "metadata");
  if (!request.ns.empty() && text_at(metadata, "namespace") != request.ns) return false;
  if constexpr (std::is_same_v<Request, kubernetes::ListRequest>) {
    constexpr std::string_view kByName = "metadata.name=";
    if (request.field_selector.starts_with(kByName) &&
        text_at(metadata, "name") != request.field_selector.substr(kByName.size()))
      return false;
  }
  return labelled(object, request.label_selector);
}

inline json::object only_metadata(const json::object& object) {
  json::object out;
  for (const char* key : {"apiVersion", "kind", "metadata"})
    if (const auto* value = object.if_contains(key)) out[key] = *value;
  return out;
}

// A change as a watch tells it.
struct Told {
  kubernetes::WatchEventType type;
  json::object object;
};

// The event that a watch sees of a change, if any: an object that comes into its selection is
// added, one that leaves it is deleted. `before` is empty if there was no object.
inline std::vector<Told> told(const kubernetes::WatchRequest& request,
                              kubernetes::WatchEventType type, const json::object& before,
                              const json::object& object) {
  using kubernetes::WatchEventType;
  const bool then = !before.empty() && selected(before, request);
  const bool now = type != WatchEventType::kDeleted && selected(object, request);
  if (!then && !now) return {};
  const json::object sent = request.metadata_only ? only_metadata(object) : object;
  if (!now) return {{WatchEventType::kDeleted, sent}};
  return {{then ? WatchEventType::kModified : WatchEventType::kAdded, sent}};
}

inline json::object bookmark_at(std::uint64_t version) {
  return {{"metadata", {{"resourceVersion", std::to_string(version)}}}};
}

}  // namespace osm::kubernetes_test
