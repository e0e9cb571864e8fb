// Objects as YAML for tests of decoders, and what is found wrong with them.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "spec/decode.hpp"
#include "spec/object_file.hpp"

namespace osm::spec {

struct Wrong {
  std::string spec;  // YAML, indented under `spec:`, which is line 6
  ErrorCode code;
  std::string field;
  int line;
  std::string cause;
  bool left_out = true;  // the whole object
};

inline std::string indented(std::string_view text) {
  std::string out = "  ";
  for (char c : text) {
    out += c;
    if (c == '\n') out += "  ";
  }
  return out + '\n';
}

inline Object object_of(const std::string& api_version, const std::string& kind,
                        std::string_view spec, const std::string& name = "it",
                        const std::string& ns = "shop") {
  const std::string text = "apiVersion: " + api_version + "\nkind: " + kind +
                           "\nmetadata:\n  name: " + name + "\n  namespace: " + ns + "\nspec:\n" +
                           indented(spec);
  const ObjectFile file = read_object_file(text, "a.yaml");
  for (const auto& problem : file.broken) FAIL(problem.text());
  for (const auto& problem : file.problems) FAIL(problem.text());
  REQUIRE(file.objects.size() == 1);
  return *file.objects[0];
}

// A decoder that reads host names of Services, in a cluster whose domain is the default one.
template <class Result>
auto by_default(Result (*decode)(const Object&, const std::string&)) {
  return [decode](const Object& object) { return decode(object, "cluster.local"); };
}

template <class T, class Decode>
void check_wrong(const std::string& api_version, const std::string& kind, Decode decode,
                 const std::vector<Wrong>& rows) {
  for (const Wrong& row : rows) {
    CAPTURE(row.spec);
    const Object object = object_of(api_version, kind, row.spec);
    const Decoded<T> decoded = decode(object);
    CHECK(decoded.value.has_value() == !row.left_out);
    REQUIRE(decoded.problems.size() == 1);
    const Problem& problem = decoded.problems[0];
    CAPTURE(problem.text());
    CHECK(problem.code == row.code);
    CHECK(problem.field == row.field);
    CHECK(object.source.line_of(problem.field) == row.line);
    CHECK(problem.cause.find(row.cause) != std::string::npos);
    CHECK(problem.object == object.key);
  }
}

inline constexpr auto kField = ErrorCode::kInvalidField;

struct RefusedSpec {
  std::string spec;
  std::string field;
  std::string cause;
  ErrorCode code = kField;
};

// Each is wrong for one reason.
template <class Decode>
void check_refused(Decode decode, const std::string& api, std::string_view kind,
                   const std::vector<RefusedSpec>& rows) {
  for (const RefusedSpec& row : rows) {
    CAPTURE(row.spec);
    const auto decoded = decode(object_of(api, std::string(kind), row.spec));
    CHECK_FALSE(decoded.value);
    REQUIRE(decoded.problems.size() == 1);
    CAPTURE(decoded.problems[0].text());
    CHECK(decoded.problems[0].code == row.code);
    CHECK(decoded.problems[0].field == row.field);
    CHECK(decoded.problems[0].cause.find(row.cause) != std::string::npos);
  }
}

inline const std::string kPolicyApi = "policy.openservicemesh.io/v1alpha1";
inline const std::string kSplitApi = "split.smi-spec.io/v1alpha2";
inline const std::string kTargetApi = "access.smi-spec.io/v1alpha3";
inline const std::string kSpecsApi = "specs.smi-spec.io/v1alpha4";
inline const std::string kConfigApi = "config.openservicemesh.io/v1alpha2";

template <class T>
T good(const Decoded<T>& decoded) {
  for (const auto& problem : decoded.problems) FAIL_CHECK(problem.text());
  REQUIRE(decoded.value);
  return *decoded.value;
}

}  // namespace osm::spec
