// The library of an installation, alone: the objects of the chart, without a cluster.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "osm/kubernetes/install.hpp"

namespace {

void expect(bool truth, const std::string& what) {
  if (truth) return;
  std::fprintf(stderr, "chart: not so: %s\n", what.c_str());
  std::exit(1);
}

}  // namespace

int main() {
  namespace kubernetes = osm::kubernetes;
  const auto manifests = kubernetes::render_chart({.settings = {"osm.meshName=blue"}});
  expect(manifests.ok(), "the chart is rendered");
  bool has_crds = false, has_controller = false;
  for (const kubernetes::Manifest& each : *manifests) {
    if (each.source == "crds") has_crds = true;
    if (each.source == "templates/osm-controller.yaml" &&
        each.yaml.find("blue") != std::string::npos)
      has_controller = true;
  }
  expect(has_crds, "the CRDs are there");
  expect(has_controller, "the controller is there, with the name of the mesh");

  const auto wrong = kubernetes::render_chart({.settings = {"osm.meshName=Not a name"}});
  expect(!wrong.ok(), "the schema refuses a name");
  expect(wrong.error().code == osm::ErrorCode::kInvalidField,
         "the value is named, but: " + wrong.error().text());
  std::puts("chart: ok");
}
