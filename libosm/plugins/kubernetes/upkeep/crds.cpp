#include "kubernetes/upkeep/crds.hpp"

#include <algorithm>
#include <boost/json/value.hpp>
#include <string_view>
#include <utility>

#include "base/check.hpp"
#include "base/json.hpp"
#include "base/numbers.hpp"
#include "kubernetes/client/yaml.hpp"
#include "kubernetes/upkeep/labels.hpp"

namespace osm::inline v1::kubernetes {

namespace json = boost::json;

namespace {

// The numbers of "1.2.3". Empty for other text: the versions of OSM v1.2 begin with "v".
std::vector<int> version_of(std::string_view text) {
  std::vector<int> parts;
  while (!text.empty()) {
    const auto dot = std::min(text.find('.'), text.size());
    const auto part = number_of<int>(text.substr(0, dot));
    if (!part) return parts;
    parts.push_back(*part);
    text.remove_prefix(std::min(dot + 1, text.size()));
  }
  return parts;
}

}  // namespace

std::vector<json::object> crds() {
  std::vector<json::object> out;
  for (std::string_view text : crd_texts()) {
    // Always parses: tests parse these texts.
    auto crd = read_yaml(text);
    OSM_CHECK(crd.ok() && crd->is_object());
    out.push_back(std::move(crd->as_object()));
  }
  return out;
}

bool is_newer(const json::object& object) {
  return version_of(text_at(map_at(map_at(object, "metadata"), "labels"), kVersionLabel)) >
         version_of(product_version());
}

}  // namespace osm::inline v1::kubernetes
