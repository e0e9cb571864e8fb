// Health probes and lifecycle hooks of an injected pod. kubelet does not speak mutual TLS, so each
// becomes an HTTP request to the sidecar, on the port of its kind, with the container in its path:
//
//   readinessProbe of web → GET :15902/osm-readiness-probe/web
//
// The sidecar forwards HTTP and HTTPS probes to the container. It answers TCP and gRPC probes from
// its own checks at the probe's period. exec probes stay.
//
// httpGet hooks are forwarded likewise, under a path that cannot be guessed: a hook changes what a
// container does, so the mesh must guard access to it.
// docs/kubernetes.md has the part for users.
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

// Request of kubelet to the sidecar, and request of the sidecar to the container.
struct Probe {
  std::string container;
  ProbeKind kind = ProbeKind::kLiveness;
  ProbeMethod method = ProbeMethod::kHttp;
  std::string asked{};         // the path at the sidecar
  Port port{};                 // port of the container
  std::string path{};          // kHttp, kHttps: as sent, without its query
  std::string grpc_service{};  // kGrpc
  std::int64_t timeout_s = 1;  // kWait: time after which the sidecar itself answers
  std::int64_t period_s = 10;

  friend bool operator==(const Probe&, const Probe&) = default;
};

bool is_hook(ProbeKind kind);                 // kPostStart, kPreStop
Port probe_port(ProbeKind kind);              // 15901, 15902, 15903; of hooks 15904
std::string_view probe_word(ProbeKind kind);  // "liveness", "readiness", "startup", "pre-stop", ...
// "/osm-liveness-probe/web", "/osm-pre-stop-hook/web/<hook_key>"
std::string probe_path(ProbeKind kind, const std::string& container,
                       const std::string& hook_key = {});

// Rewrites the probes and hooks of the pod's containers in place (of init containers, those that
// are sidecars) and keeps the originals in an annotation. Handlers that cannot be understood are
// refused in `pod`'s findings.
std::vector<Probe> rewrite_probes(boost::json::object& pod, const std::string& hook_key,
                                  spec::Findings& findings);

// Undoes rewrite_probes(). A rewritten probe without an original in the annotation is refused.
void restore_probes(boost::json::object& pod, spec::Findings& findings);

// Envoy resources for these probes and for the sidecar's own readiness: YAML items of
// static_resources.clusters and .listeners.
struct ProbeResources {
  std::string clusters;
  std::string listeners;
};
ProbeResources probe_resources(const std::vector<Probe>& probes);

// Probe of the sidecar itself, as a container's field: "readinessProbe".
boost::json::object sidecar_probe(ProbeKind kind);

// Hook that keeps a sidecar for `seconds` more when the pod ends.
Probe sidecar_drain(std::int64_t seconds, const std::string& hook_key);
boost::json::object sidecar_lifecycle(const Probe& drain);

}  // namespace osm::inline v1::inject
