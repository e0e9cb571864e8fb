// Templates of the chart expand as Helm expands them; other templates are refused with their line.
//
// Helm is the reference: tools.chart compares whole charts with it.
#include "install/template.hpp"

#include <doctest/doctest.h>

#include <boost/json/parse.hpp>
#include <string>

#include "install/chart.hpp"

using namespace osm;
using namespace osm::kubernetes;
namespace json = boost::json;

namespace {

const json::object kRoot = json::parse(R"({
  "Values": {"name": "web", "on": true, "off": false, "count": 3, "none": "", "zero": 0,
             "list": ["b", 1], "map": {"z": "1", "a": {"y": 2, "x": true}}, "empty": {}},
  "Release": {"Namespace": "mesh"}, "Chart": {"AppVersion": "1.2.3"},
  "Capabilities": {"APIVersions": ["v1", "a/v1/B"]}})")
                               .as_object();

std::string expanded(std::string_view text) {
  const auto result = expand_template("t.yaml", text, kRoot);
  REQUIRE_MESSAGE(result.ok(), result.error().message);
  return *result;
}

std::string refused(std::string_view text) {
  const auto result = expand_template("t.yaml", text, kRoot);
  REQUIRE(!result.ok());
  CHECK(result.error().code == ErrorCode::kInvalidSyntax);
  return result.error().message;
}

}  // namespace

TEST_SUITE("install.template") {
  TEST_CASE("values are printed in their place") {
    CHECK(expanded("a: {{ .Values.name }}-{{.Values.count}} # {{ .Release.Namespace }}") ==
          "a: web-3 # mesh");
    CHECK(expanded("{{ .Values.on }}{{/* a comment */}}{{ \"text\" }}") == "truetext");
    CHECK(expanded("no action") == "no action");
  }

  TEST_CASE("markers trim white space on their side") {
    CHECK(expanded("a\n  {{- .Values.name }}\n b") == "aweb\n b");
    CHECK(expanded("a {{ .Values.name -}} \n b") == "a webb");
  }

  TEST_CASE("one branch of an if is taken, as text/template does") {
    const std::string text =
        "{{ if .Values.none }}1{{ else if .Values.zero }}2{{ else if .Values.empty }}3"
        "{{ else if .Values.off }}4{{ else }}{{ if .Values.list }}5{{ end }}{{ end }}";
    CHECK(expanded(text) == "5");
    CHECK(expanded("{{ if .Values.on }}1{{ else if .Values.missing }}2{{ else }}3{{ end }}") ==
          "1");
    CHECK(expanded("{{ if not (or .Values.off (eq .Values.name \"api\")) }}1{{ end }}") == "1");
    CHECK(expanded("{{ if gt (int .Values.count) 2 }}1{{ end }}") == "1");
  }

  TEST_CASE("a template asks for the kinds that the cluster has") {
    const std::string text =
        "{{ if .Capabilities.APIVersions.Has \"a/v1/B\" }}1{{ end }}"
        "{{ if not (.Capabilities.APIVersions.Has \"a/v1/C\") }}2{{ end }}";
    CHECK(expanded(text) == "12");
    CHECK(refused("{{ if .Capabilities.APIVersions.Has .Values.count }}1{{ end }}") ==
          "t.yaml: line 1: Has takes one text");
    CHECK(refused("{{ " + std::string(200, '(')) == "t.yaml: line 1: '{{' without '}}'");
    CHECK(refused("{{ " + std::string(200, '(') + " }}") ==
          "t.yaml: line 1: there are too many '('");
  }

  TEST_CASE("an action in a branch that is not taken is not evaluated") {
    CHECK(expanded("{{ if .Values.off }}{{ fail \"no\" }}{{ .Values.missing }}{{ end }}x") == "x");
  }

  TEST_CASE("pipes give their value as the last argument") {
    CHECK(expanded("{{ .Values.none | default .Chart.AppVersion }}") == "1.2.3");
    CHECK(expanded("{{ .Values.name | default .Chart.AppVersion }}") == "web");
    CHECK(expanded("{{ .Values.map | toJson }}") == R"({"a":{"x":true,"y":2},"z":"1"})");
  }

  TEST_CASE("lists and maps become YAML in block style") {
    CHECK(expanded("l:{{ toYaml .Values.list | nindent 2 }}") == "l:\n  - \"b\"\n  - 1");
    CHECK(expanded("{{ toYaml .Values.map | nindent 0 }}") ==
          "\n\"a\": {\"x\":true,\"y\":2}\n\"z\": \"1\"");
    CHECK(expanded("{{ toYaml .Values.empty }}") == "{}");
  }

  TEST_CASE("fail is the message") {
    const auto result = expand_template("t.yaml", "{{ fail \"set a host\" }}", kRoot);
    REQUIRE(!result.ok());
    CHECK(result.error().code == ErrorCode::kInvalidArgument);
    CHECK(result.error().message == "set a host");
  }

  TEST_CASE("a template that is not understood is refused with its line") {
    CHECK(refused("a\n{{ .Values.missing }}") == "t.yaml: line 2: .Values.missing is not set");
    CHECK(refused("{{ .Values.name.inner }}") == "t.yaml: line 1: .Values.name.inner is not set");
    CHECK(refused("{{ quote .Values.name }}") == "t.yaml: line 1: there is no function quote");
    CHECK(refused("{{ if .Values.on }}") == "t.yaml: line 1: an 'if' has no 'end'");
    CHECK(refused("x{{ end }}") == "t.yaml: line 1: there is an 'end' or 'else' too many");
    CHECK(refused("{{ .Values.map }}").find("has no text") != std::string::npos);
    CHECK(refused("{{ .Values.name") == "t.yaml: line 1: '{{' without '}}'");
    CHECK(refused("{{ not .Values.on .Values.off }}") == "t.yaml: line 1: not takes 1 arguments");
    CHECK(refused("{{ or (eq 1 1 }}") == "t.yaml: line 1: a ')' is missing");
  }

  TEST_CASE("the chart is embedded") {
    const auto files = chart_files();
    REQUIRE(files.size() > 5);
    for (const ChartFile& file : files) CHECK(!file.text.empty());
  }
}
