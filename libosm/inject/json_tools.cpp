#include "inject/json_tools.hpp"

#include <string>

namespace osm::inline v1::inject {
namespace {

namespace json = boost::json;

// A member's name in a JSON pointer (RFC 6901).
std::string pointer_to(const std::string& parent, std::string_view member) {
  std::string path = parent + '/';
  for (const char c : member) {
    if (c == '~') {
      path += "~0";
    } else if (c == '/') {
      path += "~1";
    } else {
      path += c;
    }
  }
  return path;
}

class Differ {
 public:
  void objects(const json::object& from, const json::object& to, const std::string& path) {
    for (const auto& [key, value] : from)
      if (!to.contains(key)) patch_.push_back({{"op", "remove"}, {"path", pointer_to(path, key)}});
    for (const auto& [key, value] : to) {
      const std::string member = pointer_to(path, key);
      const json::value* before = from.if_contains(key);
      if (before == nullptr) {
        set("add", member, value);
      } else {
        values(*before, value, "add", member);
      }
    }
  }

  json::array take() { return std::move(patch_); }

 private:
  void set(const char* op, const std::string& path, const json::value& value) {
    patch_.push_back({{"op", op}, {"path", path}, {"value", value}});
  }

  void values(const json::value& from, const json::value& to, const char* op,
              const std::string& path) {
    if (from == to) return;
    if (from.is_object() && to.is_object()) {
      objects(from.get_object(), to.get_object(), path);
    } else if (from.is_array() && to.is_array() &&
               from.get_array().size() == to.get_array().size()) {
      for (std::size_t i = 0; i < to.get_array().size(); ++i)
        values(from.get_array()[i], to.get_array()[i], "replace", path + '/' + std::to_string(i));
    } else {
      set(op, path, to);
    }
  }

  json::array patch_;
};

json::value& member_at(json::object& object, std::string_view outer, std::string_view inner) {
  json::value& map = object[outer];
  return (map.is_null() ? map.emplace_object() : map.as_object())[inner];
}

}  // namespace

json::value* find(json::object& object, std::string_view outer, std::string_view inner) {
  json::value* map = object.if_contains(outer);
  return map && map->is_object() ? map->get_object().if_contains(inner) : nullptr;
}

json::object& map_at(json::object& object, std::string_view outer, std::string_view inner) {
  json::value& value = member_at(object, outer, inner);
  return value.is_null() ? value.emplace_object() : value.as_object();
}

json::array& list_at(json::object& object, std::string_view outer, std::string_view inner) {
  json::value& value = member_at(object, outer, inner);
  return value.is_null() ? value.emplace_array() : value.as_array();
}

json::array json_patch(const json::object& from, const json::object& to) {
  Differ differ;
  differ.objects(from, to, "");
  return differ.take();
}

}  // namespace osm::inline v1::inject
