// The validating webhook. It refuses objects that the mesh would leave out before they are stored,
// and lists all their faults. It uses the rules by which the mesh reads objects.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "osm/detail/api.hpp"
#include "osm/inject/admission.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/metrics.hpp"
#include "osm/object.hpp"
#include "osm/object_store.hpp"
#include "osm/spec/kinds.hpp"

namespace osm::inline v1::inject {

// Inputs of a validator, and its metrics.
struct ValidatorOptions {
  const MeshSpec& mesh_spec;  // the existing objects; all references outlive the validator
  MetricsSink& metrics;
  std::string osm_namespace = "osm-system";  // namespace of the MeshConfig
  // Store of objects that no MeshSpec lists, such as kinds of an embedder. It finds
  // conflicts between two of them. Null: those conflicts are not checked.
  const ObjectStore* store = nullptr;
  // Objects of a row without `check` and `decode` are refused. Each row of mesh_kinds() that a
  // webhook is asked about has one.
  spec::Kinds kinds = spec::mesh_kinds();
};

class OSM_API Validator {
 public:
  virtual ~Validator() = default;

  // Answers an AdmissionReview (admission.k8s.io/v1) for an object of `kinds`.
  //
  // It refuses CREATE and UPDATE of objects that the mesh would leave out. It never refuses an
  // UPDATE that leaves the spec unchanged, so that an invalid object can still be labelled and
  // deleted. It allows DELETE, except of the only active MeshRootCertificate, and of the MeshConfig
  // without spec::kAllowDeletionAnnotation. It warns of fields without effect and of references to
  // missing objects.
  //
  // Failure: none, it is in the answer. Thread: any, concurrently. Blocking: no; the limits on one
  // object bound the time.
  virtual AdmissionAnswer review(std::string_view body) const = 0;
};
// Creates the validator; it reads nothing before the first review. Failure: none. Thread: any.
// Blocking: no.
OSM_API std::unique_ptr<Validator> make_validator(const ValidatorOptions& options);

}  // namespace osm::inline v1::inject
