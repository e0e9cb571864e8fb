#include "kubernetes/upkeep/crds.hpp"

#include <yaml-cpp/yaml.h>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <string>

#include "base/check.hpp"
#include "base/numbers.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

// A plain scalar of YAML's core schema; quoted ones stay text.
json::value scalar_of(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return json::value(text);
  if (text == "true" || text == "false") return text == "true";
  const auto number = number_of<std::int64_t>(text);
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

std::vector<json::object> crds() {
  std::vector<json::object> out;
  for (std::string_view text : crd_texts()) {
    // Always parses: tests parse these texts.
    json::value crd = value_of(YAML::Load(std::string(text)));
    OSM_CHECK(crd.is_object());
    out.push_back(std::move(crd.as_object()));
  }
  return out;
}

}  // namespace osm::inline v1::kubernetes
