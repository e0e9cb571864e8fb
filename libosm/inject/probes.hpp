// Health probes and lifecycle hooks of an injected pod. kubelet knows no mutual TLS, so each
// becomes an HTTP request to the sidecar, on the port of its kind, with the container in its path:
//
//   readinessProbe of web → GET :15902/osm-readiness-probe/web
//
// HTTP and HTTPS probes are passed on to the container; TCP and gRPC probes are answered from
// checks that the sidecar makes at the probe's own period. exec probes stay.
//
// Hooks of kind httpGet are passed on likewise, under a path that nobody can guess, since they
// change what a container does: what may reach them is what the mesh guards.
// docs/adr/0021-probes-are-requests-to-the-sidecar.md
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "osm/ids.hpp"
#include "spec/fields.hpp"

namespace osm::inline v1::inject {

enum class ProbeKind { kLiveness, kReadiness, kStartup, kPostStart, kPreStop };
enum class ProbeMethod { kHttp, kHttps, kTcp, kGrpc, kWait };

// Where kubelet asks the sidecar, and what the sidecar asks the container.
struct Probe {
  std::string container;
  ProbeKind kind = ProbeKind::kLiveness;
  ProbeMethod method = ProbeMethod::kHttp;
  std::string asked{};         // the path at the sidecar
  Port port{};                 // of the container
  std::string path{};          // kHttp, kHttps: as sent, without its query
  std::string grpc_service{};  // kGrpc
  std::int64_t timeout_s = 1;  // kWait: the sidecar itself answers, after this
  std::int64_t period_s = 10;

  friend bool operator==(const Probe&, const Probe&) = default;
};

bool is_hook(ProbeKind kind);                 // kPostStart, kPreStop
Port probe_port(ProbeKind kind);              // 15901, 15902, 15903; of hooks 15904
std::string_view probe_word(ProbeKind kind);  // "liveness", "readiness", "startup", "pre-stop", ...
// "/osm-liveness-probe/web", "/osm-pre-stop-hook/web/<hook_key>"
std::string probe_path(ProbeKind kind, const std::string& container,
                       const std::string& hook_key = {});

// Rewrites the probes and hooks of the pod's containers in place (of its init containers those that
// are sidecars themselves) and keeps what they were in an annotation. What cannot be understood is
// refused in `pod`'s findings.
std::vector<Probe> rewrite_probes(boost::json::object& pod, const std::string& hook_key,
                                  spec::Findings& findings);

// Undoes it: the pod is as it was before rewrite_probes(). A rewritten probe that the annotation
// does not have is refused.
void restore_probes(boost::json::object& pod, spec::Findings& findings);

// The sidecar's side of them, and of its own readiness: YAML items of static_resources.clusters and
// .listeners.
struct ProbeResources {
  std::string clusters;
  std::string listeners;
};
ProbeResources probe_resources(const std::vector<Probe>& probes);

// What kubelet asks of the sidecar itself, as a container's field: "readinessProbe".
boost::json::object sidecar_probe(ProbeKind kind);

// What keeps a sidecar that ends together with its pod's containers for `seconds` more.
Probe sidecar_drain(std::int64_t seconds, const std::string& hook_key);
boost::json::object sidecar_lifecycle(const Probe& drain);

}  // namespace osm::inline v1::inject
