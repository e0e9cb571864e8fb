// A pod gets its patch and Secret, and a failure refuses the pod with a reason.
#include "osm/inject/injector.hpp"

#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/base64.hpp"
#include "base/times.hpp"
#include "inject/json_patch.hpp"
#include "inject/json_tools.hpp"
#include "inject/pod_cases.hpp"
#include "osm/certificate/request.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"
#include "osm/testing/memory_certificate_manager.hpp"

using namespace osm;
using namespace osm::inject;

namespace {

namespace json = boost::json;
using inject_test::golden_pod;
using inject_test::PodCase;

const std::chrono::seconds kValidity = MeshConfig().certificates.proxy_validity;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Remembers who asked for certificates, and for how long.
struct AskedManager final : testing::MemoryCertificateManager {
  using MemoryCertificateManager::MemoryCertificateManager;
  Result<certificate::CertificatePtr> issue_certificate(
      const certificate::Subject& subject, std::chrono::seconds validity,
      const certificate::Requester& requester = {}) override {
    {
      const std::lock_guard lock(mutex);
      requesters.push_back(requester);
      validities.push_back(validity);
    }
    return MemoryCertificateManager::issue_certificate(subject, validity, requester);
  }
  std::mutex mutex;
  std::vector<certificate::Requester> requesters;
  std::vector<std::chrono::seconds> validities;
};

// An injector in a cluster of one namespace.
struct Mesh {
  explicit Mesh(InjectionLimits given = {}, XdsVariant variant = XdsVariant::kDelta)
      : limits(given), xds(variant) {}

  const InjectionLimits limits;
  int asked = 0;
  bool any_namespace = false;
  bool native = true;
  const XdsVariant xds;
  std::optional<WaitingSecrets> waiting;
  testing::ManualClock clock;
  testing::ManualExecutor executor{clock};
  RandomRng rng;
  testing::CapturingLog log;
  testing::CapturingMetrics metrics;
  AskedManager certificates{clock};
  InjectionNamespace ns = golden_pod("plain").ns;
  Result<MeshConfig> config = MeshConfig{};
  Denials denials;
  Status storage;
  std::mutex mutex;
  std::map<std::string, BootstrapSecret> secrets;  // by namespace/name
  std::unique_ptr<Injector> injector = make_injector(
      {.certificates = certificates,
       .find_namespace = [this](const std::string& name) -> Result<InjectionNamespace> {
         if (name == ns.name || any_namespace) return ns;
         return Error{ErrorCode::kUnavailable, "Namespace " + name + ": try again"};
       },
       .mesh_config = [this] { return config; },
       .denials = [this] { return denials; },
       .write_secret = [this](const BootstrapSecret& secret) { return keep(secret); },
       .runtime = {executor, executor, clock, rng, log, metrics},
       .limits = limits,
       .waiting_secrets = [this] { return waiting; },
       .version = "9.9.9",
       .envoy_image = "envoy:1",
       .init_container_image = "init:1",
       .native_sidecars = [this] { return native; },
       .xds = xds});

  Status keep(const BootstrapSecret& secret) {
    if (!storage.ok()) return storage;
    const std::lock_guard lock(mutex);
    secrets.emplace(secret.ns + '/' + secret.name, secret);
    return {};
  }

  json::object ask(json::object request) {
    const AdmissionAnswer answer =
        injector->review(json::serialize(json::object{{"apiVersion", "admission.k8s.io/v1"},
                                                      {"kind", "AdmissionReview"},
                                                      {"request", std::move(request)}}),
                         "10.0.0.9:4711");
    REQUIRE(answer.status == 200);
    return json::parse(answer.body).at("response").as_object();
  }
};

json::object request_for(const json::object& pod, const std::string& uid = "uid-1") {
  return {{"uid", uid},
          {"operation", "CREATE"},
          {"namespace", "shop"},
          {"kind", {{"group", ""}, {"version", "v1"}, {"kind", "Pod"}}},
          {"object", pod}};
}

json::array patch_of(const json::object& response) {
  return json::parse(*from_base64(std::string(response.at("patch").as_string()))).as_array();
}

std::string message_of(const json::object& response) {
  CHECK(response.at("allowed") == false);
  return std::string(response.at("status").at("message").as_string());
}

std::string uuid_of(const json::object& pod) {
  return std::string(pod.at("metadata").at("labels").at("osm-proxy-uuid").as_string());
}

}  // namespace

TEST_SUITE("inject::Injector") {
  TEST_CASE("a pod is allowed with a patch, and its Secret has the sidecar's bootstrap") {
    Mesh mesh;
    const json::object pod = golden_pod("plain").pod;
    const json::object response = mesh.ask(request_for(pod));
    CHECK(response.at("uid") == "uid-1");
    CHECK(response.at("allowed") == true);
    const json::object patched = inject_test::apply_patch(pod, patch_of(response));
    const std::string name = "envoy-bootstrap-config-" + uuid_of(patched);
    CHECK(patched.at("spec").at("volumes").at(0).at("secret").at("secretName") ==
          json::string(name));

    REQUIRE(mesh.secrets.contains("shop/" + name));
    const BootstrapSecret& secret = mesh.secrets.at("shop/" + name);
    CHECK(secret.labels ==
          std::map<std::string, std::string>{{"app.kubernetes.io/name", "openservicemesh.io"},
                                             {"app.kubernetes.io/instance", "osm"},
                                             {"app.kubernetes.io/version", "9.9.9"}});
    std::set<std::string> files;
    for (const BootstrapFile& file : secret.files) files.insert(file.name);
    CHECK(files == std::set<std::string>{"bootstrap.yaml", "tls_certificate_sds_secret.yaml",
                                         "validation_context_sds_secret.yaml", "cacert.pem",
                                         "sds_cert.pem", "sds_key.pem"});
  }

  TEST_CASE("the TLS settings of the data plane do not change TLS towards the controller") {
    const auto bootstrap_under = [](const TlsSettings& tls) {
      Mesh mesh;
      mesh.config->proxy.tls = tls;
      mesh.ask(request_for(golden_pod("plain").pod));
      for (const BootstrapFile& file : mesh.secrets.begin()->second.files)
        if (file.name == "bootstrap.yaml") return file.content;
      return std::string();
    };
    const std::string usual = bootstrap_under({});
    CHECK(contains(usual, "tls_minimum_protocol_version: TLSv1_2"));
    CHECK(bootstrap_under({.ecdh_curves = {"X25519"}}) == usual);
    CHECK(bootstrap_under({.maximum = TlsVersion::kTls12,
                           .cipher_suites = {"ECDHE-ECDSA-CHACHA20-POLY1305"}}) == usual);
  }

  TEST_CASE("bootstraps name the injector's variant of xDS") {
    for (const auto& [variant, type] : {std::pair{XdsVariant::kDelta, "api_type: DELTA_GRPC"},
                                        std::pair{XdsVariant::kSotw, "api_type: GRPC"}}) {
      CAPTURE(type);
      Mesh mesh({}, variant);
      mesh.ask(request_for(golden_pod("plain").pod));
      REQUIRE(mesh.secrets.size() == 1);
      for (const BootstrapFile& file : mesh.secrets.begin()->second.files)
        if (file.name == "bootstrap.yaml") CHECK(contains(file.content, type));
    }
  }

  TEST_CASE("each pod asks anew if sidecars are native") {
    Mesh mesh;
    const json::object pod = golden_pod("plain").pod;
    for (const bool native : {true, false, true}) {
      mesh.native = native;
      const json::object patched = inject_test::apply_patch(
          pod, patch_of(mesh.ask(request_for(pod, "uid-" + std::to_string(++mesh.asked)))));
      CHECK(patched.at("spec").at("containers").as_array().size() == (native ? 1 : 2));
    }
  }

  TEST_CASE("the certificate is the proxy's for the pod's account and is not cached") {
    Mesh mesh;
    std::vector<certificate::Subject> issued;
    const json::object patched = inject_test::apply_patch(
        golden_pod("plain").pod, patch_of(mesh.ask(request_for(golden_pod("plain").pod))));
    CHECK(mesh.certificates.issued() == 1);
    CHECK(mesh.certificates.list_certificates().empty());
    for (const BootstrapFile& file : mesh.secrets.begin()->second.files) {
      if (file.name == "bootstrap.yaml")
        CHECK(contains(file.content, "  id: " + uuid_of(patched) + ".shop\n"));
      // MemoryCertificateManager writes the certified names into the chain.
      if (file.name == "sds_cert.pem")
        CHECK_MESSAGE(contains(file.content, uuid_of(patched) + ".shop"), file.content);
    }
  }

  TEST_CASE("a pod of a denied account is refused, and no certificate is issued") {
    Mesh mesh;
    const Denial why{{kinds::kDenylist, "osm-system", "a"}, "stolen"};
    mesh.denials.accounts[{"shop", "bookstore"}] = why;
    const json::object response = mesh.ask(request_for(golden_pod("plain").pod));
    CHECK(response.at("allowed") == false);
    CHECK(response.at("status").at("code") == 403);
    CHECK(contains(std::string(response.at("status").at("message").as_string()),
                   "gets no sidecar: Denylist osm-system/a denies it (stolen)"));
    CHECK(mesh.certificates.issued() == 0);
    CHECK(mesh.secrets.empty());
  }

  TEST_CASE("the Secret says of which CA its certificate is, and when it is to be renewed") {
    Mesh mesh;
    mesh.certificates.set_issuer_id("the CA");
    mesh.ask(request_for(golden_pod("plain").pod));
    REQUIRE(mesh.secrets.size() == 1);
    const auto& annotations = mesh.secrets.begin()->second.annotations;
    CHECK(annotations.size() == 2);
    CHECK(annotations.at("openservicemesh.io/certificate-source") ==
          certificate_source("the CA", mesh.certificates.trust_bundle_pem(),
                             TrustDomain("cluster.local"), kValidity));
    const TrustDomain domain("cluster.local"), other("new.example");
    const auto source = [](const char* issuer, const char* bundle, const TrustDomains& domains) {
      return certificate_source(issuer, bundle, domains, kValidity);
    };
    CHECK(source("a", "bc", domain) != source("ab", "c", domain));
    CHECK(source("a", "b", domain) !=
          certificate_source("a", "b", domain, kValidity + std::chrono::seconds(1)));
    TrustDomains both(domain);
    both.accepted = {domain, other};
    CHECK(source("a", "b", domain) != source("a", "b", both));
    both.accepted = {domain};
    both.signing = other;
    CHECK(source("a", "b", domain) != source("a", "b", both));
    const std::string& after = annotations.at("openservicemesh.io/renew-certificate-after");
    const auto day = [&](int count) {
      return rfc3339(mesh.clock.wall_now() + std::chrono::days(count));
    };
    CHECK(after.size() == 20);
    CHECK(after.back() == 'Z');
    CHECK(after > day(17));
    CHECK(after <= day(20));
  }

  TEST_CASE("the CA is asked for a pod's validity and grace, and the audit log told who asked") {
    Mesh mesh;
    json::object request = request_for(golden_pod("plain").pod);
    request["userInfo"] = {{"username", "system:serviceaccount:kube-system:replicaset-controller"}};
    mesh.ask(request);
    REQUIRE(mesh.certificates.requesters.size() == 1);
    const certificate::Requester& requester = mesh.certificates.requesters[0];
    CHECK(requester.reason == certificate::IssueReason::kInjection);
    CHECK(requester.address == "10.0.0.9:4711");
    CHECK(requester.identity == "system:serviceaccount:kube-system:replicaset-controller");
    REQUIRE(issue_pod_certificate(mesh.certificates, TrustDomain("cluster.local"),
                                  ProxyId("11111111-1111-4111-8111-111111111111"),
                                  {"shop", "bookstore"}, kValidity)
                .ok());
    CHECK(mesh.certificates.requesters[1].reason == certificate::IssueReason::kRenewal);
    for (const std::chrono::seconds validity : mesh.certificates.validities)
      CHECK(validity == kValidity + certificate::kProxyRenewalGrace);
  }

  TEST_CASE("a renewal writes the same files and annotations as the injection") {
    Mesh mesh;
    mesh.ask(request_for(golden_pod("plain").pod));
    const BootstrapSecret& secret = mesh.secrets.begin()->second;
    const ProxyId proxy(secret.name.substr(std::string("envoy-bootstrap-config-").size()));
    const auto renewed = issue_pod_certificate(mesh.certificates, TrustDomain("cluster.local"),
                                               proxy, {"shop", "bookstore"}, kValidity);
    REQUIRE(renewed.ok());
    CHECK(mesh.certificates.list_certificates().empty());
    CHECK(renewed->annotations.at(kCertificateSourceAnnotation) ==
          secret.annotations.at(kCertificateSourceAnnotation));
    const std::string kNames = "validation_context_sds_secret.yaml";
    std::set<std::string> files;
    for (const BootstrapFile& file : renewed->files) {
      files.insert(file.name);
      for (const BootstrapFile& before : secret.files)
        if (before.name == file.name) {
          CHECK(file.mode == before.mode);
          CHECK((file.content == before.content) ==
                (file.name == "cacert.pem" || file.name == kNames));
        }
    }
    CHECK(files == std::set<std::string>{"sds_key.pem", "sds_cert.pem", "cacert.pem", kNames});
    mesh.certificates.set_failure(Error{ErrorCode::kUnavailable, "the CA is away"});
    const auto failed = issue_pod_certificate(mesh.certificates, TrustDomain("cluster.local"),
                                              proxy, {"shop", "bookstore"}, kValidity);
    REQUIRE_FALSE(failed.ok());
    CHECK(failed.error().code == ErrorCode::kUnavailable);
  }

  TEST_CASE("the same request asked again has the same answer, and one Secret") {
    Mesh mesh;
    const json::object request = request_for(golden_pod("probes").pod);
    CHECK(mesh.ask(request) == mesh.ask(request));
    CHECK(mesh.secrets.size() == 1);
    CHECK(mesh.ask(request_for(golden_pod("probes").pod, "uid-2")) != mesh.ask(request));
    CHECK(mesh.secrets.size() == 2);
  }

  TEST_CASE("a webhook that is called again in one request has nothing to add") {
    Mesh mesh;
    const json::object pod = golden_pod("probes").pod;
    const json::object patched =
        inject_test::apply_patch(pod, patch_of(mesh.ask(request_for(pod))));
    const json::object again = mesh.ask(request_for(patched));
    CHECK(again.at("allowed") == true);
    CHECK_FALSE(again.contains("patch"));
  }

  // The API server asks again after another webhook changed the pod: the UID is another one.
  TEST_CASE("a pod that comes back with another request UID is unchanged, and has one Secret") {
    Mesh mesh;
    for (const char* name : {"plain", "probes", "hooks"}) {
      CAPTURE(name);
      const json::object pod = golden_pod(name).pod;
      const json::object patched = inject_test::apply_patch(
          pod, patch_of(mesh.ask(request_for(pod, std::string(name) + "-1"))));
      const std::size_t secrets = mesh.secrets.size();
      const json::object again = mesh.ask(request_for(patched, std::string(name) + "-2"));
      CHECK(again.at("allowed") == true);
      CHECK_FALSE(again.contains("patch"));
      CHECK(mesh.secrets.size() == secrets);
    }
  }

  TEST_CASE(
      "a container that another webhook added is taken in, under the same UUID if it can be") {
    Mesh mesh;
    const json::object pod = golden_pod("plain").pod;
    const json::object first = inject_test::apply_patch(pod, patch_of(mesh.ask(request_for(pod))));
    const auto come_back = [&](const char* added, const char* list, const char* uid) {
      json::object changed = first;
      json::array& containers = list_at(changed, "spec", list);
      containers.insert(containers.begin(), json::parse(added));
      const json::object response = mesh.ask(request_for(changed, uid));
      return response.contains("patch") ? inject_test::apply_patch(changed, patch_of(response))
                                        : changed;
    };
    const json::object plain = come_back(R"({"name": "agent", "image": "a"})", "containers", "u-2");
    CHECK(uuid_of(plain) == uuid_of(first));
    CHECK(mesh.secrets.size() == 1);
    const json::object early =
        come_back(R"({"name": "early", "image": "a"})", "initContainers", "u-3");
    CHECK(early.at("spec").at("initContainers").at(0).at("name") == "osm-init");
    CHECK(early.at("spec").at("initContainers").at(1).at("name") == "envoy");
    CHECK(early.at("spec").at("initContainers").at(2).at("name") == "early");
    CHECK(uuid_of(early) == uuid_of(first));
    CHECK(mesh.secrets.size() == 1);
    // The sidecar has to answer its probe, so the bootstrap is another one.
    const json::object probed = come_back(
        R"({"name": "agent", "image": "a", "readinessProbe": {"tcpSocket": {"port": 81}}})",
        "containers", "u-4");
    CHECK(uuid_of(probed) != uuid_of(first));
    CHECK(mesh.secrets.contains("shop/envoy-bootstrap-config-" + uuid_of(probed)));
    CHECK(contains(json::serialize(probed.at("spec").at("containers").at(0)), "15902"));
  }

  TEST_CASE("a copy of another name, a late one, and one of a dry run become other proxies") {
    Mesh mesh;
    const json::object pod = golden_pod("plain").pod;
    json::object dry = request_for(pod, "uid-0");
    dry["dryRun"] = true;
    const json::object shown = inject_test::apply_patch(pod, patch_of(mesh.ask(dry)));
    CHECK(mesh.ask(request_for(shown, "uid-1")).contains("patch"));
    const json::object first =
        inject_test::apply_patch(pod, patch_of(mesh.ask(request_for(pod, "uid-2"))));
    json::object copy = first;
    copy.at("metadata").as_object()["name"] = "copy";
    CHECK(mesh.ask(request_for(copy, "uid-3")).contains("patch"));
    mesh.clock.advance(std::chrono::seconds(10));
    CHECK(mesh.ask(request_for(first, "uid-4")).contains("patch"));
    CHECK(mesh.secrets.size() == 4);
  }

  TEST_CASE("an injected pod that is created anew becomes another proxy") {
    Mesh mesh;
    const json::object pod = golden_pod("probes").pod;
    const json::object first = inject_test::apply_patch(pod, patch_of(mesh.ask(request_for(pod))));
    mesh.clock.advance(std::chrono::seconds(10));
    const json::object copy =
        inject_test::apply_patch(first, patch_of(mesh.ask(request_for(first, "uid-2"))));
    CHECK(uuid_of(copy) != uuid_of(first));
    CHECK_FALSE(contains(json::serialize(copy), uuid_of(first)));
    CHECK(mesh.secrets.size() == 2);
  }

  TEST_CASE("a dry run has the patch and leaves nothing behind") {
    Mesh mesh;
    json::object request = request_for(golden_pod("plain").pod);
    request["dryRun"] = true;
    const json::object response = mesh.ask(request);
    CHECK(response.at("allowed") == true);
    CHECK(response.contains("patch"));
    CHECK(mesh.secrets.empty());
    CHECK(mesh.certificates.issued() == 0);
  }

  TEST_CASE("a pod without injection is allowed unchanged, at no cost") {
    Mesh mesh;
    json::object host = golden_pod("plain").pod;
    host.at("spec").as_object()["hostNetwork"] = true;
    json::object update = request_for(golden_pod("plain").pod);
    update["operation"] = "UPDATE";
    json::object other = request_for(golden_pod("plain").pod);
    other["kind"].as_object()["kind"] = "Deployment";
    const json::object told = mesh.ask(request_for(host));
    CHECK_FALSE(told.contains("patch"));
    CHECK(contains(std::string(told.at("warnings").at(0).as_string()), "spec.hostNetwork is true"));
    for (const json::object& request : {update, other}) {
      const json::object response = mesh.ask(request);
      CHECK(response == json::object{{"uid", "uid-1"}, {"allowed", true}});
    }
    CHECK(mesh.secrets.empty());
    CHECK(mesh.certificates.issued() == 0);
  }

  TEST_CASE("any failure refuses the pod, with its cause and the remedy") {
    const json::object pod = golden_pod("plain").pod;
    Mesh mesh;
    mesh.storage = Error{ErrorCode::kPermissionDenied, "secrets is forbidden"};
    CHECK(contains(message_of(mesh.ask(request_for(pod))),
                   "osm-injector cannot inject the sidecar: Secret shop/envoy-bootstrap-config-"));
    mesh.storage = {};
    mesh.certificates.set_failure(Error{ErrorCode::kUnavailable, "the CA is away"});
    CHECK(
        contains(message_of(mesh.ask(request_for(pod))), "the proxy certificate: the CA is away"));
    mesh.certificates.set_failure(std::nullopt);
    mesh.config = Error{ErrorCode::kNotReady, "the MeshConfig has not been read yet"};
    CHECK(contains(message_of(mesh.ask(request_for(pod))), "has not been read yet"));
    mesh.config = MeshConfig{};
    json::object elsewhere = request_for(pod);
    elsewhere["namespace"] = "new";
    CHECK(contains(message_of(mesh.ask(elsewhere)), "Namespace new: try again"));
    elsewhere["namespace"] = "../secrets";
    CHECK(contains(message_of(mesh.ask(elsewhere)), "'../secrets' is no namespace"));
    json::object bad = pod;
    bad["metadata"].as_object()["annotations"] =
        json::object{{"openservicemesh.io/sidecar-injection", "maybe"}};
    CHECK(contains(message_of(mesh.ask(request_for(bad))), "'maybe' is neither enabled nor"));
    CHECK(mesh.secrets.empty());
    CHECK(mesh.certificates.list_certificates().empty());
    CHECK(mesh.metrics.value("osm_injector_requests_total", {{"outcome", "refused"}}) == 6);
  }

  TEST_CASE("a body that is no review is refused and counted") {
    Mesh mesh;
    CHECK(json::parse(mesh.injector->review("{}").body).at("response").at("allowed") == false);
    CHECK(mesh.metrics.value("osm_injector_requests_total", {{"outcome", "malformed"}}) == 1);
  }

  TEST_CASE("warnings reach the creator of the pod") {
    Mesh mesh;
    const json::object response = mesh.ask(request_for(golden_pod("old-cluster").pod));
    CHECK(contains(std::string(response.at("warnings").at(0).as_string()), "user 1500"));
  }

  TEST_CASE("a copy in a pod whose mesh lets many in at once is no other's") {
    Mesh mesh({.per_second_per_namespace = 100});
    std::vector<std::jthread> threads;
    for (int worker = 0; worker < 8; ++worker) {
      threads.emplace_back([&mesh, worker] {
        for (int i = 0; i < 20; ++i)
          mesh.ask(request_for(golden_pod("plain").pod,
                               std::to_string(worker) + '-' + std::to_string(i)));
      });
    }
    threads.clear();
    CHECK(mesh.secrets.size() == 160);
    CHECK(mesh.certificates.list_certificates().empty());
  }

  TEST_CASE(
      "the key in the paths of hooks is this request's alone, and the UUID does not tell it") {
    Mesh mesh;
    const json::object pod = golden_pod("hooks").pod;
    const auto path_of = [&](const std::string& uid) {
      const json::object patched =
          inject_test::apply_patch(pod, patch_of(mesh.ask(request_for(pod, uid))));
      const json::value& hook =
          patched.at("spec").at("containers").at(0).at("lifecycle").at("preStop").at("httpGet");
      const std::string path(hook.at("path").as_string());
      CHECK_FALSE(contains(path, uuid_of(patched)));
      CHECK(path.size() == std::string("/osm-pre-stop-hook/web/").size() + 36);
      return path;
    };
    CHECK(path_of("uid-1") == path_of("uid-1"));
    CHECK(path_of("uid-1") != path_of("uid-2"));
  }

  TEST_CASE("no key is in an answer or in the log") {
    Mesh mesh;
    const std::string answer = json::serialize(mesh.ask(request_for(golden_pod("plain").pod)));
    for (const BootstrapFile& file : mesh.secrets.begin()->second.files) {
      if (file.name != "sds_key.pem") continue;
      CHECK_FALSE(contains(answer, file.content));
      CHECK_FALSE(contains(mesh.log.all_text(), file.content));
    }
  }

  TEST_CASE("lines about refused pods are bounded for each namespace") {
    Mesh mesh;
    mesh.any_namespace = true;
    mesh.config = Error{ErrorCode::kUnavailable, "no MeshConfig yet"};
    const auto refuse = [&](const std::string& ns) {
      json::object request = request_for(golden_pod("plain").pod);
      request["namespace"] = ns;
      CHECK(mesh.ask(request).at("allowed") == false);
    };
    for (int i = 0; i < 100; ++i) refuse("shop");
    CHECK(mesh.log.count("pod refused") == 10);
    refuse("cart");
    CHECK(mesh.log.lines_with("pod refused").back().fields.at("namespace") == "cart");
    mesh.clock.advance(std::chrono::seconds(10));
    refuse("shop");
    CHECK(mesh.log.lines_with("pod refused").back().fields.at("left_out") == "90");
    CHECK(mesh.log.count("pod refused") == 12);
  }

  TEST_CASE("injections beyond a rate are refused for now, with the flag and without a Secret") {
    Mesh mesh;
    const json::object pod = golden_pod("plain").pod;
    int allowed = 0;
    json::object last;
    const auto flood = [&](int count) {
      for (int i = 0; i < count; ++i) {
        last = mesh.ask(request_for(pod, "uid-" + std::to_string(++mesh.asked)));
        allowed += last.at("allowed") == true;
      }
    };
    flood(150);
    CHECK(allowed == 100);  // five seconds' worth of 20
    CHECK(mesh.secrets.size() == 100);
    CHECK(mesh.certificates.issued() == 100);
    CHECK(last.at("status").at("code") == 429);
    CHECK(last.at("status").at("reason") == "TooManyRequests");
    CHECK(last.at("status").at("details").at("retryAfterSeconds") == 1);
    CHECK(contains(message_of(last), "namespace shop has more than 20 injections a second"));
    CHECK(contains(message_of(last), "--max-injections-per-second-per-namespace"));
    CHECK(mesh.metrics.value("osm_injector_limited_total", {{"limit", "namespace_rate"}}) == 50);
    CHECK(mesh.metrics.value("osm_injector_requests_total", {{"outcome", "limited"}}) == 50);
    CHECK(mesh.log.lines_with("beyond a limit").size() == 10);
    mesh.clock.advance(std::chrono::seconds(2));
    flood(100);
    CHECK(allowed == 140);
  }

  TEST_CASE("a flood in one namespace leaves injections for the others, up to the rate of all") {
    Mesh mesh({.per_second = 30, .per_second_per_namespace = 20});
    mesh.any_namespace = true;
    const auto flood = [&](const char* ns) {
      int allowed = 0;
      for (int i = 0; i < 200; ++i) {
        json::object request = request_for(golden_pod("plain").pod, std::to_string(++mesh.asked));
        request["namespace"] = ns;
        allowed += mesh.ask(std::move(request)).at("allowed") == true;
      }
      return allowed;
    };
    CHECK(flood("one") == 100);
    CHECK(flood("two") == 50);
    CHECK(mesh.metrics.value("osm_injector_limited_total", {{"limit", "rate"}}) == 50);
  }

  TEST_CASE("dry runs, and pods without a sidecar, have no rate") {
    Mesh mesh({.per_second = 1, .per_second_per_namespace = 1});
    for (int i = 0; i < 50; ++i) {
      json::object request = request_for(golden_pod("plain").pod);
      request["dryRun"] = true;
      CHECK(mesh.ask(request).at("allowed") == true);
      request = request_for(golden_pod("plain").pod);
      request["operation"] = "UPDATE";
      CHECK(mesh.ask(request).at("allowed") == true);
    }
    CHECK(mesh.ask(request_for(golden_pod("plain").pod)).contains("patch"));
  }

  TEST_CASE("no more Secrets than the bound wait for their pods") {
    Mesh mesh({.waiting_secrets = 20, .waiting_secrets_per_namespace = 10});
    const auto ask = [&] {
      return mesh.ask(request_for(golden_pod("plain").pod, "uid-" + std::to_string(++mesh.asked)));
    };
    mesh.waiting = WaitingSecrets{7, {{"shop", 7}}};
    for (int i = 0; i < 3; ++i)
      CHECK(ask().at("allowed") == true);  // reports do not count them yet
    const json::object full = ask();
    CHECK(full.at("status").at("code") == 429);
    CHECK(contains(message_of(full),
                   "namespace shop has 10 bootstrap Secrets whose Pod has not "
                   "come, the limit (--max-waiting-secrets-per-namespace)"));
    CHECK(contains(message_of(full), "--client-ca-file"));
    CHECK(mesh.secrets.size() == 3);
    mesh.clock.advance(std::chrono::seconds(11));
    mesh.waiting = WaitingSecrets{19, {{"shop", 9}}};
    CHECK(ask().at("allowed") == true);
    CHECK(message_of(ask()).find("--max-waiting-secrets-per-namespace") != std::string::npos);
    mesh.waiting = WaitingSecrets{19, {}};
    CHECK(contains(message_of(ask()), "the mesh has 20 bootstrap Secrets"));
    mesh.waiting = WaitingSecrets{};
    CHECK(ask().at("allowed") == true);
    CHECK(mesh.metrics.value("osm_injector_limited_total", {{"limit", "namespace_secrets"}}) == 2);
    CHECK(mesh.metrics.value("osm_injector_limited_total", {{"limit", "secrets"}}) == 1);
  }

  TEST_CASE("while nobody reports which pods came, each injection counts as a waiting Secret") {
    Mesh mesh({.waiting_secrets_per_namespace = 3});
    json::object last;
    for (int i = 0; i < 4; ++i) {
      mesh.clock.advance(std::chrono::hours(1));
      last = mesh.ask(request_for(golden_pod("plain").pod, "uid-" + std::to_string(i)));
    }
    CHECK(mesh.secrets.size() == 3);
    CHECK(contains(message_of(last), "no osm-controller reports"));
    mesh.waiting = WaitingSecrets{};
    CHECK(mesh.ask(request_for(golden_pod("plain").pod)).at("allowed") == true);
  }
}
