// RFC 6902 as an API server applies it: strictly. What a test judges patches by.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace osm::inject_test {

namespace json = boost::json;

inline std::vector<std::string> pointer_tokens(std::string_view pointer) {
  std::vector<std::string> tokens;
  while (!pointer.empty()) {
    if (pointer.front() != '/') throw std::runtime_error("no JSON pointer");
    pointer.remove_prefix(1);
    std::string token;
    while (!pointer.empty() && pointer.front() != '/') {
      char c = pointer.front();
      pointer.remove_prefix(1);
      if (c == '~') {
        if (pointer.empty() || (pointer.front() != '0' && pointer.front() != '1'))
          throw std::runtime_error("a bare ~");
        c = pointer.front() == '0' ? '~' : '/';
        pointer.remove_prefix(1);
      }
      token += c;
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

inline json::value* child_of(json::value& parent, const std::string& token) {
  if (auto* map = parent.if_object()) return map->if_contains(token);
  auto* list = parent.if_array();
  if (list == nullptr) return nullptr;
  const std::size_t index = std::stoul(token);
  return index < list->size() ? &(*list)[index] : nullptr;
}

// Throws what an API server would refuse the patch for.
inline json::object apply_patch(json::object object, const json::array& patch) {
  json::value root = std::move(object);
  for (const json::value& operation : patch) {
    const std::string op(operation.at("op").as_string());
    std::vector<std::string> tokens =
        pointer_tokens(std::string_view(operation.at("path").as_string()));
    if (tokens.empty()) throw std::runtime_error("the whole document is patched");
    const std::string last = std::move(tokens.back());
    tokens.pop_back();
    json::value* parent = &root;
    for (const std::string& token : tokens) {
      parent = child_of(*parent, token);
      if (parent == nullptr) throw std::runtime_error("no such parent: " + token);
    }
    if (op == "add" && parent->is_object()) {
      parent->as_object()[last] = operation.at("value");
    } else if (op == "replace" && child_of(*parent, last) != nullptr) {
      *child_of(*parent, last) = operation.at("value");
    } else if (op == "remove" && parent->is_object() && parent->as_object().erase(last) == 1) {
    } else {
      throw std::runtime_error("cannot " + op + ' ' + last);
    }
  }
  return std::move(root.as_object());
}

}  // namespace osm::inject_test
