// Lenient reading of JSON: a member that is absent, null or of another type reads as empty. For
// text that other code has validated, or whose fields a later version may change.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "osm/ids.hpp"
#include "osm/result.hpp"

namespace osm::inline v1 {

// A JSON object at most 256 levels deep (schemas in CRDs are deeper than Boost's own limit of 32).
// Failure: kInvalidSyntax, "<what> is not a JSON object", without a quotation of the text.
inline Result<boost::json::object> parse_json_object(std::string_view text, std::string_view what) {
  boost::json::parse_options options;
  options.max_depth = 256;
  boost::system::error_code fault;
  boost::json::value value = boost::json::parse(text, fault, {}, options);
  if (!fault && value.is_object()) return std::move(value.get_object());
  return Error{ErrorCode::kInvalidSyntax, std::string(what) + " is not a JSON object"};
}

// A whole number. Parsers make signed values, programs unsigned ones too.
inline std::optional<std::int64_t> whole_number(const boost::json::value& value) {
  if (const auto* number = value.if_int64()) return *number;
  const auto* number = value.if_uint64();
  if (number == nullptr || *number > INT64_MAX) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

// Each takes a json::object or a json::value. Lifetime: a reference or pointer lives as long as the
// argument.

// Null if there is no such member, or if it is null.
inline const boost::json::value* member(const boost::json::object& map, std::string_view name) {
  const auto* value = map.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}
inline const boost::json::value* member(const boost::json::value& map, std::string_view name) {
  const auto* fields = map.if_object();
  return fields == nullptr ? nullptr : member(*fields, name);
}

// An object or array; an empty one if there is none.
template <class Map>
const boost::json::object& map_at(const Map& map, std::string_view name) {
  static const boost::json::object kNone;
  const boost::json::value* value = member(map, name);
  const auto* found = value == nullptr ? nullptr : value->if_object();
  return found == nullptr ? kNone : *found;
}
template <class Map>
const boost::json::array& list_at(const Map& map, std::string_view name) {
  static const boost::json::array kNone;
  const boost::json::value* value = member(map, name);
  const auto* list = value == nullptr ? nullptr : value->if_array();
  return list == nullptr ? kNone : *list;
}

template <class Map>
std::string text_at(const Map& map, std::string_view name) {
  const boost::json::value* value = member(map, name);
  const auto* text = value == nullptr ? nullptr : value->if_string();
  return text == nullptr ? std::string() : std::string(text->data(), text->size());
}

template <class Map>
std::optional<bool> bool_at(const Map& map, std::string_view name) {
  const boost::json::value* value = member(map, name);
  const auto* truth = value == nullptr ? nullptr : value->if_bool();
  return truth == nullptr ? std::nullopt : std::optional(*truth);
}

// 0 if it is no whole number that fits.
template <class Map>
std::int64_t number_at(const Map& map, std::string_view name) {
  const boost::json::value* value = member(map, name);
  if (value == nullptr || !value->is_number()) return 0;
  boost::system::error_code fault;
  const auto number = value->to_number<std::int64_t>(fault);
  return fault ? 0 : number;
}

// Nullopt if it is no port number (1 to 65535).
template <class Map>
std::optional<Port> port_at(const Map& map, std::string_view name) {
  const std::int64_t number = number_at(map, name);
  if (number < 1 || number > 65535) return std::nullopt;
  return static_cast<Port>(number);
}

// An object's document with this metadata.resourceVersion; without one if `version` is empty.
inline boost::json::value with_version(boost::json::value document, std::string_view version) {
  auto* fields = document.if_object();
  auto* metadata = fields == nullptr ? nullptr : fields->if_contains("metadata");
  if (metadata == nullptr || !metadata->is_object()) return document;
  if (version.empty())
    metadata->get_object().erase("resourceVersion");
  else
    metadata->get_object()["resourceVersion"] = version;
  return document;
}

}  // namespace osm::inline v1
