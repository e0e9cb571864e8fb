// A text of objects: Lists, objects without a namespace, and errors that name the place once.
#include "spec/object_file.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace osm;
using namespace osm::spec;

namespace {

std::string group(const std::string& name, const std::string& rest = "namespace: shop") {
  return "{apiVersion: specs.smi-spec.io/v1alpha4, kind: HTTPRouteGroup, metadata: {name: " + name +
         ", " + rest + "}, spec: {matches: [{name: m}]}}";
}

}  // namespace

TEST_SUITE("spec::read_object_file") {
  TEST_CASE("the items of a List are objects, with their own lines and fields") {
    const ObjectFile file = read_object_file(
        "apiVersion: v1\nkind: List\nmetadata: {}\nitems:\n- " + group("a") + "\n- " + group("b") +
            "\n- kind: List\n  apiVersion: v1\n  items:\n  - " + group("c") + "\n",
        "list.yaml");
    REQUIRE(file.problems.empty());
    REQUIRE(file.objects.size() == 3);
    CHECK(file.objects[1]->key.name == "b");
    CHECK(file.objects[1]->source.line == 6);
    CHECK(file.objects[1]->source.line_of("spec.matches[0].name") == 6);
    CHECK(file.objects[2]->source.line_of("metadata.name") == 10);
    CHECK(read_object_file("{apiVersion: v1, kind: List, items: []}", "x").objects.empty());
    const ObjectFile bad = read_object_file(
        "kind: List\napiVersion: v1\nitems:\n- " + group("a") + "\n- {kind: Service}\n", "l.yaml");
    CHECK(bad.objects.size() == 1);
    REQUIRE(!bad.problems.empty());
    CHECK(bad.problems.front().line == 5);
  }

  TEST_CASE("an object of a namespaced kind without a namespace is left out by that name") {
    for (const Kind& kind : mesh_kinds()) {
      CAPTURE(kind.name.kind);
      const ObjectFile file =
          read_object_file("apiVersion: " + kind.api_version() +
                               "\nkind: " + std::string(kind.name.kind) + "\nmetadata: {name: a}\n",
                           "a.yaml");
      const bool cluster = kind.scope == Scope::kCluster;
      CHECK(cluster == (kind.name == kinds::kNamespace));
      CHECK(file.objects.size() == (cluster ? 1 : 0));
      REQUIRE(file.problems.size() == (cluster ? 0 : 1));
      if (cluster) continue;
      CHECK(file.problems.front().code == ErrorCode::kInvalidField);
      CHECK(file.problems.front().field == "metadata.namespace");
      CHECK(file.problems.front().cause.starts_with("required"));
    }
  }

  TEST_CASE("an error names the place and has its code beside its text") {
    const auto broken = read_objects("a: b: c\n", "bad.yaml");
    REQUIRE_FALSE(broken.ok());
    CHECK(broken.error().code == ErrorCode::kInvalidSyntax);
    CHECK(broken.error().message.starts_with("bad.yaml:1: not YAML"));
    CHECK(broken.error().message.find("[invalid-syntax]") == std::string::npos);
  }
}
