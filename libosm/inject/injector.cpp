#include "osm/inject/injector.hpp"

#include <chrono>
#include <mutex>
#include <string>
#include <utility>

#include "base/json.hpp"
#include "base/log_limit.hpp"
#include "inject/admission.hpp"
#include "inject/injection_gate.hpp"
#include "inject/json_tools.hpp"
#include "inject/pod_bootstrap.hpp"
#include "inject/pod_names.hpp"
#include "inject/pod_patch.hpp"
#include "inject/recent_injections.hpp"
#include "model/names.hpp"

namespace osm::inline v1::inject {
namespace {

namespace json = boost::json;

constexpr Counter kInjectorRequests{
    "osm_injector_requests_total", "Admissions of pods, by outcome", {"outcome"}};
constexpr Counter kInjectorLimited{
    "osm_injector_limited_total", "Pods refused beyond a limit of injections, by limit", {"limit"}};
constexpr Histogram kInjectorRequest{"osm_injector_request_seconds",
                                     "Seconds to answer the admission of a pod, by outcome",
                                     {"outcome"}};

class InjectorImpl final : public Injector {
 public:
  explicit InjectorImpl(InjectorOptions options)
      : options_(std::move(options)),
        gate_(options_.runtime.clock, options_.limits, options_.waiting_secrets),
        recent_(options_.runtime.clock),
        refusals_logged_(options_.runtime.clock) {
    // An alert sees the first increase of a counter that begins at 0.
    for (const char* outcome : {"injected", "untouched", "refused", "malformed", "limited"})
      options_.runtime.metrics.add(kInjectorRequests, {{"outcome", outcome}}, 0);
    for (const char* limit : {"rate", "namespace_rate", "secrets", "namespace_secrets"})
      options_.runtime.metrics.add(kInjectorLimited, {{"limit", limit}}, 0);
  }

  AdmissionAnswer review(std::string_view body, std::string_view client) override {
    const SteadyTime start = options_.runtime.clock.steady_now();
    const char* outcome = "malformed";
    bool refused = true;
    AdmissionAnswer answer = answer_admission(body, [&](const AdmissionRequest& request) {
      auto response = decide(request, client);
      if (response.ok() && !response->allowed) {
        outcome = "limited";
        return *std::move(response);
      }
      if (response.ok()) {
        refused = false;
        outcome = response->patch.empty() ? "untouched" : "injected";
        return *std::move(response);
      }
      outcome = "refused";
      log_refusal(request, response.error());
      return AdmissionResponse::refused(
          response.error().with_context("osm-injector cannot inject the sidecar"));
    });
    const auto took = options_.runtime.clock.steady_now() - start;
    options_.runtime.metrics.add(kInjectorRequests, {{"outcome", outcome}}, 1);
    options_.runtime.metrics.observe(kInjectorRequest, {{"outcome", outcome}}, took);
    options_.runtime.metrics.add(kAdmissionWebhookResponse,
                                 {{"kind", "Pod"}, {"success", refused ? "false" : "true"}}, 1);
    return answer;
  }

 private:
  static std::string name_of(const AdmissionRequest& request) {
    if (!request.name.empty()) return request.name;
    const json::object& metadata = v1::map_at(request.object, "metadata");
    const std::string name = text_at(metadata, "name");
    return name.empty() ? text_at(metadata, "generateName") : name;
  }

  Result<AdmissionResponse> decide(const AdmissionRequest& request, std::string_view client) {
    const bool pod = request.kind == "Pod" && request.group.empty();
    if (!pod || request.operation != "CREATE") return AdmissionResponse{};
    if (!is_dns_label(request.ns)) {
      return Error{ErrorCode::kInvalidField,
                   "AdmissionReview: request.namespace: '" + request.ns + "' is no namespace"};
    }
    OSM_TRY(const InjectionNamespace ns, options_.find_namespace(request.ns));
    OSM_TRY(const SidecarDecision decision,
            wants_sidecar(request.object, ns,
                          {options_.mesh_name, options_.osm_namespace, options_.beside_osm_v1}));
    if (!decision.warning.empty()) return AdmissionResponse{.warnings = {decision.warning}};
    if (!decision.wanted) return AdmissionResponse{};
    return inject(request, ns, client);
  }

  Result<AdmissionResponse> inject(const AdmissionRequest& request, const InjectionNamespace& ns,
                                   std::string_view client) {
    OSM_TRY(const MeshConfig config, options_.mesh_config());
    OSM_TRY(const bool metrics, wants_metrics(ns));
    // Derive the UUID from the request, so that a repeated request finds the Secret of the first
    // one.
    const auto derived = [&](const char* what) {
      return model::derived_proxy_id(options_.trust_domain, {request.ns, what + request.uid});
    };
    const auto patch = [&](const ProxyId& proxy, const std::string& hook_key) {
      return patch_pod({.pod = request.object,
                        .ns = request.ns,
                        .proxy_id = proxy,
                        .hook_key = hook_key,
                        .config = config,
                        .images = {.envoy = options_.envoy_image,
                                   .init_container = options_.init_container_image,
                                   .pull_policy = options_.image_pull_policy},
                        .native_sidecars = options_.native_sidecars && options_.native_sidecars(),
                        .cni = options_.cni,
                        .metrics = metrics});
    };
    if (const auto before = recent_.find(request)) {
      OSM_TRY(PatchedPod patched, patch(before->proxy, before->hook_key));
      // Else its bootstrap is another one, and needs another Secret.
      if (patched.account == before->account && patched.probes == before->probes)
        return response_of(request, patched);
    }
    const ProxyId proxy = derived("admission/");
    const std::string hook_key = derived("hooks/").str();
    OSM_TRY(PatchedPod patched, patch(proxy, hook_key));
    const Denials denials = options_.denials ? options_.denials() : Denials();
    if (const Denial* denial = denials.find(proxy, identity_of(patched.account)))
      return Error{ErrorCode::kPermissionDenied,
                   "service account " + patched.account.str() + " gets no sidecar: " +
                       denial->text() + "; use another account, or change that object"};
    AdmissionResponse response = response_of(request, patched);
    if (request.dry_run || response.patch.empty()) return response;
    if (const auto limited = gate_.enter(request.ns)) return refuse(request, *limited);
    OSM_TRY(write_bootstrap(proxy, patched,
                            {.reason = certificate::IssueReason::kInjection,
                             .address = std::string(client),
                             .identity = request.user}));
    recent_.add(request, {proxy, hook_key, patched.account, patched.probes});
    options_.runtime.log.info("sidecar injected", {{"namespace", request.ns},
                                                   {"name", name_of(request)},
                                                   {"account", patched.account.name},
                                                   {"uuid", proxy.str()}});
    return response;
  }

  static AdmissionResponse response_of(const AdmissionRequest& request, const PatchedPod& patched) {
    return {.warnings = patched.warnings, .patch = json_patch(request.object, patched.pod)};
  }

  // A namespace's authors, and those who reach the port, can have pods refused as often as they
  // like. A name of more than 63 bytes is no namespace's.
  void log_refusal(const AdmissionRequest& request, const Error& why) {
    std::unique_lock lock(refusals_mutex_);
    const auto left_out = refusals_logged_.admit(request.ns.substr(0, 63));
    lock.unlock();
    if (left_out)
      options_.runtime.log.warning("pod refused", {{"namespace", request.ns},
                                                   {"name", name_of(request)},
                                                   {"cause", why.text()},
                                                   {"left_out", std::to_string(*left_out)}});
  }

  AdmissionResponse refuse(const AdmissionRequest& request, const InjectionGate::Refusal& limited) {
    options_.runtime.metrics.add(kInjectorLimited, {{"limit", limited.limit}}, 1);
    if (limited.left_out)
      options_.runtime.log.warning("pod refused, beyond a limit of injections",
                                   {{"namespace", request.ns},
                                    {"name", name_of(request)},
                                    {"cause", limited.message},
                                    {"left_out", std::to_string(*limited.left_out)}});
    return {.allowed = false,
            .code = 429,
            .message = "osm-injector cannot inject the sidecar now: " + limited.message};
  }

  Status write_bootstrap(const ProxyId& proxy, const PatchedPod& patched,
                         const certificate::Requester& requester) {
    const TrustDomains domains =
        options_.trust_domains ? options_.trust_domains() : options_.trust_domain;
    OSM_TRY(const MeshConfig config, options_.mesh_config());
    const std::chrono::seconds validity = config.certificates.proxy_validity;
    OSM_TRY(const certificate::CertificatePtr issued,
            issue_for_pod(options_.certificates, domains.signing,
                          {proxy, patched.account, WorkloadKind::kPod}, validity, requester));
    const std::string bundle = options_.certificates.trust_bundle_pem();
    OSM_TRY(auto files,
            pod_bootstrap({.certificate = *issued,
                           .trust_bundle_pem = bundle,
                           .account = patched.account,
                           .trust_domain = domains,
                           .xds = options_.xds},
                          patched.probes, options_.osm_namespace, config.proxy.cluster_domain));
    BootstrapSecret secret{patched.account.ns,
                           bootstrap_secret_name(proxy),
                           {{"app.kubernetes.io/name", "openservicemesh.io"},
                            {"app.kubernetes.io/instance", options_.mesh_name},
                            {"app.kubernetes.io/version", options_.version}},
                           annotations_of(*issued, bundle, domains, validity),
                           std::move(files)};
    Status written = options_.write_secret(secret);
    for (BootstrapFile& file : secret.files) erase(file.content);
    if (!written.ok())
      return written.error().with_context("Secret " + secret.ns + '/' + secret.name);
    return {};
  }

  const InjectorOptions options_;
  InjectionGate gate_;
  RecentInjections recent_;
  std::mutex refusals_mutex_;
  LogLimits<std::string> refusals_logged_;  // by namespace; guarded by refusals_mutex_
};

}  // namespace

std::unique_ptr<Injector> make_injector(InjectorOptions options) {
  return std::make_unique<InjectorImpl>(std::move(options));
}

}  // namespace osm::inline v1::inject
