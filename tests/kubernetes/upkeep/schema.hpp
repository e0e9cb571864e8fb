// Checks an object against a CRD's structural schema as an API server does: the keywords that our
// CRDs use, and no others.
// https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
#pragma once

#include <re2/re2.h>

#include <boost/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace osm::kubernetes_test {

namespace json = boost::json;

class SchemaCheck {
 public:
  // The paths of everything that the schema refuses.
  static std::vector<std::string> refused(const json::value& schema, const json::value& object) {
    SchemaCheck check;
    check.value(schema.as_object(), object, "");
    return check.refused_;
  }

  // Faults of the schema itself that make an API server refuse the CRD.
  static std::vector<std::string> unsound(const json::value& schema) {
    SchemaCheck check;
    check.structure(schema.as_object(), "");
    return check.refused_;
  }

 private:
  static const json::value* get(const json::object& schema, std::string_view keyword) {
    return schema.if_contains(keyword);
  }

  void refuse(const std::string& path) { refused_.push_back(path); }

  void value(const json::object& schema, const json::value& value, const std::string& path) {
    if (get(schema, "x-kubernetes-int-or-string") != nullptr) {
      if (!value.is_int64() && !value.is_string()) return refuse(path);
    } else if (const auto* type = get(schema, "type");
               type && !has_type(type->as_string(), value)) {
      return refuse(path);
    }
    if (const auto* choices = get(schema, "enum")) {
      const auto& list = choices->as_array();
      if (std::find(list.begin(), list.end(), value) == list.end()) refuse(path);
    }
    if (value.is_string()) text(schema, value.as_string(), path);
    if (value.is_int64()) number(schema, value.as_int64(), path);
    if (value.is_array()) list(schema, value.as_array(), path);
    if (value.is_object()) map(schema, value.as_object(), path);
  }

  static bool has_type(std::string_view type, const json::value& value) {
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_bool();
    if (type == "integer") return value.is_int64();
    if (type == "array") return value.is_array();
    return type == "object" && value.is_object();
  }

  void text(const json::object& schema, const json::string& value, const std::string& path) {
    const std::string text(value.data(), value.size());
    if (const auto* most = get(schema, "maxLength"))
      if (static_cast<std::int64_t>(text.size()) > most->as_int64()) return refuse(path);
    if (const auto* least = get(schema, "minLength"))
      if (static_cast<std::int64_t>(text.size()) < least->as_int64()) return refuse(path);
    // Edits make bytes that are no UTF-8, which an API server never stores: Latin1 has them all.
    if (const auto* pattern = get(schema, "pattern"))
      if (!RE2::PartialMatch(text, RE2(std::string(pattern->as_string()), RE2::Latin1)))
        refuse(path);
  }

  void number(const json::object& schema, std::int64_t value, const std::string& path) {
    if (const auto* least = get(schema, "minimum"))
      if (value < least->as_int64()) return refuse(path);
    if (const auto* most = get(schema, "maximum"))
      if (value > most->as_int64()) refuse(path);
  }

  void list(const json::object& schema, const json::array& value, const std::string& path) {
    const auto size = static_cast<std::int64_t>(value.size());
    if (const auto* most = get(schema, "maxItems"))
      if (size > most->as_int64()) return refuse(path);
    if (const auto* least = get(schema, "minItems"))
      if (size < least->as_int64()) refuse(path);
    if (const auto* keys = get(schema, "x-kubernetes-list-map-keys")) {
      std::set<std::string> seen;
      for (const json::value& item : value) {
        const auto* key =
            item.is_object() ? item.as_object().if_contains(keys->at(0).as_string()) : nullptr;
        if (key != nullptr && !seen.insert(json::serialize(*key)).second) refuse(path);
      }
    }
    if (const auto* items = get(schema, "items"))
      for (std::size_t i = 0; i < value.size(); ++i)
        this->value(items->as_object(), value[i], path + '[' + std::to_string(i) + ']');
  }

  // Null members are dropped before anything is checked.
  void map(const json::object& schema, const json::object& value, const std::string& path) {
    const auto at = [&](std::string_view name) {
      return path.empty() ? std::string(name) : path + '.' + std::string(name);
    };
    if (const auto* required = get(schema, "required"))
      for (const json::value& name : required->as_array()) {
        const auto* member = value.if_contains(name.as_string());
        if (member == nullptr || member->is_null()) refuse(at(name.as_string()));
      }
    if (const auto* most = get(schema, "maxProperties"))
      if (static_cast<std::int64_t>(value.size()) > most->as_int64()) refuse(path);
    const auto* properties = get(schema, "properties");
    const auto* others = get(schema, "additionalProperties");
    for (const auto& [name, member] : value) {
      if (member.is_null()) continue;
      if (const auto* known = properties ? properties->as_object().if_contains(name) : nullptr) {
        this->value(known->as_object(), member, at(name));
      } else if (others != nullptr) {
        this->value(others->as_object(), member, at(name));
      }
    }
  }

  // Structural, and no keyword but those that are understood above.
  void structure(const json::object& schema, const std::string& path) {
    static const std::set<std::string, std::less<>> kKnown{"type",
                                                           "description",
                                                           "default",
                                                           "properties",
                                                           "required",
                                                           "items",
                                                           "enum",
                                                           "pattern",
                                                           "minimum",
                                                           "maximum",
                                                           "minLength",
                                                           "maxLength",
                                                           "minItems",
                                                           "maxItems",
                                                           "maxProperties",
                                                           "format",
                                                           "additionalProperties",
                                                           "x-kubernetes-preserve-unknown-fields",
                                                           "x-kubernetes-int-or-string",
                                                           "x-kubernetes-list-type",
                                                           "x-kubernetes-list-map-keys",
                                                           "x-kubernetes-validations"};
    for (const auto& [keyword, value] : schema)
      if (!kKnown.contains(keyword)) refuse(path + ": unknown keyword " + std::string(keyword));
    const bool any = get(schema, "x-kubernetes-int-or-string") != nullptr ||
                     get(schema, "x-kubernetes-preserve-unknown-fields") != nullptr;
    const auto* type = get(schema, "type");
    if (type == nullptr && !any) refuse(path + ": no type");
    if (const auto* pattern = get(schema, "pattern"))
      if (!RE2(std::string(pattern->as_string())).ok()) refuse(path + ": bad pattern");
    if (type && type->as_string() == "array" && !get(schema, "items")) refuse(path + ": no items");
    if (get(schema, "properties") && get(schema, "additionalProperties"))
      refuse(path + ": properties and additionalProperties exclude each other");
    check_keys(schema, path);
    if (const auto* properties = get(schema, "properties"))
      for (const auto& [name, child] : properties->as_object())
        structure(child.as_object(), path + '.' + std::string(name));
    for (const char* nested : {"items", "additionalProperties"})
      if (const auto* child = get(schema, nested)) structure(child->as_object(), path + "[]");
  }

  // A list's keys are scalar and required.
  void check_keys(const json::object& schema, const std::string& path) {
    const auto* keys = get(schema, "x-kubernetes-list-map-keys");
    if (keys == nullptr) return;
    const json::object& items = schema.at("items").as_object();
    for (const json::value& key : keys->as_array()) {
      const auto& required = items.at("required").as_array();
      const bool there = std::find(required.begin(), required.end(), key) != required.end();
      if (!there || !items.at("properties").as_object().contains(key.as_string()))
        refuse(path + ": a list's key must be a required member");
    }
  }

  std::vector<std::string> refused_;
};

}  // namespace osm::kubernetes_test
