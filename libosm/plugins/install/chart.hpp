// The files of charts/osm, embedded when the library is built (cmake/osm_crds.cmake).
#pragma once

#include <string_view>
#include <vector>

namespace osm::inline v1::kubernetes {

struct ChartFile {
  std::string_view name;  // "values.yaml", "templates/osm-controller.yaml"
  std::string_view text;
};

// All but the CRDs, by name.
std::vector<ChartFile> chart_files();

}  // namespace osm::inline v1::kubernetes
