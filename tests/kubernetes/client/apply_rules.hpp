// Merge patches and server-side apply on JSON objects, for the API server in memory: fields are
// told apart by paths such as ".status.conditions[Accepted].reason".
#pragma once

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <string>
#include <string_view>

#include "base/json.hpp"

namespace osm::kubernetes_test {

namespace json = boost::json;

// RFC 7386.
inline void merge(json::object& target, const json::object& patch) {
  for (const auto& [key, value] : patch) {
    if (value.is_null()) {
      target.erase(key);
    } else if (value.is_object()) {
      if (!target.contains(key) || !target[key].is_object()) target[key] = json::object();
      merge(target[key].as_object(), value.as_object());
    } else {
      target[key] = value;
    }
  }
}

// The member by which elements of a list are told apart; empty: the list is one value.
inline std::string list_key(std::string_view path) {
  if (path.ends_with(".conditions")) return "type";
  if (path.ends_with(".webhooks")) return "name";
  if (path.ends_with(".ownerReferences")) return "uid";
  return {};
}

inline void leaves(const json::value& value, const std::string& path,
                   std::map<std::string, json::value>& out) {
  if (const auto* map = value.if_object(); map != nullptr && !map->empty()) {
    for (const auto& [key, item] : *map) leaves(item, path + '.' + std::string(key), out);
    return;
  }
  const std::string key = list_key(path);
  const auto* list = value.if_array();
  if (list == nullptr || key.empty()) {
    out[path] = value;
    return;
  }
  for (const json::value& item : *list) leaves(item, path + '[' + text_at(item, key) + ']', out);
}
// Fields that managers own: neither identity nor what the server writes.
inline std::map<std::string, json::value> owned_leaves(const json::object& object,
                                                       const std::string& subresource) {
  std::map<std::string, json::value> all;
  for (const auto& [key, value] : object) {
    if (key == "apiVersion" || key == "kind") continue;
    if (subresource.empty() != (key != "status")) continue;
    leaves(value, '.' + std::string(key), all);
  }
  for (const char* field : {"name", "namespace", "uid", "resourceVersion", "generation",
                            "creationTimestamp", "managedFields"})
    all.erase(std::string(".metadata.") + field);
  return all;
}

// Lays `from` over `to`, as apply does.
inline void lay_over(json::value& to, const json::value& from, const std::string& path) {
  if (const auto* map = from.if_object()) {
    if (!to.is_object() || map->empty()) to = json::object();
    for (const auto& [key, value] : *map)
      lay_over(to.as_object()[key], value, path + '.' + std::string(key));
    return;
  }
  const std::string key = list_key(path);
  if (!from.is_array() || key.empty()) {
    to = from;
    return;
  }
  if (!to.is_array()) to = json::array();
  for (const json::value& item : from.as_array()) {
    json::array& list = to.as_array();
    const auto same = std::find_if(list.begin(), list.end(), [&](const json::value& one) {
      return text_at(one, key) == text_at(item, key);
    });
    json::value& place = same == list.end() ? list.emplace_back(json::object()) : *same;
    lay_over(place, item, path + "[]");
  }
}

// Empty maps do not count.
inline bool only_has(const json::value& value, std::string_view key) {
  const auto* map = value.if_object();
  return map != nullptr && std::all_of(map->begin(), map->end(), [&](const auto& member) {
           return member.key() == key || only_has(member.value(), "");
         });
}

inline void take_element(json::array& list, const std::string& key, std::string_view path);

// Keys of maps without dots, and elements by their key: enough for what these tests take back.
inline void take_away(json::value& from, std::string_view path) {
  if (!from.is_object()) return;
  path.remove_prefix(1);
  json::object& map = from.as_object();
  const auto end = std::min(path.find_first_of(".["), path.size());
  const std::string_view key = path.substr(0, end);
  const std::string_view rest = path.substr(end);
  auto* child = map.if_contains(key);
  if (rest.empty()) {
    map.erase(key);
  } else if (child != nullptr && rest.front() == '.') {
    take_away(*child, rest);
  } else if (child != nullptr && child->is_array()) {
    take_element(child->as_array(), list_key('.' + std::string(key)), rest);
  }
}

// An element goes with the member that names it, once nobody owns another member.
inline void take_element(json::array& list, const std::string& key, std::string_view path) {
  const auto close = path.find(']');
  const auto at = std::find_if(list.begin(), list.end(), [&](const json::value& one) {
    return text_at(one, key) == path.substr(1, close - 1);
  });
  if (at == list.end()) return;
  const std::string_view rest = path.substr(close + 1);
  if (rest.substr(1) != key)
    take_away(*at, rest);
  else if (only_has(*at, key))
    list.erase(at);
}
inline bool names_element(std::string_view path) {
  const auto at = path.rfind("].");
  const auto open = path.rfind('[', at);
  return at != std::string_view::npos && path.substr(at + 2) == list_key(path.substr(0, open));
}

}  // namespace osm::kubernetes_test
