// The control plane as one object: what the mesh should be and where its workloads are go in, an
// ADS server for its proxies comes out. osm-controller is a thin program around it.
//
// Any number of them live in one process and share nothing. None reads the environment, installs
// signal handlers, writes to stdout or starts a thread (gRPC's own exist while the server does).
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "osm/certificate/manager.hpp"
#include "osm/certificate/progress.hpp"
#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/executor.hpp"
#include "osm/log.hpp"
#include "osm/mesh_cataloger.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/metrics.hpp"
#include "osm/result.hpp"
#include "osm/values/object_status.hpp"
#include "osm/values/proxy.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1 {

class ResourceHook;  // osm/resource_hook.hpp, which speaks Envoy's protos

// Everything borrowed outlives the control plane.
struct ControlPlaneOptions {
  MeshSpec& spec;
  std::vector<ProviderEntry> providers;  // in order of precedence
  std::vector<WorkloadProvider*> workload_providers;
  certificate::Manager& certificates;
  Executor& executor;           // nothing blocks on it; more threads encode more at once
  Executor& blocking_executor;  // issuing waits for the CA here
  const Clock& clock;
  Rng& rng;
  LogSink& log;
  MetricsSink& metrics;
  // With roots that are rotated: RootRotation::trust_domains().
  TrustDomains trust_domain{TrustDomain("cluster.local")};
  std::string osm_namespace = "osm-system";   // names the server's certificate
  std::string ads_address = "0.0.0.0:15128";  // port 0: the kernel's choice, see ads_address()
  const ResourceHook* resource_hook = nullptr;
  // What gRPC may hold for connections, calls and messages; beyond, it cancels streams.
  std::size_t max_transport_bytes = std::size_t{1} << 30;
};

class OSM_API ControlPlane {
 public:
  // Result: a control plane that listens; proxies are configured once everything has synced.
  // Failure: kInvalidArgument (address), kUnavailable (port taken, CA unreachable), kInternal.
  // Thread: any but the executors'. Blocking: until the server's certificate is issued.
  static Result<std::unique_ptr<ControlPlane>> start(const ControlPlaneOptions& options);

  // shutdown(), with a second's grace. Not from a thread of the executors, which must still run.
  virtual ~ControlPlane() = default;

  // "HOST:PORT" with the real port. Thread: any. Blocking: no.
  virtual std::string ads_address() const = 0;

  // The mesh as one answer. Thread: any. Lifetime: the control plane's.
  virtual MeshCataloger& catalog() const = 0;

  // "mesh specification", "endpoints provider vm": what serving waits for. Thread: any.
  // Blocking: no.
  virtual std::vector<std::string> waiting_for() const = 0;

  // Each provider's health. Thread: any. Blocking: no.
  virtual std::vector<ProviderStatus> providers() const = 0;

  // Everything that was left out of the mesh and why, ordered, with places. Thread: any.
  // Blocking: no.
  virtual std::vector<Problem> list_problems() const = 0;

  // Calls `on_change` whenever list_problems() or the mesh may have changed; several changes may
  // come as one. Thread: of the executor, one call at a time; must not block.
  // Lifetime: until the handle dies.
  virtual Subscription subscribe(std::function<void()> on_change) = 0;

  // Who the proxy of `workload` is, and so what its request for a certificate must say
  // (certificate::make_request). Thread: any. Blocking: no.
  virtual certificate::Subject proxy_subject(const Workload& workload) const = 0;

  // Result: a certificate over the key of `request_pem` for the proxy of `workload`, whose stream
  // is expected from now on. The key stays with whoever made it, and the control plane does not
  // renew the certificate. Failure: kInvalidArgument: the request is not exactly
  // proxy_subject()'s; the manager's. Thread: any but the executor's. Blocking: until the CA
  // answers.
  virtual Result<certificate::CertificatePtr> issue_proxy_certificate(
      const Workload& workload, const std::string& request_pem, std::chrono::seconds validity) = 0;

  // Connected proxies, ordered by workload. Thread: any but the executor's. Blocking: briefly.
  virtual std::vector<Proxy> list_proxies() const = 0;

  // What a proxy was sent and what it acknowledged, as JSON of envoy.admin.v3.ConfigDump; secrets
  // by fingerprint only. `proxy`: UUID, "<namespace>/<workload>" or a workload name that is unique.
  // Failure: kNotFound, kInvalidArgument (ambiguous). Thread: any but the executor's.
  // Blocking: briefly.
  virtual Result<std::string> config_dump(const std::string& proxy) const = 0;

  // How far an object's newest version has travelled.
  // Failure: kNotFound (no such object), kInvalidArgument (a kind that is never live), kNotReady
  // (not synced), kUnavailable (shutting down). Thread: any but the executor's. Blocking: briefly.
  virtual Result<ObjectStatus> object_status(const ObjectKey& object) const = 0;

  // Waits until every connected proxy that the object concerns has applied it.
  // Result: the status then. Failure: kDeadlineExceeded with who lags; the code of its problem
  // (kInvalidField, kRefusedByProxy, ...) when it was left out; as object_status().
  // Thread: any but the executors'. Blocking: up to `timeout`.
  virtual Result<ObjectStatus> wait_until_applied(const ObjectKey& object,
                                                  std::chrono::milliseconds timeout) const = 0;

  // What the resource hook adds or changes is different from now on: every proxy's configuration
  // is computed again, and sent where it differs. Thread: any. Blocking: no.
  virtual void refresh_resources() = 0;

  // Those of now. Thread: any. Blocking: no.
  virtual TrustDomains trust_domains() const = 0;

  // Issues under other names from now on, and lets peers in as they say; what was issued before is
  // kept until what replaces it is there. Failure: the manager's, when the control plane's own
  // certificate could not be issued: everything else is done, and this is to be called again.
  // Thread: any but the executors', one call at a time. Blocking: until that is issued.
  virtual Status set_trust_domains(const TrustDomains& trust_domains) = 0;

  // Costs as much as there are proxies. Thread: any but the executors'. Blocking: briefly.
  virtual CertificateProgress certificate_progress(const CertificateGoal& goal) const = 0;

  // Ends the streams of proxies that came with a certificate of another CA key: those that were
  // given a newer one come back with it. Thread: any. Blocking: no.
  virtual void recall_proxies(const std::string& issuer_key_id) = 0;

  // Ends every stream, the listener and every subscription; idempotent. Afterwards no callback
  // runs and nothing borrowed is used. Failure: kDeadlineExceeded (streams were cut).
  // Thread: any but the executors'. Blocking: up to `deadline`.
  virtual Status shutdown(std::chrono::milliseconds deadline) = 0;
};

}  // namespace osm::inline v1
