// A proxy learns if its certificate is current, and gets one for its own workload only.
#include "control_plane/proxy_renewals.hpp"

#include <doctest/doctest.h>
#include <openssl/sha.h>

#include <optional>

#include "certificate/local_issuer.hpp"
#include "certificate/service_certificates.hpp"
#include "model/names.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/certificate/request.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"
#include "osm/testing/memory_mesh_spec.hpp"

namespace {

using namespace osm;
using std::chrono::hours;

namespace wire = openservicemesh::certificate::v1;

const TrustDomain kDomain{"cluster.local"};
const ProxyId kId{"11111111-1111-4111-8111-111111111111"};

// The one CA, until it is another.
class ChangingIssuer final : public certificate::Issuer {
 public:
  explicit ChangingIssuer(const Clock& clock) : clock_(clock) { change(); }
  void change() {
    ca_ = certificate::make_local_issuer(certificate::make_root_pem(clock_).value().pem(), kDomain,
                                         clock_)
              .value();
    bundle_ += ca_->trust_bundle_pem();
  }
  Result<std::string> sign(const certificate::SigningRequest& request) override {
    return ca_->sign(request);
  }
  std::string trust_bundle_pem() const override { return bundle_; }
  std::string id() const override { return ca_->id(); }
  WallTime not_after() const override { return ca_->not_after(); }

 private:
  const Clock& clock_;
  std::shared_ptr<certificate::Issuer> ca_;
  std::string bundle_;
};

struct NoRandom final : Rng {
  std::uint64_t next() override { return 0; }
};

struct Rig {
  testing::ManualClock clock;
  testing::ManualExecutor executor{clock};
  testing::CapturingLog log;
  testing::CapturingMetrics metrics;
  NoRandom rng;
  testing::MemoryMeshSpec spec;
  TrustDomains domain{kDomain};
  ChangingIssuer* issuer = nullptr;
  std::vector<certificate::Requester> requesters;
  std::unique_ptr<certificate::Manager> manager = make();
  Workload workload{.name = {"shop", "web-1"},
                    .proxy_id = kId,
                    .account = {"shop", "web"},
                    .address = "10.0.0.1",
                    .ports = {},
                    .services = {}};
  control_plane::ProxyRenewals renewals{
      {.certificates = *manager,
       .spec = spec,
       .runtime = {executor, executor, clock, rng, log, metrics},
       .trust_domains = [this] { return domain; },
       .proxy_subject = [this](const Workload& of) { return subject(of); },
       .issue =
           [this](const Workload& of, const std::string& request, auto validity,
                  const certificate::Requester& requester) {
             requesters.push_back(requester);
             return manager->certify_request(subject(of), request, validity, requester);
           },
       .workload_subject =
           [this](const Workload& of) {
             return certificate::service_subject(domain.signing, identity_of(of.account));
           },
       .issue_workload =
           [this](const Workload& of, const std::string& request, auto validity,
                  const certificate::Requester& requester) {
             requesters.push_back(requester);
             return manager->certify_request(
                 certificate::service_subject(domain.signing, identity_of(of.account)), request,
                 validity, requester);
           }}};
  certificate::CertificatePtr mine = certified();

  std::unique_ptr<certificate::Manager> make() {
    auto made = std::make_unique<ChangingIssuer>(clock);
    issuer = made.get();
    return certificate::make_manager(
        {.issuer = std::move(made), .runtime = {executor, executor, clock, rng, log, metrics}});
  }
  certificate::Subject subject(const Workload& of) const {
    return {model::proxy_common_name(of.proxy_id, {of.name.ns, of.name.name}),
            model::proxy_spiffe_id(domain.signing, {of.proxy_id, of.account}),
            certificate::Usage::kProxy};
  }
  certificate::CertificatePtr certified() {
    const auto made = certificate::make_request(subject(workload)).value();
    return manager->certify_request(subject(workload), made.request_pem, hours(24)).value();
  }
  // As TLS would show it.
  ads::RenewalQuestion question(const std::string& request_pem = "") const {
    ads::RenewalQuestion question;
    question.peer = ads::identify_peer({kDomain}, {{mine->subject.spiffe_id.str()},
                                                   mine->subject.common_name.str(),
                                                   mine->chain_pem,
                                                   "ipv4:10.0.0.1:1"})
                        .value();
    question.workload =
        std::make_shared<const model::WorkloadEntry>(model::WorkloadEntry{{"shop", kId}, workload});
    question.request.set_request_pem(request_pem);
    return question;
  }
  std::optional<ads::RenewalAnswer> ask(ads::RenewalQuestion question) {
    std::optional<ads::RenewalAnswer> answer;
    renewals.answer(std::move(question), [&](ads::RenewalAnswer given) { answer = given; });
    executor.run_until_idle();
    return answer;
  }
  wire::RenewCertificateResponse told(const std::string& bundle = "") {
    ads::RenewalQuestion asked = question();
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(bundle.data()), bundle.size(), digest);
    asked.request.set_trust_bundle_sha256(digest, sizeof digest);
    return ask(std::move(asked)).value().value();
  }
  // Something that the CA of now signed, as in any mesh with proxies.
  void issue_a_leaf(const std::string& name) {
    REQUIRE(manager
                ->issue_certificate({CommonName(name + ".shop.cluster.local"),
                                     SpiffeId("spiffe://cluster.local/ns/shop/sa/" + name)},
                                    hours(24))
                .ok());
  }
};

}  // namespace

TEST_SUITE("control_plane::ProxyRenewals") {
  TEST_CASE("a certificate is current until two thirds of its life are over") {
    Rig rig;
    CHECK(rig.told().certificate_current());
    rig.clock.advance(hours(15));
    CHECK(rig.told().certificate_current());
    rig.clock.advance(hours(2));
    CHECK_FALSE(rig.told().certificate_current());
  }

  TEST_CASE(
      "a certificate that lives longer is current until two thirds of MeshConfig's validity") {
    Rig rig;
    const auto made = certificate::make_request(rig.subject(rig.workload)).value();
    const auto answer = rig.ask(rig.question(made.request_pem)).value();
    REQUIRE_MESSAGE(answer.ok(), answer.error().text());
    rig.mine = std::make_shared<certificate::Certificate>(
        certificate::check_answer({.subject = rig.mine->subject,
                                   .request_pem = made.request_pem,
                                   .chain_pem = answer->certificate_chain_pem(),
                                   .trust_bundle_pem = answer->trust_bundle_pem(),
                                   .validity = certificate::proxy_certificate_life(hours(720))},
                                  rig.clock)
            .value());
    CHECK(rig.mine->not_after - rig.clock.wall_now() ==
          hours(720) + certificate::kProxyRenewalGrace);
    rig.clock.advance(hours(24 * 19));
    CHECK(rig.told().certificate_current());
    MeshConfig shorter;
    shorter.certificates.proxy_validity = hours(24 * 20);
    rig.spec.set_mesh_config(shorter);
    CHECK_FALSE(rig.told().certificate_current());
    rig.spec.set_mesh_config({});
    rig.clock.advance(hours(24 * 2));
    CHECK_FALSE(rig.told().certificate_current());
  }

  TEST_CASE("a certificate of a CA that does not sign any more is not current") {
    Rig rig;
    rig.issue_a_leaf("web");
    CHECK(rig.told().certificate_current());
    rig.issuer->change();
    // Nothing was signed yet by which the new one could be known.
    CHECK(rig.told().certificate_current());
    rig.clock.advance(std::chrono::seconds(1));
    rig.issue_a_leaf("api");
    CHECK_FALSE(rig.told().certificate_current());
    rig.mine = rig.certified();
    CHECK(rig.told().certificate_current());
  }

  TEST_CASE("a certificate with another name than the proxy would get now is not current") {
    Rig rig;
    rig.domain = TrustDomain("example.org");
    CHECK_FALSE(rig.told().certificate_current());
    CHECK(rig.told().spiffe_id().find("spiffe://example.org/osm/proxy/") == 0);
  }

  TEST_CASE("a machine gets its workload's certificate over a key of its own") {
    Rig rig;
    MeshConfig config;
    config.certificates.service_validity = hours(6);
    rig.spec.set_mesh_config(config);
    const auto told = rig.told();
    CHECK(told.workload_validity_seconds() == 6 * 3600);
    const certificate::Subject subject{
        CommonName(told.workload_common_name()),
        SpiffeId(told.workload_spiffe_id()),
        certificate::Usage::kWorkload,
        {told.workload_dns_names().begin(), told.workload_dns_names().end()}};
    // As Envoys get it by SDS.
    CHECK(subject == certificate::service_subject(kDomain, {"shop", "web"}));
    const auto made = certificate::make_request(subject).value();
    ads::RenewalQuestion asked = rig.question();
    asked.request.set_workload_request_pem(made.request_pem);
    const auto answer = rig.ask(std::move(asked)).value();
    REQUIRE_MESSAGE(answer.ok(), answer.error().text());
    CHECK(answer->certificate_chain_pem().empty());  // the proxy's was not asked for
    CHECK(certificate::check_answer({.subject = subject,
                                     .request_pem = made.request_pem,
                                     .chain_pem = answer->workload_certificate_chain_pem(),
                                     .trust_bundle_pem = answer->trust_bundle_pem(),
                                     .validity = hours(6)},
                                    rig.clock)
              .ok());
  }

  TEST_CASE("a machine gets no certificate of another workload") {
    Rig rig;
    for (const auto& subject :
         {certificate::service_subject(kDomain, {"shop", "other"}),
          certificate::service_subject(kDomain, {"other", "web"}), rig.subject(rig.workload)}) {
      ads::RenewalQuestion asked = rig.question();
      asked.request.set_workload_request_pem(
          certificate::make_request(subject).value().request_pem);
      const auto answer = rig.ask(std::move(asked)).value();
      REQUIRE_FALSE(answer.ok());
      CHECK(answer.error().code == ErrorCode::kInvalidArgument);
    }
  }

  TEST_CASE("every answer has the names that the controller may have") {
    Rig rig;
    REQUIRE(rig.told().controller_spiffe_ids_size() == 1);
    CHECK(rig.told().controller_spiffe_ids(0) == "spiffe://cluster.local/osm/controller");
    rig.domain.accepted = {kDomain, TrustDomain("new.example")};
    REQUIRE(rig.told().controller_spiffe_ids_size() == 2);
    CHECK(rig.told().controller_spiffe_ids(1) == "spiffe://new.example/osm/controller");
  }

  TEST_CASE("a certificate of the previous root under old names is not current") {
    Rig rig;
    rig.issue_a_leaf("web");
    rig.domain = TrustDomain("other.example");
    CHECK_FALSE(rig.told().certificate_current());  // by its name
    rig.domain = kDomain;
    rig.mine = rig.certified();
    CHECK(rig.told().certificate_current());
    REQUIRE(rig.manager
                ->issue_certificate({CommonName("a.of.the.root.before"),
                                     SpiffeId("spiffe://cluster.local/ns/shop/sa/a")},
                                    hours(24))
                .ok());
    CHECK(rig.told().certificate_current());
  }

  TEST_CASE("a proxy without the trust bundle gets it, whatever its certificate") {
    Rig rig;
    const std::string before = rig.manager->trust_bundle_pem();
    CHECK(rig.told(before).trust_bundle_pem().empty());
    CHECK(rig.told("").trust_bundle_pem() == before);
    rig.issuer->change();
    CHECK(rig.told(before).trust_bundle_pem() == rig.manager->trust_bundle_pem());
    CHECK(rig.told(before).trust_bundle_pem() != before);
  }

  TEST_CASE("an answer has the subject and the kind of key to request") {
    Rig rig;
    CHECK(rig.told().common_name() == rig.mine->subject.common_name.str());
    CHECK(rig.told().spiffe_id() == rig.mine->subject.spiffe_id.str());
    CHECK(rig.told().key_type() == wire::KEY_TYPE_ECDSA_P256);
    MeshConfig config;
    config.certificates.key_type = KeyType::kRsa;
    config.certificates.rsa_bits = 3072;
    rig.spec.set_mesh_config(config);
    CHECK(rig.told().key_type() == wire::KEY_TYPE_RSA);
    CHECK(rig.told().rsa_key_bits() == 3072);
  }

  TEST_CASE("a request is certified, for the workload's own proxy and over its own key") {
    Rig rig;
    const certificate::Subject subject = rig.subject(rig.workload);
    const auto made = certificate::make_request(subject).value();
    const auto answer = rig.ask(rig.question(made.request_pem)).value();
    REQUIRE(rig.requesters.size() == 1);
    CHECK(rig.requesters[0].reason == certificate::IssueReason::kRenewal);
    CHECK(rig.requesters[0].address == "10.0.0.1:1");
    CHECK(rig.requesters[0].identity == rig.mine->subject.spiffe_id.str());
    REQUIRE_MESSAGE(answer.ok(), answer.error().text());
    const auto taken =
        certificate::check_answer({.subject = subject,
                                   .request_pem = made.request_pem,
                                   .chain_pem = answer->certificate_chain_pem(),
                                   .trust_bundle_pem = answer->trust_bundle_pem(),
                                   .validity = certificate::proxy_certificate_life(hours(720))},
                                  rig.clock);
    REQUIRE_MESSAGE(taken.ok(), taken.error().text());
    CHECK(taken->serial_number != rig.mine->serial_number);
  }

  TEST_CASE("a request for another proxy's name is refused, whoever signed it") {
    Rig rig;
    Workload other = rig.workload;
    other.proxy_id = ProxyId("22222222-2222-4222-8222-222222222222");
    certificate::Subject renamed = rig.subject(rig.workload);
    renamed.common_name = CommonName("controller.osm-system");
    certificate::Subject workloads = rig.subject(rig.workload);
    workloads.spiffe_id = SpiffeId("spiffe://cluster.local/ns/shop/sa/web");
    for (const certificate::Subject& subject : {rig.subject(other), renamed, workloads}) {
      const auto made = certificate::make_request(subject).value();
      const auto answer = rig.ask(rig.question(made.request_pem)).value();
      REQUIRE_FALSE(answer.ok());
      CHECK(answer.error().code == ErrorCode::kInvalidArgument);
    }
    CHECK(rig.ask(rig.question("no request"))->error().code == ErrorCode::kInvalidArgument);
  }

  TEST_CASE("no certificate is issued after the stop") {
    Rig rig;
    rig.renewals.stop();
    const auto made = certificate::make_request(rig.subject(rig.workload)).value();
    CHECK_FALSE(rig.ask(rig.question(made.request_pem)));
  }
}
