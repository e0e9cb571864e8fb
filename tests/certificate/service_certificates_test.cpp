// Each identity gets its own certificate, and failed issuance is retried with back-off.
#include "certificate/service_certificates.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "certificate/made_ca.hpp"
#include "certificate/manager_fixture.hpp"
#include "model/names.hpp"
#include "osm/certificate/kept_certificate.hpp"

using namespace osm;
using namespace osm::certificate;
using namespace osm::certificate::testing;

namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

const Error kCaDown{ErrorCode::kUnavailable, "CA unreachable"};
const TrustDomain kDomain("cluster.local");
const ServiceIdentity kBuyer{"shop", "buyer"};
const ServiceIdentity kStore{"shop", "store"};

struct Fixture : certificate::testing::ManagerFixture {
  Fixture() {
    source = std::make_unique<ServiceCertificates>(ServiceCertificatesOptions{
        .manager = *manager, .runtime = runtime, .trust_domain = kDomain, .validity = [this] {
          return validity;
        }});
    subscription = source->subscribe([this](const std::optional<ServiceIdentity>& identity) {
      identity ? heard.push_back(*identity) : static_cast<void>(++bundles);
    });
    executor.run_until_idle();
  }
  ~Fixture() {
    subscription.reset();
    source.reset();
  }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  CertificatePtr ready(const ServiceIdentity& identity) {
    (void)source->certificate_for(identity);
    executor.run_until_idle();
    CertificatePtr got = source->certificate_for(identity);
    REQUIRE(got);
    return got;
  }

  seconds validity = hours(48);
  std::unique_ptr<ServiceCertificates> source;
  Subscription subscription;
  std::vector<ServiceIdentity> heard;
  int bundles = 0;  // changes of the trust bundle that were heard of
};

}  // namespace

TEST_SUITE("certificate::ServiceCertificates") {
  TEST_CASE("no account has the controller's DNS name") {
    const auto controller = controller_subject(TrustDomain("svc"), "osm-system");
    CHECK(controller.dns_names == std::vector<std::string>{"osm-controller.osm-system.svc"});
    const ServiceIdentity same{"osm-system", "osm-controller"};
    CHECK(service_subject(TrustDomain("svc"), same).dns_names.empty());
    CHECK(service_subject(kDomain, same).dns_names ==
          std::vector<std::string>{"osm-controller.osm-system.cluster.local"});
  }

  TEST_CASE("asking starts the issuance without waiting, and tells when it is there") {
    Fixture f;
    CHECK(f.source->certificate_for(kBuyer) == nullptr);
    CHECK(f.source->certificate_for(kBuyer) == nullptr);
    CHECK(f.ca.attempts == 0);  // not in the asking thread
    f.executor.run_until_idle();
    CHECK(f.heard == std::vector<ServiceIdentity>{kBuyer});
    const auto got = f.source->certificate_for(kBuyer);
    REQUIRE(got);
    CHECK(f.ca.total == 1);
    CHECK(got->subject == Subject{model::service_common_name(kDomain, kBuyer),
                                  spiffe_id(kDomain, kBuyer),
                                  Usage::kWorkload,
                                  {model::service_common_name(kDomain, kBuyer).str()}});
    CHECK(f.source->certificate_for(kBuyer) == got);
  }

  TEST_CASE("every identity gets its own certificate and no other's") {
    Fixture f;
    std::set<std::string> fingerprints;
    for (int i = 0; i < 100; ++i) {
      const ServiceIdentity identity{"ns" + std::to_string(i % 7), "sa" + std::to_string(i)};
      const auto got = f.ready(identity);
      CHECK(got->subject.spiffe_id == spiffe_id(kDomain, identity));
      fingerprints.insert(got->fingerprint);
    }
    CHECK(fingerprints.size() == 100);
  }

  TEST_CASE("a rotation is announced by identity, and the old certificate is served until then") {
    Fixture f;
    const auto old = f.ready(kBuyer);
    f.ready(kStore);
    f.heard.clear();
    const auto rotated = f.manager->rotate_certificate(old->subject.common_name);
    REQUIRE(rotated.ok());
    CHECK(f.source->certificate_for(kBuyer) == old);
    f.executor.run_until_idle();
    CHECK(f.heard == std::vector<ServiceIdentity>{kBuyer});
    CHECK(f.source->certificate_for(kBuyer) == *rotated);
  }

  TEST_CASE("certificates of others in the same manager are not announced") {
    Fixture f;
    f.issue("controller");
    REQUIRE(f.manager->rotate_certificate(certificate::testing::workload("controller").common_name)
                .ok());
    f.executor.run_until_idle();
    CHECK(f.heard.empty());
  }

  TEST_CASE("a changed trust bundle is announced once for all identities") {
    Fixture f;
    const auto buyer = f.ready(kBuyer);
    f.ready(kStore);
    f.heard.clear();
    f.ca.bundle = "roots-2";
    f.executor.run_for(minutes(1));
    CHECK(f.bundles == 1);
    CHECK(f.heard.empty());
    CHECK(f.source->trust_bundle_pem() == f.ca.bundle_pem());
    CHECK(f.source->certificate_for(kBuyer) == buyer);
    CHECK(f.ca.total == 2);
  }

  TEST_CASE("a peer of a root that left the trust bundle is refused, whenever it shook hands") {
    Fixture f;
    const std::string leaf = f.ready(kBuyer)->chain_pem;
    const std::string own_root = f.ca.root_pem;
    const auto code = [&](const std::string& pem, const std::string& chain = "") {
      const Status checked = f.source->check_peer(pem, chain);
      return checked.ok() ? ErrorCode::kInternal : checked.error().code;
    };
    const WallTime now = f.clock.wall_now();
    const Made other = make_ca("other root", now);
    const Made between = make_ca("intermediate", now, &other);
    const Wanted wanted{.common_name = "proxy",
                        .extensions = {{"keyUsage", "critical,digitalSignature"}},
                        .not_before = now - hours(1),
                        .not_after = now + hours(24)};
    const openssl::Key key = new_key();
    const std::string below = x509::to_pem(*make_certificate(wanted, *key, &between)).value();

    f.ca.root_pem = own_root + other.pem();
    CHECK_FALSE(f.source->trust_bundle_pem().empty());
    CHECK(code(leaf) == ErrorCode::kInternal);
    CHECK(code(below, between.pem()) == ErrorCode::kInternal);
    f.ca.root_pem = other.pem();
    CHECK(code(leaf) == ErrorCode::kInvalidCertificate);
    CHECK(code(below, between.pem()) == ErrorCode::kInternal);
    CHECK(code(below) == ErrorCode::kInternal);  // a resumed session has no chain
    f.ca.root_pem = own_root;
    CHECK(code(leaf) == ErrorCode::kInternal);
    CHECK(code(below, between.pem()) == ErrorCode::kInvalidCertificate);
    CHECK(code(below) == ErrorCode::kInvalidCertificate);
    f.clock.advance(hours(48));
    CHECK(code(below) == ErrorCode::kInternal);  // that it has ended is told elsewhere
  }

  TEST_CASE("a name that another subject holds is asked for again until it is free") {
    Fixture f;
    Subject other = certificate::testing::workload("other");
    other.common_name = model::service_common_name(kDomain, kBuyer);
    REQUIRE(f.manager->issue_certificate(other, hours(48)).ok());
    CHECK(f.source->certificate_for(kBuyer) == nullptr);
    f.executor.run_for(minutes(10));
    CHECK(f.source->certificate_for(kBuyer) == nullptr);
    CHECK(f.log.count("service certificate not issued") == 1);
    CHECK(f.log.count("identity=shop/buyer") == 1);
    f.manager->release_certificate(other.common_name);
    f.executor.run_for(minutes(2));
    CHECK(f.source->certificate_for(kBuyer) != nullptr);
    CHECK(f.heard == std::vector<ServiceIdentity>{kBuyer});
    CHECK(f.executor.timers() == 1);
  }

  TEST_CASE("issuing that fails is tried again with growing pauses until it succeeds") {
    Fixture f;
    f.ca.failure = kCaDown;
    CHECK(f.source->certificate_for(kBuyer) == nullptr);
    f.executor.run_for(minutes(10));
    CHECK(f.source->certificate_for(kBuyer) == nullptr);
    CHECK(f.ca.attempts >= 9);   // 1 + 2 + 4 ... s, each at most that long
    CHECK(f.ca.attempts <= 12);  // and at least half of it
    CHECK(f.heard.empty());
    CHECK(f.log.count("certificate not issued") == 1);
    CHECK(f.log.count("common_name=buyer.shop.cluster.local") == 1);
    f.ca.failure.reset();
    f.executor.run_for(minutes(5));
    CHECK(f.source->certificate_for(kBuyer) != nullptr);
    CHECK(f.heard == std::vector<ServiceIdentity>{kBuyer});
  }

  TEST_CASE("identities that failed together do not come back together") {
    Fixture f;
    f.ca.failure = kCaDown;
    for (int i = 0; i < 300; ++i) (void)f.source->certificate_for({"ns", std::to_string(i)});
    f.executor.run_for(minutes(20));
    int most_in_a_second = 0;
    for (int i = 0; i < 600; ++i) {
      const int before = f.ca.attempts;
      f.executor.run_for(seconds(1));
      most_in_a_second = std::max(most_in_a_second, f.ca.attempts - before);
    }
    CHECK(most_in_a_second < 30);
  }

  TEST_CASE(
      "in another trust domain each identity gets its new name, and keeps the old meanwhile") {
    Fixture f;
    const TrustDomain domain("new.example");
    const auto old = f.ready(kBuyer);
    f.ready(kStore);
    f.heard.clear();
    f.ca.while_issuing = [&] { CHECK(f.source->certificate_for(kBuyer)); };
    f.source->set_trust_domain(domain);
    CHECK(f.source->certificate_for(kBuyer) == old);
    f.executor.run_until_idle();
    CHECK(std::set<ServiceIdentity>(f.heard.begin(), f.heard.end()) ==
          std::set<ServiceIdentity>{kBuyer, kStore});
    for (const ServiceIdentity& identity : {kBuyer, kStore}) {
      const auto now = f.source->certificate_for(identity);
      CHECK(now->subject == Subject{model::service_common_name(domain, identity),
                                    spiffe_id(domain, identity),
                                    Usage::kWorkload,
                                    {model::service_common_name(domain, identity).str()}});
    }
    for (const auto& held : f.manager->list_certificates())  // nothing of the old names
      CHECK(model::trust_domain_of(held->subject.spiffe_id) == domain);
    CHECK(f.manager->list_certificates().size() == 2);

    f.heard.clear();
    REQUIRE(f.manager->rotate_certificate(model::service_common_name(domain, kBuyer)).ok());
    f.executor.run_until_idle();
    CHECK(f.heard == std::vector<ServiceIdentity>{kBuyer});
    f.source->release(kBuyer);
    f.source->release(kStore);
    f.executor.run_until_idle();
    CHECK(f.manager->list_certificates().empty());
  }

  TEST_CASE("a name that cannot be issued leaves the old one in use, renewed, until it can") {
    Fixture f;
    const TrustDomain domain("new.example");
    const auto old = f.ready(kBuyer);
    f.ca.failure = kCaDown;
    f.source->set_trust_domain(domain);
    f.executor.run_for(seconds(10));
    CHECK(f.source->certificate_for(kBuyer) == old);
    f.ca.failure.reset();
    const auto renewed = f.manager->rotate_certificate(old->subject.common_name);
    REQUIRE(renewed.ok());
    f.ca.failure = kCaDown;
    f.executor.run_until_idle();
    CHECK(f.source->certificate_for(kBuyer) == *renewed);
    SUBCASE("and then it is") {
      f.ca.failure.reset();
      f.executor.run_for(minutes(6));
      CHECK(f.source->certificate_for(kBuyer)->subject.spiffe_id == spiffe_id(domain, kBuyer));
    }
    SUBCASE("or the change is taken back") {
      f.ca.failure.reset();
      f.source->set_trust_domain(kDomain);
      f.executor.run_for(minutes(6));
      CHECK(f.source->certificate_for(kBuyer) == *renewed);
    }
    CHECK(f.manager->list_certificates().size() == 1);
    f.source->release(kBuyer);
    f.executor.run_until_idle();
    CHECK(f.manager->list_certificates().empty());
  }

  TEST_CASE("an identity released while its new name is issued leaves nothing behind") {
    Fixture f;
    f.ready(kBuyer);
    f.ca.while_issuing = [&] {
      f.source->release(kBuyer);
      f.source->set_trust_domain(TrustDomain("third.example"));
    };
    f.source->set_trust_domain(TrustDomain("new.example"));
    f.executor.run_until_idle();
    CHECK(f.manager->list_certificates().empty());
  }

  TEST_CASE("release forgets the certificate here and in the manager") {
    Fixture f;
    const std::weak_ptr<const Certificate> weak = f.ready(kBuyer);
    f.source->release(kBuyer);
    f.source->release(kStore);  // never asked for
    f.executor.run_until_idle();
    CHECK(weak.expired());
    CHECK(f.manager->list_certificates().empty());
    CHECK(f.source->certificate_for(kBuyer) == nullptr);
    f.executor.run_until_idle();
    CHECK(f.source->certificate_for(kBuyer) != nullptr);
    CHECK(f.ca.total == 2);
  }

  TEST_CASE("an identity released before or while it is issued leaves nothing behind") {
    Fixture f;
    (void)f.source->certificate_for(kBuyer);
    f.source->release(kBuyer);
    f.executor.run_until_idle();
    CHECK(f.ca.total == 0);
    f.ca.while_issuing = [&] { f.source->release(kStore); };
    (void)f.source->certificate_for(kStore);
    f.executor.run_until_idle();
    CHECK(f.ca.total == 1);
    CHECK(f.manager->list_certificates().empty());
    CHECK(f.heard.empty());
  }

  TEST_CASE("an identity asked for again right after its release keeps its certificate") {
    Fixture f;
    const auto old = f.ready(kBuyer);
    f.source->release(kBuyer);
    (void)f.source->certificate_for(kBuyer);
    f.executor.run_until_idle();
    CHECK(f.source->certificate_for(kBuyer) == old);
    CHECK(f.ca.total == 1);
  }

  TEST_CASE("a released identity is not tried again") {
    Fixture f;
    f.ca.failure = kCaDown;
    (void)f.source->certificate_for(kBuyer);
    f.executor.run_for(seconds(10));
    f.source->release(kBuyer);
    f.executor.run_until_idle();
    const int attempts = f.ca.attempts;
    f.executor.run_for(hours(1));
    CHECK(f.ca.attempts == attempts);
    CHECK(f.executor.timers() == 1);  // the manager's tick
  }

  TEST_CASE("a new validity holds from the next renewal, without issuing at once") {
    Fixture f;
    f.ready(kBuyer);
    f.validity = hours(24);
    f.executor.run_for(minutes(2));
    CHECK(f.ca.total == 1);
    f.executor.run_for(hours(32));
    REQUIRE(f.ca.total >= 2);
    CHECK(f.ca.last.validity <= hours(24));
    CHECK(f.ca.last.validity >= hours(21));
  }

  TEST_CASE("a thousand ask and release cycles leave nothing") {
    Fixture f;
    for (int i = 0; i < 1000; ++i) {
      const ServiceIdentity identity{"ns", "sa" + std::to_string(i % 5)};
      f.ready(identity);
      f.source->release(identity);
      f.executor.run_until_idle();
    }
    CHECK(f.manager->list_certificates().empty());
    CHECK(f.executor.timers() == 1);
    CHECK(f.ca.total == 1000);
  }

  TEST_CASE("workloads stay certified through a week with outages and a jumping calendar") {
    Fixture f;
    for (int i = 0; i < 200; ++i) f.ready({"ns", "sa" + std::to_string(i)});
    std::map<int, std::function<void()>> events{
        {30, [&] { f.ca.failure = kCaDown; }},
        {36, [&] { f.ca.failure.reset(); }},
        {60, [&] { f.clock.set_wall(f.clock.wall_now() + hours(72)); }},
        {90, [&] { f.clock.set_wall(f.clock.wall_now() - hours(24)); }},
    };
    for (int hour = 0; hour < 168; ++hour) {
      if (const auto event = events.find(hour); event != events.end()) event->second();
      f.executor.run_for(hours(1));
      for (int i = 0; i < 200; ++i) {
        const auto current = f.source->certificate_for({"ns", "sa" + std::to_string(i)});
        REQUIRE(current);
        REQUIRE(f.valid(*current));
        REQUIRE(current->not_after - f.clock.wall_now() > hours(8));
      }
    }
    CHECK(f.manager->list_certificates().size() == 200);
  }

  TEST_CASE("two sources over one manager do not release each other's certificates") {
    Fixture f;
    auto other = std::make_unique<ServiceCertificates>(ServiceCertificatesOptions{
        .manager = *f.manager, .runtime = f.runtime, .trust_domain = kDomain, .validity = [] {
          return hours(48);
        }});
    f.ready(kBuyer);
    CHECK(other->certificate_for(kBuyer));
    const auto check_is_kept = [&](ServiceCertificates& source) {
      f.executor.run_for(hours(60));
      REQUIRE(source.certificate_for(kBuyer));
      CHECK(f.valid(*source.certificate_for(kBuyer)));
    };
    SUBCASE("when an account has no proxy in one mesh any more") {
      f.source->release(kBuyer);
      check_is_kept(*other);
      (void)f.source->certificate_for(kBuyer);
      f.source->release(kBuyer);
      (void)f.source->certificate_for(kBuyer);  // before the release was done
      f.executor.run_until_idle();
      f.source->release(kBuyer);
      check_is_kept(*other);
      other->release(kBuyer);
      f.executor.run_until_idle();
    }
    SUBCASE("when one mesh ends") {
      f.source->stop();
      check_is_kept(*other);
      other.reset();
    }
    CHECK(f.manager->list_certificates().empty());
  }

  TEST_CASE("a source that has stopped uses nothing that it borrowed") {
    Fixture f;
    f.ready(kBuyer);
    int asked = 0;
    auto stopped = std::make_unique<ServiceCertificates>(ServiceCertificatesOptions{
        .manager = *f.manager, .runtime = f.runtime, .trust_domain = kDomain, .validity = [&] {
          ++asked;
          return hours(10);
        }});
    CHECK(stopped->certificate_for(kBuyer));
    stopped->stop();
    asked = 0;
    f.executor.run_for(hours(60));  // the manager renews for the other source
    CHECK(asked == 0);
    CHECK(f.ca.last.validity > hours(9) - seconds(1));
    CHECK(f.ca.last.validity <= hours(10));  // the last one that was said
    CHECK(stopped->certificate_for(kStore) == nullptr);
    CHECK(stopped->trust_bundle_pem().empty());
    stopped->release(kBuyer);
    stopped->set_trust_domain(TrustDomain("new.example"));
    stopped.reset();
    CHECK(f.valid(*f.source->certificate_for(kBuyer)));
    CHECK(f.manager->list_certificates().size() == 1);
  }

  TEST_CASE("a source may be destroyed with work queued") {
    Fixture f;
    (void)f.source->certificate_for(kBuyer);
    f.subscription.reset();
    f.source.reset();
    f.executor.run_for(hours(1));
    CHECK(f.ca.total == 0);
    CHECK(f.heard.empty());
  }
}
