// `osm metrics`: annotations by which Prometheus finds sidecars.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "cluster/commands.hpp"
#include "cluster/namespace_marks.hpp"
#include "osm/spec/object_mesh_spec.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;
using kubernetes::Cluster;

constexpr const char* kMetricsPort = "15010";  // of sidecars

struct MetricsFlags {
  std::vector<std::string> names;
};

// Pods keep annotations of their own, which are for their application's metrics.
Status annotate_pods(Cluster& cluster, const std::string& ns, bool enable) {
  OSM_TRY(const auto pods, pods_of(cluster, ns, kProxyUuid));
  for (const Marks& pod : pods) {
    const bool has_some =
        std::any_of(pod.annotations.begin(), pod.annotations.end(), [](const auto& each) {
          return std::string_view(each.key()).starts_with("prometheus.io/");
        });
    const bool has_ours = text_at(pod.annotations, "prometheus.io/port") == kMetricsPort;
    if (enable ? has_some : !has_ours) continue;
    const auto value = [&](const char* text) { return enable ? json::value(text) : nullptr; };
    const Status done = change_marks(cluster, pod_kind(), ns, pod.name, {},
                                     {{"prometheus.io/scrape", value("true")},
                                      {"prometheus.io/port", value(kMetricsPort)},
                                      {"prometheus.io/path", value("/stats/prometheus")}});
    if (!done.ok() && done.error().code != ErrorCode::kNotFound) return done;  // it may have ended
  }
  return {};
}

Status set_metrics(Cluster& cluster, const std::string& name, bool enable) {
  OSM_TRY(const Marks ns, read_namespace(cluster, name));
  if (enable && text_at(ns.labels, spec::kMonitoredByLabel).empty())
    return Error{ErrorCode::kNotFound,
                 fmt::format("namespace {0} is in no mesh; `osm namespace add {0}` adds it", name)};
  OSM_TRY(change_marks(cluster, namespace_kind(), {}, name, {},
                       {{kMetricsMark, enable ? json::value("enabled") : nullptr}}));
  OSM_TRY(annotate_pods(cluster, name, enable));
  std::cout << fmt::format("Metrics successfully {} in namespace [{}]\n",
                           enable ? "enabled" : "disabled", name);
  return {};
}

Status enable_metrics(Cluster& cluster, const std::string& name, const MetricsFlags&) {
  return set_metrics(cluster, name, true);
}

Status disable_metrics(Cluster& cluster, const std::string& name, const MetricsFlags&) {
  return set_metrics(cluster, name, false);
}

void add_metrics_command(CLI::App* app, Flags& flags,
                         Status (*what)(Cluster&, const std::string&, const MetricsFlags&)) {
  auto options = std::make_shared<MetricsFlags>();
  app->add_option("--namespace,-n", options->names, "Namespaces, with commas between them")
      ->required()
      ->delimiter(',');
  app->callback([&flags, options, what] { flags.exit_code = for_each(flags, *options, what); });
}

}  // namespace

void add_metrics(CLI::App& root, Flags& flags) {
  CLI::App* group = root.add_subcommand("metrics", "Annotations for Prometheus on Kubernetes")
                        ->require_subcommand(1);
  add_metrics_command(
      cluster_command(*group, flags, "enable",
                      "Annotate pods with a sidecar, new and running ones, for Prometheus",
                      "osm metrics enable --namespace shop,store", false),
      flags, enable_metrics);
  add_metrics_command(cluster_command(*group, flags, "disable", "Undo `osm metrics enable`",
                                      "osm metrics disable --namespace shop,store", false),
                      flags, disable_metrics);
}

}  // namespace osm::cli
