// The issuers of this project pass every clause, and each defect of an issuer fails its clause.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cert_manager/fake_cert_manager.hpp"
#include "conformance_run.hpp"
#include "lib/temporary_directory.hpp"
#include "osm/certificate/directory_ca.hpp"
#include "osm/notifier.hpp"
#include "osm/testing/issuer_conformance.hpp"
#include "osm/testing/manual_clock.hpp"
#include "vault/vault_fixture.hpp"

using namespace osm;
using namespace osm::testing;

namespace {

using certificate::Issuer;
using std::chrono::hours;
using std::chrono::seconds;

void passes(const IssuerPlatformFactory& platform, std::size_t not_applicable = 0) {
  // A busy machine needs longer than a developer's, for whom the defaults are.
  const ConformanceReport report = check_issuer(
      platform, {.clause_deadline = std::chrono::minutes(2), .call_limit = seconds(10)});
  judge(report, issuer_clauses(), not_applicable);
}

// The mesh's own CA, in a directory below `folder`.
std::unique_ptr<Issuer> own_ca(const TemporaryDirectory& folder, const std::string& name,
                               const Clock& clock) {
  const auto store = certificate::open_directory_ca_store(folder.file(name));
  REQUIRE_MESSAGE(store.ok(), store.error().text());
  auto issuer = certificate::load_or_create_ca(
      {.store = **store, .trust_domain = TrustDomain("cluster.local"), .clock = clock});
  REQUIRE_MESSAGE(issuer.ok(), issuer.error().text());
  return *std::move(issuer);
}

class OwnCa final : public IssuerPlatform {
 public:
  IssuerTraits traits() const override { return {.outages = false, .changes = false}; }
  std::unique_ptr<Issuer> open() override { return own_ca(folder_, "ca", clock_); }
  const Clock& clock() const override { return clock_; }
  void pass(seconds time) override { clock_.advance(time); }

 private:
  TemporaryDirectory folder_;
  ManualClock clock_;
};

class CaInVault final : public IssuerPlatform {
 public:
  std::unique_ptr<Issuer> open() override {
    fixture_.start();
    return std::move(fixture_.issuer);
  }
  const Clock& clock() const override { return fixture_.clock; }
  void pass(seconds time) override { fixture_.executor.run_for(time); }
  void set_reachable(bool reachable) override { fixture_.vault.set_sealed(!reachable); }
  void change_ca() override {
    auto root = certificate::testing::make_ca("another root", fixture_.clock.wall_now());
    auto intermediate = vault::testing::FakeVault::below(root);
    fixture_.vault.set_ca(std::move(root), std::move(intermediate));
  }

 private:
  vault::testing::VaultFixture fixture_;
};

class CaOfCertManager final : public IssuerPlatform {
 public:
  std::unique_ptr<Issuer> open() override { return fake_.made(); }
  const Clock& clock() const override { return fake_.clock; }
  void pass(seconds time) override { fake_.executor.run_for(time); }
  void expect(const certificate::Subject& subject) override { fake_.subject = subject; }
  void set_reachable(bool reachable) override {
    fake_.cluster.memory.set_fault([reachable](const std::string&) -> Status {
      if (reachable) return {};
      return Error{ErrorCode::kUnavailable, "connection refused"};
    });
  }
  void change_ca() override {  // over its key: another CA needs a MeshRootCertificate
    fake_.clock.advance(hours(24 * 100));
    fake_.authority.renew();
  }

 private:
  cert_manager_test::FakeCertManager fake_;
};

enum class Defect {
  kNone,
  kOtherCa,
  kExtends,
  kNoId,
  kOwnIds,
  kEndsEarly,
  kRefusesLong,
  kTakesAnything,
  kOneThread,
  kWrongCode,
  kForgets,
  kSilent,
  kKeepsBundle,
  kCallsLate,
};

// The CA behind issuers with a defect. Its parts change while no issuer is called.
struct Place {
  std::shared_ptr<Issuer> ca;     // signs
  std::shared_ptr<Issuer> other;  // another CA
  std::string first_bundle;
  std::atomic<bool> away{false};
  std::atomic<int> signing{0};
  std::atomic<int> opened{0};
  Notifier<> changed;
  std::vector<std::function<void()>> late;
};

class DefectIssuer final : public Issuer {
 public:
  DefectIssuer(Place& place, Defect defect, const Clock& clock)
      : place_(place), defect_(defect), clock_(clock), number_(++place.opened) {}

  Result<std::string> sign(const certificate::SigningRequest& given) override {
    if (place_.away)
      return Error{defect_ == Defect::kWrongCode ? ErrorCode::kInternal : ErrorCode::kUnavailable,
                   "the CA is away"};
    if (defect_ == Defect::kOneThread) {
      const int signing = ++place_.signing;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (place_.signing-- > 1 || signing > 1)
        return Error{ErrorCode::kInternal, "in use by another thread"};
    }
    certificate::SigningRequest request = given;
    if (defect_ == Defect::kExtends) request.validity *= 3;  // twice as long is taken
    if (defect_ == Defect::kRefusesLong &&
        request.validity > place_.ca->not_after() - clock_.wall_now())
      return Error{ErrorCode::kInvalidArgument, "the validity is too long"};
    auto chain = (defect_ == Defect::kOtherCa ? place_.other : place_.ca)->sign(request);
    if (!chain.ok() && defect_ == Defect::kTakesAnything) return std::string("a chain");
    return chain;
  }
  std::string trust_bundle_pem() const override {
    return defect_ == Defect::kKeepsBundle ? place_.first_bundle : place_.ca->trust_bundle_pem();
  }
  std::string id() const override {
    if (defect_ == Defect::kNoId || (place_.away && defect_ == Defect::kForgets)) return "";
    return place_.ca->id() + (defect_ == Defect::kOwnIds ? std::to_string(number_) : "");
  }
  WallTime not_after() const override {
    return place_.ca->not_after() - (defect_ == Defect::kEndsEarly ? hours(24 * 30) : hours(0));
  }
  Subscription subscribe(std::function<void()> on_change) override {
    if (defect_ == Defect::kCallsLate) place_.late.push_back(on_change);
    return place_.changed.subscribe(std::move(on_change));
  }

 private:
  Place& place_;
  const Defect defect_;
  const Clock& clock_;
  const int number_;
};

class DefectPlatform final : public IssuerPlatform {
 public:
  explicit DefectPlatform(Defect defect) : defect_(defect) {
    place_.ca = own_ca(folder_, "ca", clock_);
    place_.other = own_ca(folder_, "other", clock_);
    place_.first_bundle = place_.ca->trust_bundle_pem();
  }
  std::unique_ptr<Issuer> open() override {
    return std::make_unique<DefectIssuer>(place_, defect_, clock_);
  }
  const Clock& clock() const override { return clock_; }
  void pass(seconds time) override { clock_.advance(time); }
  void set_reachable(bool reachable) override { place_.away = !reachable; }
  void change_ca() override {
    std::swap(place_.ca, place_.other);
    if (defect_ != Defect::kSilent) place_.changed.notify();
    for (const auto& callback : place_.late) callback();
  }

 private:
  const Defect defect_;
  TemporaryDirectory folder_;
  ManualClock clock_;
  Place place_;
};

struct Case {
  Defect defect;
  const char* clause;
  const char* seen;  // a part of it
};
const std::vector<Case> kCases{
    {Defect::kOtherCa, "signs", ""},  // of the manager's check
    {Defect::kExtends, "signs", ""},
    {Defect::kNoId, "identity", "it is empty"},
    {Defect::kOwnIds, "identity", "' and '"},
    {Defect::kEndsEarly, "life", "one that ends after not_after()"},
    {Defect::kRefusesLong, "life", "the validity is too long"},
    {Defect::kTakesAnything, "refuses", "an answer"},
    {Defect::kOneThread, "concurrent", "in use by another thread"},
    {Defect::kWrongCode, "outage", "the CA is away"},
    {Defect::kForgets, "outage", "others"},
    {Defect::kSilent, "changes", "nothing"},
    {Defect::kKeepsBundle, "changes", ""},  // of the manager's check
    {Defect::kCallsLate, "changes", "one was called"},
};

}  // namespace

TEST_SUITE("check_issuer") {
  TEST_CASE("the mesh's own CA passes") {
    passes([] { return std::make_unique<OwnCa>(); }, 2);
  }

  TEST_CASE("the issuer over Vault passes") {
    passes([] { return std::make_unique<CaInVault>(); });
  }

  TEST_CASE("the issuer over cert-manager passes") {
    passes([] { return std::make_unique<CaOfCertManager>(); });
  }

  TEST_CASE("an issuer without a defect passes") {
    passes([] { return std::make_unique<DefectPlatform>(Defect::kNone); });
  }

  TEST_CASE("an issuer with a defect fails the clause about it, and says what it saw") {
    check_defects<Case, Defect>(kCases, [](const std::string& clause, Defect defect) {
      return check_issuer_clause(clause, [&] { return std::make_unique<DefectPlatform>(defect); });
    });
  }

  TEST_CASE("every clause has an issuer that fails it, and an unknown clause fails") {
    check_coverage(kCases, issuer_clauses(), check_issuer_clause("none", [] {
                     return std::make_unique<DefectPlatform>(Defect::kNone);
                   }));
  }
}
