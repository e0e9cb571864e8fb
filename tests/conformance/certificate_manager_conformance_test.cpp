// The certificate manager passes every clause, and each defect of a manager fails its clause.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "certificate/manager_fixture.hpp"
#include "conformance_run.hpp"
#include "osm/testing/certificate_manager_conformance.hpp"
#include "osm/testing/memory_certificate_manager.hpp"

using namespace osm;
using namespace osm::testing;

namespace {

using certificate::CertificatePtr;
using certificate::Manager;
using certificate::Requester;
using certificate::Subject;
using std::chrono::seconds;

void passes(const CertificateManagerPlatformFactory& platform, std::size_t not_applicable = 0) {
  // A busy machine needs longer than a developer's, for whom the defaults are.
  const ConformanceReport report =
      check_certificate_manager(platform, {.clause_deadline = std::chrono::minutes(2)});
  judge(report, certificate_manager_clauses(), not_applicable);
}

// The manager over a CA that tests steer.
class Managed : public CertificateManagerPlatform {
 public:
  std::unique_ptr<Manager> start() override { return std::move(fixture_.manager); }
  const Clock& clock() const override { return fixture_.clock; }
  void pass(seconds time) override { fixture_.executor.run_for(time); }
  void set_reachable(bool reachable) override {
    const std::lock_guard lock(fixture_.ca.mutex);
    fixture_.ca.failure.reset();
    if (!reachable) fixture_.ca.failure = Error{ErrorCode::kUnavailable, "the CA is away"};
  }
  void change_ca() override {
    {
      const std::lock_guard lock(fixture_.ca.mutex);
      fixture_.ca.id = "ca-2";
    }
    fixture_.ca.changed.notify();
  }

 protected:
  certificate::testing::ManagerFixture fixture_;
};

class InMemory final : public CertificateManagerPlatform {
 public:
  CertificateManagerTraits traits() const override { return {.renews = false, .checks = false}; }
  std::unique_ptr<Manager> start() override {
    auto manager = std::make_unique<MemoryCertificateManager>(clock_);
    manager_ = manager.get();
    return manager;
  }
  const Clock& clock() const override { return clock_; }
  void pass(seconds time) override { clock_.advance(time); }
  void set_reachable(bool reachable) override {
    std::optional<Error> failure;
    if (!reachable) failure = Error{ErrorCode::kUnavailable, "the CA is away"};
    manager_->set_failure(std::move(failure));
  }
  void change_ca() override { manager_->set_issuer_id("another"); }

 private:
  ManualClock clock_;
  MemoryCertificateManager* manager_ = nullptr;
};

enum class Defect {
  kNone,
  kNoKey,
  kOtherId,
  kNeverCaches,
  kUnordered,
  kTakesNames,
  kSilent,
  kReleasesAll,
  kNeverRenews,
  kGivesKeys,
  kForgets,
  kSilentCa,
};

class DefectManager final : public Manager {
 public:
  DefectManager(std::unique_ptr<Manager> inner, Defect defect, const std::atomic<bool>& away)
      : inner_(std::move(inner)), defect_(defect), away_(away) {}

  Result<CertificatePtr> issue_certificate(const Subject& subject, seconds validity,
                                           const Requester& requester) override {
    if (defect_ == Defect::kForgets && away_)
      return Error{ErrorCode::kUnavailable, "the CA is away"};
    if (defect_ == Defect::kNeverCaches)
      static_cast<void>(inner_->rotate_certificate(subject.common_name));
    auto got = inner_->issue_certificate(subject, validity, requester);
    if (!got.ok() && got.error().code == ErrorCode::kInvalidArgument &&
        defect_ == Defect::kTakesNames) {
      inner_->release_certificate(subject.common_name);
      got = inner_->issue_certificate(subject, validity, requester);
    }
    if (!got.ok() || defect_ != Defect::kNoKey) return got;
    auto without = std::make_shared<certificate::Certificate>();
    without->subject = subject;
    without->chain_pem = (*got)->chain_pem;
    return CertificatePtr(std::move(without));
  }
  Result<CertificatePtr> keep_certificate(const Subject& subject,
                                          std::function<seconds()> validity) override {
    return inner_->keep_certificate(subject, std::move(validity));
  }
  Result<CertificatePtr> rotate_certificate(const CommonName& name) override {
    return inner_->rotate_certificate(name);
  }
  Result<CertificatePtr> certify_request(const Subject& subject, const std::string& request_pem,
                                         seconds validity, const Requester& requester) override {
    if (defect_ == Defect::kGivesKeys)
      return inner_->issue_certificate(subject, validity, requester);
    return inner_->certify_request(subject, request_pem, validity, requester);
  }
  void release_certificate(const CommonName& name) override {
    for (int i = 0; i < (defect_ == Defect::kReleasesAll ? 3 : 1); ++i)
      inner_->release_certificate(name);
  }
  std::vector<CertificatePtr> list_certificates() const override {
    auto all = inner_->list_certificates();
    if (defect_ == Defect::kUnordered) std::ranges::reverse(all);
    return all;
  }
  std::string trust_bundle_pem() const override { return inner_->trust_bundle_pem(); }
  std::string issuer_id() const override {
    return defect_ == Defect::kOtherId ? "other" : inner_->issuer_id();
  }
  Subscription subscribe(std::function<void(const CertificatePtr&)> on_issued) override {
    if (defect_ == Defect::kSilent) return {};
    return inner_->subscribe(std::move(on_issued));
  }
  Subscription subscribe_ca(std::function<void()> on_change) override {
    if (defect_ == Defect::kSilentCa) return {};
    return inner_->subscribe_ca(std::move(on_change));
  }

 private:
  const std::unique_ptr<Manager> inner_;
  const Defect defect_;
  const std::atomic<bool>& away_;
};

class DefectPlatform final : public Managed {
 public:
  explicit DefectPlatform(Defect defect) : defect_(defect) {}
  std::unique_ptr<Manager> start() override {
    return std::make_unique<DefectManager>(Managed::start(), defect_, away_);
  }
  void pass(seconds time) override {
    if (defect_ == Defect::kNeverRenews)
      fixture_.clock.advance(time);
    else
      Managed::pass(time);
  }
  void set_reachable(bool reachable) override {
    away_ = !reachable;
    Managed::set_reachable(reachable);
  }

 private:
  const Defect defect_;
  std::atomic<bool> away_{false};
};

struct Case {
  Defect defect;
  const char* clause;
  const char* seen;  // a part of it
};
const std::vector<Case> kCases{
    {Defect::kNoKey, "issued", "one of them is missing"},
    {Defect::kOtherId, "issued", "'other'"},
    {Defect::kNeverCaches, "cached", "certificate "},
    {Defect::kUnordered, "cached", "3 in another order"},
    {Defect::kTakesNames, "names", "certificate "},
    {Defect::kNoKey, "concurrent", "certificate "},
    {Defect::kSilent, "rotates", "0 announcements"},
    {Defect::kSilent, "keeps", "nothing"},
    {Defect::kReleasesAll, "keeps", "it is gone"},
    {Defect::kNeverRenews, "renews", "one"},
    {Defect::kSilent, "renews", "0 announcements"},
    {Defect::kGivesKeys, "certifies", "a private key"},
    {Defect::kForgets, "outage", "the CA is away"},
    {Defect::kSilentCa, "changes", "0 announcements"},
};

}  // namespace

TEST_SUITE("check_certificate_manager") {
  TEST_CASE("the certificate manager passes") {
    passes([] { return std::make_unique<Managed>(); });
  }

  TEST_CASE("the manager in memory passes, and renews nothing") {
    passes([] { return std::make_unique<InMemory>(); }, 1);
  }

  TEST_CASE("a manager without a defect passes") {
    passes([] { return std::make_unique<DefectPlatform>(Defect::kNone); });
  }

  TEST_CASE("a manager with a defect fails the clause about it, and says what it saw") {
    check_defects<Case, Defect>(kCases, [](const std::string& clause, Defect defect) {
      return check_certificate_manager_clause(
          clause, [&] { return std::make_unique<DefectPlatform>(defect); });
    });
  }

  TEST_CASE("every clause has a manager that fails it, and an unknown clause fails") {
    check_coverage(kCases, certificate_manager_clauses(),
                   check_certificate_manager_clause(
                       "none", [] { return std::make_unique<DefectPlatform>(Defect::kNone); }));
  }
}
