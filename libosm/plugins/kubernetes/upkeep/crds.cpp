#include "kubernetes/upkeep/crds.hpp"

#include <boost/json/value.hpp>
#include <string_view>
#include <utility>

#include "base/check.hpp"
#include "kubernetes/client/yaml.hpp"

namespace osm::inline v1::kubernetes {

namespace json = boost::json;

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

}  // namespace osm::inline v1::kubernetes
