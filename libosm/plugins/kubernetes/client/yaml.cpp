#include "kubernetes/client/yaml.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>

#include "base/numbers.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

json::value scalar_of(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return json::value(text);
  if (text == "true" || text == "false") return text == "true";
  if (const auto number = number_of<std::int64_t>(text)) return *number;
  const bool digits = text.find_first_not_of("+-.0123456789eE") == text.npos;
  const auto number = digits ? number_of<double>(text) : std::nullopt;
  return number ? json::value(*number) : json::value(text);
}

json::value value_of(const YAML::Node& node) {
  if (node.IsMap()) {
    json::object map;
    for (const auto& member : node) map[member.first.Scalar()] = value_of(member.second);
    return map;
  }
  if (node.IsSequence()) {
    json::array list;
    for (const YAML::Node& item : node) list.push_back(value_of(item));
    return list;
  }
  return node.IsScalar() ? scalar_of(node) : json::value();
}

}  // namespace

Result<json::value> read_yaml(std::string_view text) {
  try {
    return value_of(YAML::Load(std::string(text)));
  } catch (const YAML::Exception& fault) {
    return Error{ErrorCode::kInvalidSyntax,
                 fmt::format("line {}: {}", fault.mark.line + 1, fault.msg)};
  }
}

}  // namespace osm::inline v1::kubernetes
