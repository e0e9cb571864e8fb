// Pods with a sidecar.
#include "base/json.hpp"
#include "migrate/differences.hpp"
#include "osm/spec/object_mesh_spec.hpp"

namespace osm::inline v1::migrate {
namespace {

constexpr const char* kProxyUuid = "osm-proxy-uuid";  // label of pods with a sidecar

void compare_pod(const Object& pod, Differences& out) {
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
}

}  // namespace

void compare_pods(const Mesh& mesh, Differences& out) {
  for (const auto& [key, object] : mesh.objects)
    if (key.is(kinds::kPod)) compare_pod(*object, out);
}

}  // namespace osm::inline v1::migrate
