// A template and values → text: the engine ends, knows its own chart's language only, and says why
// it refuses; a value never becomes an action.
//
//   input: '0', then a template; or '1', then a value of the template "a: {{ .Values.v }}".
#include <boost/json.hpp>

#include "fuzz/fuzz.hpp"
#include "install/template.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

namespace json = boost::json;

void run(Choices choices) {
  const bool value = choices.flag();
  const std::string text(choices.rest());
  const json::object root{{"Values",
                           {{"v", value ? text : "web"},
                            {"on", true},
                            {"none", ""},
                            {"zero", 0},
                            {"list", json::array{"b", 1}},
                            {"map", {{"z", "1"}, {"a", {{"y", 2}}}}}}},
                          {"Release", {{"Namespace", "mesh"}}},
                          {"Chart", {{"AppVersion", "1.2.3"}}},
                          {"Capabilities", {{"APIVersions", json::array{"a/v1/B"}}}}};
  const auto expanded = kubernetes::expand_template("t", value ? "a: {{ .Values.v }}" : text, root);
  if (value) {
    require(expanded.ok() && *expanded == "a: " + text, "a value is printed as it is", text);
    return;
  }
  if (!expanded.ok()) {
    require(
        !expanded.error().message.empty() || expanded.error().code == ErrorCode::kInvalidArgument,
        "a refusal says why");
    return;
  }
  if (text.find("{{") == std::string::npos)
    require(*expanded == text, "a text without actions stays as it is", *expanded);
  const auto again = kubernetes::expand_template("t", text, root);
  require(again.ok() && *again == *expanded, "a template expands the same twice");
}

const bool kAdded = add("chart_template", [](std::string_view input) { run(Choices(input)); });

}  // namespace
