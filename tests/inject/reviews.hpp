// AdmissionReviews of what somebody writes, and what a validator says of them.
#pragma once

#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "osm/inject/validator.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/memory_mesh_spec.hpp"

namespace osm::inject {

namespace json = boost::json;

inline constexpr const char* kTargetApi = "access.smi-spec.io/v1alpha3";
inline constexpr const char* kSpecsApi = "specs.smi-spec.io/v1alpha4";
inline constexpr const char* kSplitApi = "split.smi-spec.io/v1alpha2";
inline constexpr const char* kConfigApi = "config.openservicemesh.io/v1alpha2";
inline constexpr const char* kWorkloadApi = "workload.openservicemesh.io/v1alpha1";

struct Written {
  const char* api;
  const char* kind;
  std::string spec;  // JSON
  std::string name = "it";
  std::string ns = "shop";

  json::object object() const {
    return {{"apiVersion", api},
            {"kind", kind},
            {"metadata", {{"name", name}, {"namespace", ns}}},
            {"spec", json::parse(spec)}};
  }
};

inline std::string review_of(const Written& written, std::string_view operation,
                             json::value before = nullptr) {
  const std::string api = written.api;
  const auto slash = api.find('/');
  json::value object = written.object();
  if (operation == "DELETE") object = nullptr;
  return json::serialize(json::object{{"apiVersion", "admission.k8s.io/v1"},
                                      {"kind", "AdmissionReview"},
                                      {"request",
                                       {{"uid", "the-uid"},
                                        {"kind",
                                         {{"group", api.substr(0, slash)},
                                          {"version", api.substr(slash + 1)},
                                          {"kind", written.kind}}},
                                        {"operation", operation},
                                        {"namespace", written.ns},
                                        {"name", written.name},
                                        {"object", object},
                                        {"oldObject", before}}}});
}

struct Verdict {
  bool allowed = false;
  std::string message{};
  std::vector<std::string> fields{};  // of the causes
  std::vector<std::string> warnings{};
};

inline Verdict verdict_of(const AdmissionAnswer& answer) {
  REQUIRE(answer.status == 200);
  const auto review = json::parse(answer.body);
  const json::object& response = review.at("response").as_object();
  CHECK(response.at("uid") == "the-uid");
  Verdict verdict{.allowed = response.at("allowed").as_bool()};
  if (const auto* warnings = response.if_contains("warnings"))
    for (const auto& warning : warnings->as_array())
      verdict.warnings.emplace_back(warning.as_string());
  if (verdict.allowed) return verdict;
  const json::object& status = response.at("status").as_object();
  verdict.message = status.at("message").as_string();
  if (const auto* details = status.if_contains("details"))
    for (const auto& cause : details->as_object().at("causes").as_array())
      verdict.fields.emplace_back(cause.at("field").as_string());
  return verdict;
}

struct ValidatorFixture {
  Verdict create(const Written& written) const {
    return verdict_of(validator->review(review_of(written, "CREATE")));
  }
  Verdict update(const Written& before, const Written& after) const {
    return verdict_of(validator->review(review_of(after, "UPDATE", before.object())));
  }

  Verdict remove(const Written& before) const {
    return verdict_of(validator->review(review_of(before, "DELETE", before.object())));
  }

  testing::MemoryMeshSpec spec;
  testing::CapturingMetrics metrics;
  std::unique_ptr<Validator> validator = make_validator({.mesh_spec = spec, .metrics = metrics});
};

}  // namespace osm::inject
