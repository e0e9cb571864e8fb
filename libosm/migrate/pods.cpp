// Namespaces and pods: sidecars and their metrics.
#include <array>

#include "base/json.hpp"
#include "migrate/differences.hpp"
#include "osm/spec/object_mesh_spec.hpp"

namespace osm::inline v1::migrate {
namespace {

constexpr const char* kMetrics = "openservicemesh.io/metrics";
constexpr const char* kScrape = "prometheus.io/scrape";
constexpr const char* kProxyUuid = "osm-proxy-uuid";  // label of pods with a sidecar

bool is_on(const std::map<std::string, std::string>& annotations, const std::string& name) {
  const auto at = annotations.find(name);
  if (at == annotations.end()) return false;
  std::string text = at->second;
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text == "enabled" || text == "yes" || text == "true";
}

void add_metrics(const Object& object, const std::string& annotation, Differences& out) {
  out.add(object,
          {.verdict = Verdict::kLess,
           .field = "metadata.annotations[" + annotation + "]",
           .reason = "sidecars have no listener for Prometheus: a scrape of port 15010 fails",
           .remedy = "Take this target out of Prometheus, and remove the annotation. The "
                     "controller has metrics of its own."});
}

void compare_pod(const Mesh& mesh, const Object& pod, Differences& out) {
  if (!pod.labels.contains(kProxyUuid)) return;
  const auto& spec = map_at(*pod.document, "spec");
  const bool selected = text_at(map_at(spec, "nodeSelector"), "kubernetes.io/os") == "windows";
  if (selected || text_at(map_at(spec, "os"), "name") == "windows")
    out.add(pod, {.verdict = Verdict::kLess,
                  .access = Access::kRefused,
                  .field = selected ? "spec.nodeSelector" : "spec.os",
                  .reason = "pods for Windows get no sidecar: the mesh refuses their calls, and "
                            "their clients reach them past the mesh or not at all",
                  .remedy = "Move the workload to Linux, or out of the mesh."});
  const auto ns = mesh.objects.find({kinds::kNamespace, "", pod.key.ns});
  const bool by_namespace = ns != mesh.objects.end() && is_on(ns->second->annotations, kMetrics);
  if (!by_namespace && is_on(pod.annotations, kScrape)) add_metrics(pod, kScrape, out);
}

}  // namespace

void compare_pods(const Mesh& mesh, Differences& out) {
  for (const auto& [key, object] : mesh.objects) {
    if (key.is(kinds::kNamespace) && is_on(object->annotations, kMetrics))
      add_metrics(*object, kMetrics, out);
    if (key.is(kinds::kPod)) compare_pod(mesh, *object, out);
  }
}

}  // namespace osm::inline v1::migrate
