// Reading the JSON of built-in objects, which an API server has validated: what is absent, null or
// of another type reads as empty, so that a field that a later version adds or changes costs
// nothing.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "osm/ids.hpp"

namespace osm::inline v1::kubernetes {

// Null when there is none. All of these take a json::object or a json::value, and return what
// lives as long as that.
inline const boost::json::value* member(const boost::json::object& map, std::string_view name) {
  const auto* value = map.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}
inline const boost::json::value* member(const boost::json::value& map, std::string_view name) {
  const auto* fields = map.if_object();
  return fields == nullptr ? nullptr : member(*fields, name);
}

// A map or list of `map`, an empty one when there is none.
template <class Map>
const boost::json::value& map_at(const Map& map, std::string_view name) {
  static const boost::json::value kNone = boost::json::object();
  const auto* value = member(map, name);
  return value == nullptr || !value->is_object() ? kNone : *value;
}
template <class Map>
const boost::json::array& list_at(const Map& map, std::string_view name) {
  static const boost::json::array kNone;
  const auto* value = member(map, name);
  const auto* list = value == nullptr ? nullptr : value->if_array();
  return list == nullptr ? kNone : *list;
}

template <class Map>
std::string text_at(const Map& map, std::string_view name) {
  const auto* value = member(map, name);
  const auto* text = value == nullptr ? nullptr : value->if_string();
  return text == nullptr ? std::string() : std::string(text->data(), text->size());
}

template <class Map>
std::optional<bool> bool_at(const Map& map, std::string_view name) {
  const auto* value = member(map, name);
  const auto* truth = value == nullptr ? nullptr : value->if_bool();
  return truth == nullptr ? std::nullopt : std::optional(*truth);
}

// 0 for what is no whole number.
template <class Map>
std::int64_t number_at(const Map& map, std::string_view name) {
  const auto* value = member(map, name);
  const auto* number = value == nullptr ? nullptr : value->if_int64();
  return number == nullptr ? 0 : *number;
}

// Nullopt for what is no TCP port number.
template <class Map>
std::optional<Port> port_at(const Map& map, std::string_view name) {
  const auto* value = member(map, name);
  const auto* number = value == nullptr ? nullptr : value->if_int64();
  if (number == nullptr || *number < 1 || *number > 65535) return std::nullopt;
  return static_cast<Port>(*number);
}

// Whether a port of a container, slice or subset carries TCP, as is preset.
inline bool is_tcp(const boost::json::value& port) {
  const std::string protocol = text_at(port, "protocol");
  return protocol.empty() || protocol == "TCP";
}

}  // namespace osm::inline v1::kubernetes
