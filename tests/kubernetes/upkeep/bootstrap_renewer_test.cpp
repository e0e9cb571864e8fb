// Certificates in bootstrap Secrets are renewed at a limited rate.
#include "kubernetes/upkeep/bootstrap_renewer.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <set>

#include "base/base64.hpp"
#include "kubernetes/source/pods_yaml.hpp"
#include "kubernetes/upkeep/secret_keeper.hpp"
#include "kubernetes/upkeep/upkeep_fixture.hpp"
#include "osm/testing/memory_certificate_manager.hpp"

using namespace osm;
using namespace osm::kubernetes;
using namespace osm::kubernetes_test;
using namespace std::chrono_literals;
using osm::testing::PodSpec;
using osm::testing::uuid_of;

namespace {

constexpr std::chrono::hours kYear{24 * 365};

// Remembers whom certificates were made for.
class RecordingManager final : public certificate::Manager {
 public:
  explicit RecordingManager(certificate::Manager& manager) : manager_(manager) {}

  Result<certificate::CertificatePtr> issue_certificate(
      const certificate::Subject& subject, std::chrono::seconds validity,
      const certificate::Requester& requester) override {
    subjects.push_back(subject);
    return manager_.issue_certificate(subject, validity, requester);
  }
  Result<certificate::CertificatePtr> keep_certificate(
      const certificate::Subject& subject,
      std::function<std::chrono::seconds()> validity) override {
    return manager_.keep_certificate(subject, std::move(validity));
  }
  Result<certificate::CertificatePtr> rotate_certificate(const CommonName& name) override {
    return manager_.rotate_certificate(name);
  }
  Result<certificate::CertificatePtr> certify_request(
      const certificate::Subject& subject, const std::string& request_pem,
      std::chrono::seconds validity, const certificate::Requester& requester) override {
    return manager_.certify_request(subject, request_pem, validity, requester);
  }
  void release_certificate(const CommonName& name) override { manager_.release_certificate(name); }
  std::vector<certificate::CertificatePtr> list_certificates() const override {
    return manager_.list_certificates();
  }
  std::string trust_bundle_pem() const override { return manager_.trust_bundle_pem(); }
  std::string issuer_id() const override { return manager_.issuer_id(); }
  Subscription subscribe(
      std::function<void(const certificate::CertificatePtr&)> on_issued) override {
    return manager_.subscribe(std::move(on_issued));
  }
  Subscription subscribe_ca(std::function<void()> on_change) override {
    return manager_.subscribe_ca(std::move(on_change));
  }

  std::vector<certificate::Subject> subjects;

 private:
  certificate::Manager& manager_;
};

struct Fixture : UpkeepFixture {
  std::chrono::seconds validity = 720h;

  Fixture() {
    put_namespace("shop", "osm");
    // The control plane's own certificate, whose renewal the renewer is told of.
    REQUIRE(certificates.issue_certificate(own, kYear).ok());
  }

  void start() {
    const ProxyCertificateUpkeep renewed_by{recording, [this] { return domains; },
                                            [this] { return validity; },
                                            [this] { return denials; }};
    keeper.emplace(UpkeepOptions{.cluster = cluster,
                                 .runtime = runtime,
                                 .replica = "a",
                                 .secrets = SecretUpkeep{store, renewed_by}},
                   [this] { return leads; });
    told =
        store.subscribe([this](const std::vector<ObjectKey>& keys) { keeper->on_objects(keys); });
    executor.run_for(2s);
  }

  void put_namespace(const std::string& name, const std::string& mesh) {
    Object object;
    object.key = {kinds::kNamespace, "", name};
    object.labels["openservicemesh.io/monitored-by"] = mesh;
    store.put(std::move(object));
  }
  void put_pod(int n, const std::string& account = "books", PodSpec pod = {}) {
    pod.name = "web-" + std::to_string(n);
    pod.uuid = uuid_of(n);
    pod.account = account;
    REQUIRE(osm::testing::put_objects(store, osm::testing::pod_yaml(pod)));
  }

  static std::string name_of(int n) { return "envoy-bootstrap-config-" + uuid_of(n); }
  // As the injector of today makes it with the certificates of now; without `annotated` as one of
  // before.
  void put_secret(int n, bool annotated = true, const std::string& ns = "shop") {
    const auto made = inject::issue_pod_certificate(certificates, domains, ProxyId(uuid_of(n)),
                                                    {ns, "books"}, validity);
    REQUIRE(made.ok());
    json::object data{{"bootstrap.yaml", base64("node: {}")}}, annotations{{"theirs", "kept"}};
    for (const auto& file : made->files) data[file.name] = base64(file.content);
    if (annotated)
      for (const auto& [key, value] : made->annotations) annotations[key] = value;
    put(kSecrets,
        {{"metadata",
          {{"name", name_of(n)},
           {"namespace", ns},
           {"labels", {{kNameLabel, kNameLabelValue}, {kInstanceLabel, "osm"}, {"theirs", "kept"}}},
           {"annotations", std::move(annotations)}}},
         {"type", "Opaque"},
         {"data", std::move(data)}});
  }
  void put_pod_and_secret(int n, bool annotated = true) {
    put_secret(n, annotated);
    put_pod(n);
  }

  void own_by(int n, const std::string& pod, const std::string& uid,
              const std::string& ns = "shop") {
    api.edit(kSecrets, ns, name_of(n), [&](json::object& object) {
      object["metadata"].as_object()["ownerReferences"] = json::array{
          json::object{{"apiVersion", "v1"}, {"kind", "Pod"}, {"name", pod}, {"uid", uid}}};
    });
  }

  json::object secret(int n, const std::string& ns = "shop") {
    return api.at(kSecrets, ns, name_of(n));
  }
  std::string file(int n, const std::string& name, const std::string& ns = "shop") {
    const json::object held = secret(n, ns);
    return *from_base64(text_at(map_at(held, "data"), name));
  }
  std::string source_of(int n) {
    const json::object held = secret(n);
    return text_at(map_at(map_at(held, "metadata"), "annotations"),
                   inject::kCertificateSourceAnnotation);
  }
  std::string source_now() const {
    return inject::certificate_source(certificates.issuer_id(), certificates.trust_bundle_pem(),
                                      domains, validity);
  }
  std::size_t fresh(int count) {
    std::size_t fresh = 0;
    for (int n = 0; n < count; ++n) fresh += source_of(n) == source_now();
    return fresh;
  }
  void change_issuer(const std::string& id) {
    certificates.set_issuer_id(id);
    REQUIRE(certificates.rotate_certificate(own.common_name).ok());
  }
  void fail_patches_of(int n, ErrorCode code) {
    api.set_fault([name = name_of(n), code](const std::string& call) {
      return call == "patch secrets shop/" + name ? Status(Error{code, "no"}) : Status();
    });
  }
  double renewed() { return metrics.value("osm_bootstrap_secrets_renewed_total"); }

  const certificate::Subject own{CommonName("ads"), SpiffeId("spiffe://cluster.local/ads"),
                                 certificate::Usage::kController};
  bool leads = true;
  TrustDomains domains{TrustDomain("cluster.local")};
  Denials denials;
  testing::MemoryCertificateManager certificates{clock};
  RecordingManager recording{certificates};
  std::optional<SecretKeeper> keeper;
  Subscription told;
};

}  // namespace

TEST_SUITE("kubernetes::BootstrapRenewer") {
  TEST_CASE_FIXTURE(Fixture,
                    "another trust bundle is in every Secret at once, and counted till then") {
    for (int n = 0; n < 10; ++n) put_pod_and_secret(n);
    start();
    CHECK(keeper->stale() == 0);
    CHECK(renewed() == 0);
    certificates.set_trust_bundle_pem("both roots");
    CHECK(keeper->stale() == std::nullopt);
    executor.run_for(1s);
    CHECK(keeper->stale() == 0);
    CHECK(renewed() == 10);
    for (int n = 0; n < 10; ++n) CHECK(file(n, "cacert.pem") == "both roots");
    executor.run_for(1h);
    CHECK(renewed() == 10);
  }

  TEST_CASE_FIXTURE(Fixture, "a Secret of OSM v1.2 is neither renewed nor counted") {
    put_pod_and_secret(1, false);
    own_by(1, "web-1", "uid-web-1");
    api.edit(kSecrets, "shop", name_of(1), [](json::object& object) {
      object["metadata"].as_object()["labels"].as_object()[kVersionLabel] = "v1.2.4";
    });
    start();
    executor.run_for(1h);
    CHECK(keeper->stale() == 0);
    CHECK(renewed() == 0);
    CHECK(file(1, "bootstrap.yaml") == "node: {}");
  }

  TEST_CASE_FIXTURE(Fixture, "a denied pod keeps its Secret, and gets no certificate") {
    for (int n = 0; n < 3; ++n) put_pod_and_secret(n);
    denials.proxies[ProxyId(uuid_of(1))] = {{kinds::kDenylist, "osm-system", "a"}, "stolen"};
    start();
    certificates.set_trust_bundle_pem("both roots");
    executor.run_for(2s);
    CHECK(renewed() == 2);
    CHECK(keeper->stale() == 0);
    CHECK(file(1, "cacert.pem") != "both roots");
    CHECK(file(2, "cacert.pem") == "both roots");
  }

  TEST_CASE_FIXTURE(Fixture, "another CA signs every Secret's certificate, for its Pod's account") {
    put_secret(1);
    put_pod(1, "sellers");
    start();
    const std::string before = file(1, "sds_cert.pem");
    change_issuer("next");
    executor.run_for(1s);
    CHECK(keeper->stale() == 0);
    CHECK(file(1, "sds_cert.pem") != before);
    CHECK(file(1, "sds_cert.pem").ends_with(" of " + uuid_of(1) + ".shop"));
    CHECK(file(1, "sds_key.pem").ends_with(" of " + uuid_of(1) + ".shop"));
    CHECK(source_of(1) == source_now());
    REQUIRE(recording.subjects.size() == 1);
    CHECK(recording.subjects[0].usage == certificate::Usage::kProxy);
    CHECK(recording.subjects[0].spiffe_id.str() ==
          "spiffe://cluster.local/osm/pod/" + uuid_of(1) + "/shop/sellers");
    // The Secret has the certificate, nobody else.
    CHECK(certificates.list_certificates().size() == 1);
  }

  TEST_CASE_FIXTURE(
      Fixture,
      "other trust domains are in every Secret: the name of its certificate, and those "
      "that the control plane may have") {
    put_pod_and_secret(1);
    start();
    domains.signing = TrustDomain("new.example");
    domains.accepted = {TrustDomain("cluster.local"), TrustDomain("new.example")};
    CHECK(keeper->stale() == std::nullopt);
    executor.run_for(2min);
    CHECK(keeper->stale() == 0);
    CHECK(renewed() == 1);
    const std::string names = file(1, "validation_context_sds_secret.yaml");
    for (const char* domain : {"cluster.local", "new.example"})
      CHECK_MESSAGE(names.find(std::string("{exact: \"spiffe://") + domain +
                               "/osm/controller\"}") != std::string::npos,
                    names);
    CHECK(names.find("filename: \"/etc/envoy/cacert.pem\"") != std::string::npos);
  }

  TEST_CASE_FIXTURE(Fixture, "only the certificate and its annotations of a Secret are written") {
    put_pod_and_secret(1);
    start();
    json::object before = secret(1);
    certificates.set_trust_bundle_pem("both roots");
    executor.run_for(1s);
    json::object after = secret(1);
    CHECK(before != after);
    for (json::object* object : {&before, &after}) {
      json::object& metadata = object->at("metadata").as_object();
      metadata.erase("resourceVersion");
      for (const char* key :
           {inject::kCertificateSourceAnnotation, inject::kRenewCertificateAfterAnnotation})
        CHECK(metadata.at("annotations").as_object().erase(key) == 1);
      for (const char* key :
           {"sds_key.pem", "sds_cert.pem", "cacert.pem", "validation_context_sds_secret.yaml"})
        CHECK(object->at("data").as_object().erase(key) == 1);
    }
    CHECK(before == after);
    CHECK(text_at(map_at(after, "data"), "bootstrap.yaml") == base64("node: {}"));
  }

  TEST_CASE_FIXTURE(Fixture,
                    "a Secret of an injector that said nothing of its certificate gets another") {
    start();
    put_pod_and_secret(1, false);
    executor.run_for(2s);
    CHECK(source_of(1) == source_now());
    CHECK(renewed() == 1);
    CHECK(keeper->stale() == 0);
  }

  TEST_CASE_FIXTURE(Fixture,
                    "a certificate of the present CA is left alone until two thirds of its life") {
    put_pod_and_secret(1);
    start();
    clock.advance(24h * 17);
    executor.run_for(2min);
    CHECK(renewed() == 0);
    clock.advance(24h * 4);
    executor.run_for(2min);
    CHECK(renewed() == 1);
    executor.run_for(1h);
    CHECK(renewed() == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "another validity in MeshConfig renews all certificates") {
    put_pod_and_secret(1);
    start();
    CHECK(renewed() == 0);
    validity = 24h;
    executor.run_for(2min);
    CHECK(renewed() == 1);
    CHECK(source_of(1) == source_now());
  }

  TEST_CASE_FIXTURE(Fixture, "certificates of one minute are not all renewed in one minute") {
    for (int n = 0; n < 100; ++n) put_pod_and_secret(n);
    start();
    std::set<std::string> times;
    for (int n = 0; n < 100; ++n) {
      const json::object held = secret(n);
      times.insert(text_at(map_at(map_at(held, "metadata"), "annotations"),
                           inject::kRenewCertificateAfterAnnotation));
    }
    CHECK(times.size() > 60);
    CHECK(times.begin()->size() == std::string("2024-01-01T00:00:00Z").size());
  }

  TEST_CASE_FIXTURE(Fixture, "twenty a second are written, and new Pods do not wait for that") {
    for (int n = 0; n < 200; ++n) put_pod_and_secret(n);
    start();
    executor.run_for(2min);
    certificates.set_trust_bundle_pem("both roots");
    executor.run_for(4s);
    CHECK(renewed() > 80);
    CHECK(renewed() < 110);
    CHECK(*keeper->stale() + static_cast<std::size_t>(renewed()) == 200);
    put_secret(200);
    put_pod(200);
    executor.run_for(1500ms);
    CHECK_FALSE(list_at(map_at(secret(200), "metadata"), "ownerReferences").empty());
    executor.run_for(10s);
    CHECK(fresh(201) == 201);
    CHECK(keeper->stale() == 0);
  }

  TEST_CASE_FIXTURE(Fixture, "a CA that is away is asked again, and the log says so once") {
    for (int n = 0; n < 3; ++n) put_pod_and_secret(n);
    start();
    certificates.set_trust_bundle_pem("both roots");
    certificates.set_failure(Error{ErrorCode::kUnavailable, "the CA is away"});
    executor.run_for(1min);
    CHECK(keeper->stale() == 3);
    CHECK(log.lines_with("does not get a new proxy certificate").size() == 1);
    certificates.set_failure(std::nullopt);
    executor.run_for(7s);
    CHECK(fresh(3) == 3);
    CHECK(keeper->stale() == 0);
  }

  TEST_CASE_FIXTURE(Fixture, "a Secret that cannot be written keeps none of the others waiting") {
    for (int n = 0; n < 5; ++n) put_pod_and_secret(n);
    start();
    ErrorCode code = ErrorCode::kPermissionDenied;
    std::chrono::seconds within = 1s;
    SUBCASE("refused") {}
    SUBCASE("behind an admission webhook that is away") {
      code = ErrorCode::kUnavailable;
      within = 6s;
    }
    fail_patches_of(1, code);
    certificates.set_trust_bundle_pem("both roots");
    executor.run_for(within);
    CHECK(fresh(5) == 4);
    CHECK(keeper->stale() == 1);
    executor.run_for(10min);
    CHECK(log.lines_with(name_of(1)).size() == 1);
    api.set_fault({});
    executor.run_for(2min);
    CHECK(fresh(5) == 5);
    CHECK(keeper->stale() == 0);
  }

  TEST_CASE_FIXTURE(Fixture, "a Secret that changed in between is read again") {
    put_pod_and_secret(1);
    start();
    int conflicts = 2;
    api.set_fault([&](const std::string& call) {
      return call.starts_with("patch secrets") && conflicts-- > 0
                 ? Status(Error{ErrorCode::kConflict, "changed"})
                 : Status();
    });
    certificates.set_trust_bundle_pem("both roots");
    executor.run_for(2s);
    CHECK(fresh(2) == 1);
    CHECK(log.lines_with("does not get").empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a Secret that became another's in between is not written") {
    put_pod_and_secret(1);
    start();
    bool taken = false;
    api.set_fault([&](const std::string& call) -> Status {
      if (call.starts_with("patch secrets") && !std::exchange(taken, true))
        api.edit(kSecrets, "shop", name_of(1), [](json::object& object) {
          object["metadata"].as_object()["labels"].as_object()[kInstanceLabel] = "another-mesh";
        });
      return {};
    });
    certificates.set_trust_bundle_pem("both roots");
    executor.run_for(2min);
    CHECK(taken);
    CHECK(file(1, "cacert.pem") == "roots");
    CHECK(keeper->stale() == 0);
  }

  TEST_CASE_FIXTURE(Fixture, "a Secret whose Pod is heard of later is renewed then") {
    put_secret(1, false);
    own_by(1, "web-1", "uid-web-1");
    start();
    CHECK(renewed() == 0);
    put_pod(1);
    executor.run_for(2s);
    CHECK(renewed() == 1);
  }

  TEST_CASE_FIXTURE(Fixture,
                    "an API server that does not list is asked again before anything is said") {
    put_pod_and_secret(1);
    start();
    api.set_fault([](const std::string& call) {
      return call.starts_with("list") ? Status(Error{ErrorCode::kUnavailable, "away"}) : Status();
    });
    certificates.set_trust_bundle_pem("both roots");
    executor.run_for(20s);
    CHECK(keeper->stale() == std::nullopt);
    api.set_fault({});
    executor.run_for(7s);
    CHECK(keeper->stale() == 0);
    CHECK(file(1, "cacert.pem") == "both roots");
  }

  TEST_CASE_FIXTURE(Fixture, "a replica without the Lease neither writes nor counts") {
    put_pod_and_secret(1);
    leads = false;
    start();
    certificates.set_trust_bundle_pem("both roots");
    executor.run_for(5min);
    CHECK(keeper->stale() == std::nullopt);
    CHECK(renewed() == 0);
    leads = true;
    keeper->on_acquired();
    CHECK(keeper->stale() == std::nullopt);
    executor.run_for(1s);
    CHECK(keeper->stale() == 0);
    CHECK(file(1, "cacert.pem") == "both roots");
    leads = false;
    CHECK(keeper->stale() == std::nullopt);
  }

  TEST_CASE_FIXTURE(Fixture, "before every Pod is known nothing is known of Secrets") {
    put_pod_and_secret(1);
    store.set_synced(false);
    start();
    executor.run_for(10s);
    CHECK(keeper->stale() == std::nullopt);
    store.set_synced(true);
    executor.run_for(7s);
    CHECK(keeper->stale() == 0);
  }

  TEST_CASE_FIXTURE(Fixture,
                    "a CA that changes while Secrets are written is the one they end with") {
    for (int n = 0; n < 60; ++n) put_pod_and_secret(n);
    start();
    executor.run_for(1min);
    certificates.set_trust_bundle_pem("both roots");
    executor.run_for(1s);
    CHECK(*keeper->stale() > 0);
    change_issuer("next");
    CHECK(keeper->stale() == std::nullopt);
    executor.run_for(5s);
    CHECK(keeper->stale() == 0);
    CHECK(fresh(60) == 60);
  }

  TEST_CASE_FIXTURE(Fixture, "only bootstrap Secrets of Pods in the mesh are written or counted") {
    put_namespace("other", "other-mesh");
    PodSpec other;
    other.ns = "other";
    put_secret(1, false, "other");
    put_pod(1, "books", other);
    own_by(1, "web-1", "uid-web-1", "other");
    PodSpec without;
    without.secret = "another";
    put_secret(2, false);
    put_pod(2, "books", without);
    own_by(2, "web-2", "uid-web-2");
    put_secret(3, false);
    put_pod(3);
    own_by(3, "web-3", "uid-of-one-before");
    PodSpec ended;
    ended.phase = "Succeeded";
    put_secret(4, false);
    put_pod(4, "books", ended);
    own_by(4, "web-4", "uid-web-4");
    put_secret(5, false);
    put_pod(6);
    own_by(5, "web-6", "uid-web-6");
    api.forget_writes();
    start();
    certificates.set_trust_bundle_pem("both roots");
    executor.run_for(5min);
    CHECK(renewed() == 0);
    CHECK(keeper->stale() == 0);
    CHECK(api.writes().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "after the end no certificate is renewed") {
    put_pod_and_secret(1);
    start();
    told.reset();
    keeper.reset();
    certificates.set_trust_bundle_pem("both roots");
    executor.run_for(5min);
    CHECK(renewed() == 0);
    CHECK(executor.timers() == 0);
  }
}
