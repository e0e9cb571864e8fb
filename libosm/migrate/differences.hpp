// Collects differences while the parts of a mesh are compared.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "migrate/dump.hpp"

namespace osm::inline v1::migrate {

struct Finding {
  Verdict verdict;
  Access access = Access::kSame;
  std::string field{};
  std::string reason;
  std::string remedy;
};

class Differences {
 public:
  void add(const Object& object, Finding finding) {
    found_.push_back({object.key, object.api_version, finding.verdict, finding.access,
                      object.source.path, object.source.line_of(finding.field),
                      std::move(finding.field), std::move(finding.reason),
                      std::move(finding.remedy)});
  }
  std::vector<Difference> take() && { return std::move(found_); }

 private:
  std::vector<Difference> found_;
};

// Each adds the differences of its part of the mesh.
void compare_versions(const Mesh& mesh, Differences& out);  // apiVersions, unknown kinds, CRDs
void compare_decoded(const Mesh& mesh, Differences& out);   // faults that the decoders find
void compare_settings(const Mesh& mesh, Differences& out);  // MeshConfig, MeshRootCertificate
void compare_policies(const Mesh& mesh, Differences& out);  // OSM's own kinds
void compare_egress(const Mesh& mesh, Differences& out);    // Egress
void compare_targets(const Mesh& mesh, Differences& out);   // TrafficTarget, HTTPRouteGroup
void compare_services(const Mesh& mesh, Differences& out);  // Service, TrafficSplit
void compare_pods(const Mesh& mesh, Differences& out);      // Namespace, Pod

}  // namespace osm::inline v1::migrate
