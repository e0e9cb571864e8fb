#include "install/values.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <re2/re2.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "base/numbers.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

// The name of `osm` in the high-availability design of OSM.
constexpr std::string_view kDesignName = "OpenServiceMesh";
constexpr std::size_t kMaxText = 4096;   // bytes of a value that a pattern is tried on
constexpr std::size_t kMaxIndex = 1000;  // of a list in an assignment

json::value typed(std::string text) {
  if (text == "true" || text == "false") return text == "true";
  if (const auto number = number_of<std::int64_t>(text)) return *number;
  return json::value(std::move(text));
}

// Reads assignments from left to right.
class Assignments {
 public:
  explicit Assignments(std::string_view text) : rest_(text), all_(text) {}

  Status apply(json::object& values) {
    while (!rest_.empty()) {
      json::value* target = nullptr;
      std::string path;
      if (Status found = find(values, path, target); !found.ok()) return found;
      *target = value();
    }
    return {};
  }

 private:
  Error wrong(std::string_view why) const {
    return {ErrorCode::kInvalidArgument,
            fmt::format("'{}': {}; write osm.injector.replicaCount=3", all_, why)};
  }

  // Up to one of `ends`, which is not consumed.
  std::string until(std::string_view ends) {
    std::string text;
    while (!rest_.empty() && ends.find(rest_.front()) == ends.npos) {
      if (rest_.starts_with('\\') && rest_.size() > 1) rest_.remove_prefix(1);
      text += rest_.front();
      rest_.remove_prefix(1);
    }
    return text;
  }

  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  // The place that the path before '=' names; made if it is not there.
  Status find(json::object& values, std::string& path, json::value*& target) {
    json::object* map = &values;
    while (true) {
      path = until(".=[,");
      if (path.empty()) return wrong("a name is missing");
      if (map == &values && path == kDesignName) path = "osm";
      target = &(*map)[path];
      while (take('[')) {
        const auto index = number_of<std::size_t>(until("]"));
        if (!take(']') || !index || *index > kMaxIndex) return wrong("an index is wrong");
        if (!target->is_array()) *target = json::array();
        json::array& list = target->as_array();
        if (*index > list.size()) return wrong("an index skips items of its list");
        if (*index == list.size()) list.emplace_back(nullptr);
        target = &list[*index];
      }
      if (take('=')) return {};
      if (!take('.')) return wrong("'=' is missing");
      if (!target->is_object()) *target = json::object();
      map = &target->as_object();
    }
  }

  json::value value() {
    if (!take('{')) {
      json::value found = typed(until(","));
      take(',');
      return found;
    }
    json::array list;
    while (!rest_.empty() && !rest_.starts_with('}')) {
      list.push_back(typed(until(",}")));
      take(',');
    }
    take('}');
    take(',');
    return list;
  }

  std::string_view rest_;
  const std::string_view all_;
};

std::string shown(const json::value& value) { return json::serialize(value); }

bool has_type(const json::value& value, std::string_view type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_bool();
  return type == "integer" && whole_number(value).has_value();
}

std::string_view noun_of(std::string_view type) {
  if (type == "object") return "a map";
  if (type == "array") return "a list";
  if (type == "string") return "a text";
  return type == "boolean" ? "true or false" : "a whole number";
}

// Compares values with a schema, and keeps the first fault.
class Check {
 public:
  void compare(const std::string& path, const json::value& value, const json::object& schema) {
    if (!type_fits(path, value, schema)) return;
    if (const auto* text = value.if_string()) {
      compare_text(path, std::string(*text), schema);
    } else if (const auto number = whole_number(value)) {
      compare_number(path, *number, schema);
    } else if (const auto* list = value.if_array()) {
      for (std::size_t i = 0; i < list->size(); ++i)
        compare(fmt::format("{}[{}]", path, i), (*list)[i], map_at(schema, "items"));
    } else if (const auto* map = value.if_object()) {
      compare_map(path, *map, schema);
    }
  }

  Status result() const {
    if (faults_ == 0) return {};
    return Error{ErrorCode::kInvalidField,
                 first_ + (faults_ > 1 ? fmt::format(" ({} more values are wrong)", faults_ - 1)
                                       : std::string())};
  }

 private:
  void add(const std::string& path, std::string_view why) {
    if (faults_++ == 0)
      first_ = fmt::format("value {}: {}", path.empty() ? "at the top" : path, why);
  }

  bool type_fits(const std::string& path, const json::value& value, const json::object& schema) {
    const json::value* type = member(schema, "type");
    if (type == nullptr) return true;
    std::vector<std::string_view> allowed;
    if (const auto* one = type->if_string()) allowed.push_back(*one);
    for (const json::value& each : list_at(schema, "type")) allowed.push_back(each.as_string());
    if (std::any_of(allowed.begin(), allowed.end(),
                    [&](std::string_view each) { return has_type(value, each); }))
      return true;
    std::vector<std::string_view> nouns;
    for (const std::string_view each : allowed) nouns.push_back(noun_of(each));
    add(path, fmt::format("{} is not {}", shown(value), fmt::join(nouns, " or ")));
    return false;
  }

  void compare_text(const std::string& path, const std::string& text, const json::object& schema) {
    const json::array& choices = list_at(schema, "enum");
    if (!choices.empty() &&
        std::find(choices.begin(), choices.end(), json::value(text)) == choices.end()) {
      std::vector<std::string> names;
      for (const json::value& choice : choices) names.emplace_back(choice.as_string());
      add(path, fmt::format("'{}' is none of {}", text, fmt::join(names, ", ")));
    }
    const std::string pattern = text_at(schema, "pattern");
    if (pattern.empty()) return;
    if (text.size() > kMaxText || !RE2::PartialMatch(text, RE2(pattern)))
      add(path, fmt::format("'{}' does not match {}", text.substr(0, 100), pattern));
  }

  void compare_number(const std::string& path, std::int64_t number, const json::object& schema) {
    const json::value *least = member(schema, "minimum"), *most = member(schema, "maximum");
    if ((least != nullptr && number < *whole_number(*least)) ||
        (most != nullptr && number > *whole_number(*most)))
      add(path, fmt::format("{} is not from {} to {}", number, shown(*least), shown(*most)));
  }

  void compare_map(const std::string& path, const json::object& map, const json::object& schema) {
    const json::object& known = map_at(schema, "properties");
    const json::value* others = member(schema, "additionalProperties");
    for (const auto& field : map) {
      const std::string name(field.key());
      const std::string inner = path.empty() ? name : path + '.' + name;
      if (const json::value* own = member(known, name)) {
        compare(inner, field.value(), own->as_object());
      } else if (others != nullptr && others->is_object()) {
        compare(inner, field.value(), others->as_object());
      } else if (others != nullptr) {
        std::vector<std::string> names;
        for (const auto& each : known) names.emplace_back(each.key());
        add(inner, fmt::format("there is no such value; {} has {}",
                               path.empty() ? "the chart" : path, fmt::join(names, ", ")));
      }
    }
  }

  std::string first_;
  std::size_t faults_ = 0;
};

}  // namespace

void merge_values(json::object& values, const json::object& changes) {
  for (const auto& change : changes) {
    json::value& present = values[change.key()];
    if (present.is_object() && change.value().is_object())
      merge_values(present.as_object(), change.value().as_object());
    else
      present = change.value();
  }
}

Status set_values(json::object& values, std::string_view assignments) {
  return Assignments(assignments).apply(values);
}

Status rename_design_values(json::object& values) {
  const auto found = values.find(kDesignName);
  if (found == values.end()) return {};
  if (values.contains("osm"))
    return Error{ErrorCode::kInvalidArgument,
                 "OpenServiceMesh and osm are two names of the same values: use osm only"};
  json::value inner = std::move(found->value());
  values.erase(found);
  values["osm"] = std::move(inner);
  return {};
}

Status check_values(const json::object& values, const json::object& schema) {
  Check check;
  check.compare("", values, schema);
  return check.result();
}

}  // namespace osm::inline v1::kubernetes
