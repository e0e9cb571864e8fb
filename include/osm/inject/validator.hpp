// The validating webhook: what the mesh would leave out is refused before it is stored, with
// everything that is wrong with it. The rules are those that the mesh reads objects with.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/inject/admission.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/metrics.hpp"
#include "osm/object.hpp"
#include "osm/object_store.hpp"

namespace osm::inline v1::inject {

// What is wrong with an object of one kind; empty: nothing. Thread: any, concurrently.
using ObjectCheck = std::function<std::vector<Problem>(const Object& object)>;
// What a validator judges by, and where it counts.
struct ValidatorOptions {
  const MeshSpec& mesh_spec;  // what is there already; these outlive the validator
  MetricsSink& metrics;
  std::string osm_namespace = "osm-system";  // where the MeshConfig is
  // Where objects are that no MeshSpec lists, to find out what two of them say alike: policies that
  // nothing obeys yet. Null: that is not asked.
  const ObjectStore* store = nullptr;
  // Kinds that the SMI and MeshConfig rules do not know: {"VirtualMachine", vm::check_...}.
  std::map<std::string, ObjectCheck> more_kinds{};
};

class OSM_API Validator {
 public:
  virtual ~Validator() = default;

  // Answers an AdmissionReview (admission.k8s.io/v1) for TrafficTarget, HTTPRouteGroup, TCPRoute,
  // TrafficSplit, MeshConfig, MeshRootCertificate, OSM's policies and `more_kinds`. CREATE and
  // UPDATE are refused for what the mesh would leave out; an UPDATE that leaves the spec as it is
  // never is, so that an object that was invalid before can be labelled and deleted. DELETE is
  // allowed, but for the only active MeshRootCertificate. What has no effect, or names what is not
  // there, is warned of. Failure: none, it is in the answer. Thread: any, concurrently. Blocking:
  // no; bounded by the bounds on one object.
  virtual AdmissionAnswer review(std::string_view body) const = 0;
};
// Reads nothing until it is asked. Failure: none. Thread: any. Blocking: no.
OSM_API std::unique_ptr<Validator> make_validator(const ValidatorOptions& options);

}  // namespace osm::inline v1::inject
