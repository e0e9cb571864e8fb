// Values are merged, assigned and checked; a wrong value is named with its path.
#include "install/values.hpp"

#include <doctest/doctest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <string>

#include "osm/kubernetes/install.hpp"

using namespace osm;
using namespace osm::kubernetes;
namespace json = boost::json;

namespace {

std::string set(std::string_view assignments, std::string_view before = "{}") {
  json::object values = json::parse(before).as_object();
  const Status done = set_values(values, assignments);
  return done.ok() ? json::serialize(values) : done.error().message;
}

std::string checked(std::string_view values) {
  static const json::object kSchema = json::parse(R"({
    "type": "object", "additionalProperties": false, "properties": {
      "n": {"type": "integer", "minimum": 1, "maximum": 10},
      "s": {"type": "string", "pattern": "^[a-z]*$"},
      "e": {"type": "string", "enum": ["a", "b"]},
      "l": {"type": "array", "items": {"type": "string"}},
      "m": {"type": "object", "additionalProperties": {"type": ["string", "integer"]}}}})")
                                          .as_object();
  const Status status = check_values(json::parse(values).as_object(), kSchema);
  return status.ok() ? "" : status.error().message;
}

std::string rendering(const ChartOptions& options) {
  const auto manifests = render_chart(options);
  if (!manifests.ok()) return manifests.error().message;
  std::string all;
  for (const Manifest& manifest : *manifests) all += manifest.json + "\n";
  return all;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("install.values") {
  TEST_CASE("settings are assigned as Helm assigns them") {
    CHECK(set("a.b=1,a.c=true,d=x y") == R"({"a":{"b":1,"c":true},"d":"x y"})");
    CHECK(set("a[0].b=x,a[0].c=2,a[1].b=y") == R"({"a":[{"b":"x","c":2},{"b":"y"}]})");
    CHECK(set("a={x,1,false}") == R"({"a":["x",1,false]})");
    CHECK(set("a={}") == R"({"a":[]})");
    CHECK(set(R"(a\.b/c=x\,y)") == R"({"a.b/c":"x,y"})");
    CHECK(set("a=", R"({"a":"old"})") == R"({"a":""})");
    CHECK(set("a.b=1.5") == R"({"a":{"b":"1.5"}})");
  }

  TEST_CASE("a setting that is none is refused with an example") {
    for (const char* wrong : {"a", "=1", "a[x]=1", "a[1]=1", "a..b=1", "a.b"}) {
      CAPTURE(wrong);
      CHECK(contains(set(wrong), "write osm.injector.replicaCount=3"));
    }
    CHECK(contains(set("a[99999999999]=1"), "an index is wrong"));
  }

  TEST_CASE("maps are merged, everything else is replaced") {
    json::object values = json::parse(R"({"a":{"b":1,"c":[1,2]},"d":1})").as_object();
    merge_values(values, json::parse(R"({"a":{"c":[3],"e":{}},"d":{"x":1}})").as_object());
    CHECK(json::serialize(values) == R"({"a":{"b":1,"c":[3],"e":{}},"d":{"x":1}})");
  }

  TEST_CASE("a wrong value is named with its path and what it must be") {
    CHECK(checked(R"({"n":1,"s":"abc","e":"a","l":["x"],"m":{"x":1,"y":"2"}})").empty());
    CHECK(checked(R"({"n":0})") == "value n: 0 is not from 1 to 10");
    CHECK(checked(R"({"n":"1"})") == "value n: \"1\" is not a whole number");
    CHECK(checked(R"({"n":1.5})").find("is not a whole number") != std::string::npos);
    CHECK(checked(R"({"s":"A"})") == "value s: 'A' does not match ^[a-z]*$");
    CHECK(checked(R"({"e":"c"})") == "value e: 'c' is none of a, b");
    CHECK(checked(R"({"l":["x",1]})") == "value l[1]: 1 is not a text");
    CHECK(checked(R"({"m":{"x":true}})") == "value m.x: true is not a text or a whole number");
    CHECK(checked(R"({"x":1})") == "value x: there is no such value; the chart has n, s, e, l, m");
    CHECK(checked(R"({"n":0,"s":"A","e":"c"})") ==
          "value n: 0 is not from 1 to 10 (2 more values are wrong)");
    CHECK(contains(checked("{\"s\":\"" + std::string(5000, 'a') + "\"}"), "does not match"));
  }

  TEST_CASE("settings win over files, later files over earlier ones, files over the chart") {
    const std::string all =
        rendering({.osm_namespace = "mesh",
                   .values_files = {{"1.yaml", "osm: {meshName: one, injector: {replicaCount: 4}}"},
                                    {"2.yaml", "osm: {meshName: two}"}},
                   .settings = {"osm.injector.replicaCount=5"}});
    CHECK(contains(all, "libosm-webhook-two"));
    CHECK(contains(all, R"("replicas":5)"));
    CHECK(contains(all, R"("replicas":2)"));  // osm-controller: the chart's
    CHECK(!contains(all, "osm-system"));
  }

  TEST_CASE("OpenServiceMesh is another name of osm") {
    const std::string scaled = rendering(
        {.settings = {"OpenServiceMesh.osmController.autoScale.enable=true",
                      "OpenServiceMesh.osmController.autoScale.targetAverageUtilization=60"}});
    CHECK(contains(scaled, R"("kind":"HorizontalPodAutoscaler")"));
    CHECK(contains(scaled, R"("averageUtilization":60)"));
    CHECK(contains(rendering({.values_files = {{"v", "OpenServiceMesh: {meshName: a}\nosm: {}"}}}),
                   "two names of the same values"));
  }

  TEST_CASE("autoscaling: cpu wins over the general percentage, and 0 omits a metric") {
    const std::string enable = "osm.injector.autoScale.enable=true";
    const auto with = [&](const char* more) { return rendering({.settings = {enable, more}}); };
    CHECK(contains(with("osm.injector.autoScale.cpu.targetAverageUtilization=50"),
                   R"("averageUtilization":50)"));
    const std::string memory = with(
        "osm.injector.autoScale.targetAverageUtilization=0,"
        "osm.injector.autoScale.memory.targetAverageUtilization=70");
    CHECK(contains(memory, R"("name":"memory")"));
    CHECK(!contains(memory, R"("name":"cpu","target")"));
    CHECK(contains(with("osm.injector.autoScale.targetAverageUtilization=0"),
                   "every targetAverageUtilization is 0"));
    CHECK(
        contains(with("osm.injector.autoScale.minReplicas=6"), "minReplicas is above maxReplicas"));
    CHECK(contains(with("osm.injector.autoScale.maxReplicas=11"), "11 is not from 1 to 10"));
  }

  TEST_CASE("replicas even out their proxies with an autoscaler, unless it is told not to") {
    const auto rebalances = [](std::vector<std::string> settings) {
      for (std::string& setting : settings) setting.insert(0, "osm.osmController.");
      return contains(rendering({.settings = std::move(settings)}), R"("--rebalance")");
    };
    CHECK_FALSE(rebalances({}));
    CHECK_FALSE(rebalances({"autoScale.rebalance=true"}));
    CHECK(rebalances({"rebalance=true"}));
    CHECK(rebalances({"autoScale.enable=true"}));
    CHECK_FALSE(rebalances({"autoScale.enable=true", "autoScale.rebalance=false"}));
    CHECK(rebalances({"autoScale.enable=true", "autoScale.rebalance=false", "rebalance=true"}));
  }

  TEST_CASE("values that cannot be read are named") {
    CHECK(contains(rendering({.values_files = {{"v.yaml", "osm: ["}}}), "v.yaml: line "));
    CHECK(contains(rendering({.values_files = {{"v.yaml", "- a"}}}), "v.yaml: a map of values"));
    CHECK(contains(rendering({.osm_namespace = "A"}), "'A' is no name of a namespace"));
    CHECK(contains(rendering({.settings = {"osm.certificateProvider.kind=vault"}}),
                   "osm.vault.host is empty"));
  }
}
