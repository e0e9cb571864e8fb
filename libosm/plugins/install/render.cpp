#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "base/check.hpp"
#include "base/json.hpp"
#include "install/chart.hpp"
#include "install/installed.hpp"
#include "install/template.hpp"
#include "install/values.hpp"
#include "kubernetes/client/yaml.hpp"
#include "kubernetes/upkeep/crds.hpp"
#include "osm/kubernetes/install.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

std::string_view file_named(std::string_view name) {
  const std::vector<ChartFile> files = chart_files();
  const auto found =
      std::find_if(files.begin(), files.end(), [&](const ChartFile& f) { return f.name == name; });
  OSM_CHECK(found != files.end());
  return found->text;
}

// The operator's differences from the defaults.
Result<json::object> changes_of(const ChartOptions& options) {
  json::object changes;
  for (const ValuesFile& file : options.values_files) {
    auto read = read_yaml(file.text);
    if (!read.ok() || !(read->is_object() || read->is_null()))
      return Error{ErrorCode::kInvalidSyntax,
                   fmt::format("{}: {}", file.name,
                               read.ok() ? "a map of values is needed" : read.error().message)};
    if (read->is_null()) continue;
    if (Status renamed = rename_design_values(read->as_object()); !renamed.ok())
      return Error{renamed.error().code, file.name + ": " + renamed.error().message};
    merge_values(changes, read->as_object());
  }
  // All settings at once, so that two of them may be of one list.
  for (const std::string& setting : options.settings)
    if (Status set = set_values(changes, setting); !set.ok()) return set.error();
  return changes;
}

// The defaults with the changes, checked.
Result<json::object> values_with(const json::object& changes) {
  auto values = read_yaml(file_named("values.yaml"));
  OSM_CHECK(values.ok() && values->is_object());
  merge_values(values->as_object(), changes);
  const auto schema = parse_json_object(file_named("values.schema.json"), "values.schema.json");
  OSM_CHECK(schema.ok());
  if (Status checked = check_values(values->as_object(), *schema); !checked.ok())
    return checked.error();
  return std::move(values->as_object());
}

std::string namespace_yaml(const std::string& name) {
  return fmt::format(
      "apiVersion: v1\n"
      "kind: Namespace\n"
      "metadata:\n"
      "  name: {}\n"
      "  labels:\n"
      "    app.kubernetes.io/name: openservicemesh.io\n"
      "    openservicemesh.io/ignore: \"true\"\n",
      name);
}

// For the next `osm upgrade`.
std::string values_yaml(const std::string& ns, const json::object& changes,
                        const json::object& values) {
  return fmt::format(
      "# What the operator changed of the chart's values. `osm upgrade` keeps it.\n"
      "apiVersion: v1\n"
      "kind: ConfigMap\n"
      "metadata:\n"
      "  name: {}\n"
      "  namespace: {}\n"
      "  labels:\n"
      "    app.kubernetes.io/name: openservicemesh.io\n"
      "    app.kubernetes.io/instance: {}\n"
      "    app.kubernetes.io/version: \"{}\"\n"
      "data:\n"
      "  {}: |\n"
      "    {}\n",
      kValuesConfigMap, ns, text_at(map_at(values, "osm"), "meshName"), product_version(),
      kValuesKey, json::serialize(changes));
}

// Adds the objects of one template. Failure: kInvalidSyntax: the text is no YAML.
Status add_objects(std::vector<Manifest>& manifests, const std::string& source, std::string text) {
  constexpr std::string_view kBetween = "---\n";
  text = '\n' + text;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find("\n---\n", begin), text.size());
    const std::string yaml = text.substr(begin + 1, end - begin);
    const auto object = read_yaml(yaml);
    if (!object.ok())
      return Error{ErrorCode::kInvalidSyntax, source + ": " + object.error().message};
    if (!object->is_null()) manifests.push_back({source, yaml, json::serialize(*object)});
    begin = end == text.size() ? end : end + kBetween.size();
  }
  return {};
}

// Accounts and settings before the programs that use them, webhooks last.
int turn_of(const Manifest& manifest) {
  constexpr std::array<std::string_view, 3> kLast{"\nkind: Deployment\n",
                                                  "\nkind: MutatingWebhookConfiguration\n",
                                                  "\nkind: ValidatingWebhookConfiguration\n"};
  const auto found = std::find_if(kLast.begin(), kLast.end(), [&](std::string_view kind) {
    return manifest.yaml.find(kind) != manifest.yaml.npos;
  });
  return found == kLast.end() ? 0 : static_cast<int>(found - kLast.begin()) + 1;
}

}  // namespace

std::string_view chart_values() { return file_named("values.yaml"); }

Result<std::vector<Manifest>> render_chart(const ChartOptions& options) {
  if (!is_dns_label(options.osm_namespace))
    return Error{ErrorCode::kInvalidArgument,
                 "'" + options.osm_namespace + "' is no name of a namespace"};
  OSM_TRY(const json::object changes, changes_of(options));
  OSM_TRY(json::object values, values_with(changes));
  const std::string kept = values_yaml(options.osm_namespace, changes, values);
  const json::object root{
      {"Values", std::move(values)},
      {"Release", {{"Namespace", options.osm_namespace}}},
      {"Chart", {{"AppVersion", product_version()}}},
      {"Capabilities",
       {{"APIVersions", json::array(options.api_versions.begin(), options.api_versions.end())}}}};
  std::vector<Manifest> manifests;
  OSM_TRY(add_objects(manifests, "namespace", namespace_yaml(options.osm_namespace)));
  for (const std::string_view crd : crd_texts())
    OSM_TRY(add_objects(manifests, "crds", std::string(crd)));
  OSM_TRY(add_objects(manifests, "values", kept));
  const std::size_t first = manifests.size();
  for (const ChartFile& file : chart_files()) {
    if (!file.name.starts_with("templates/")) continue;
    OSM_TRY(std::string text, expand_template(file.name, file.text, root));
    OSM_TRY(add_objects(manifests, std::string(file.name), std::move(text)));
  }
  std::stable_sort(manifests.begin() + static_cast<std::ptrdiff_t>(first), manifests.end(),
                   [](const Manifest& a, const Manifest& b) { return turn_of(a) < turn_of(b); });
  return manifests;
}

}  // namespace osm::inline v1::kubernetes
