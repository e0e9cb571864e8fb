#include "kubernetes/client/json_text.hpp"

#include <boost/json.hpp>
#include <utility>

namespace osm::inline v1::kubernetes {

namespace json = boost::json;

Result<json::object> parse_object(std::string_view text, std::string_view what) {
  json::parse_options options;
  options.max_depth = 256;
  boost::system::error_code fault;
  json::value value = json::parse(text, fault, {}, options);
  if (fault || !value.is_object())
    return Error{ErrorCode::kInvalidSyntax,
                 std::string(what) + ": the server's answer is not a JSON object"};
  return std::move(value.get_object());
}

std::string text_of(const json::object& map, std::string_view name) {
  const json::value* value = map.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

const json::object* map_of(const json::object& map, std::string_view name) {
  const json::value* value = map.if_contains(name);
  return value == nullptr ? nullptr : value->if_object();
}

json::object* map_of(json::object& map, std::string_view name) {
  json::value* value = map.if_contains(name);
  return value == nullptr ? nullptr : value->if_object();
}

}  // namespace osm::inline v1::kubernetes
