// The audit sink is told of each certificate once, with its reason and requester.
#include "osm/certificate/audit.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "certificate/manager_fixture.hpp"
#include "osm/certificate/request.hpp"

using namespace osm;
using namespace osm::certificate;

namespace {

using certificate::testing::ManagerFixture;
using certificate::testing::workload;
using std::chrono::hours;
using std::chrono::minutes;

struct AuditRecord {
  std::string name, serial_number, root;
  Requester requester;
};

// Keeps what it is told, or throws.
struct RecordingSink final : AuditSink {
  void issued(const Certificate& certificate, const Requester& requester) override {
    const std::lock_guard lock(mutex);
    if (broken) throw std::runtime_error("no space");
    records.push_back({certificate.subject.common_name.str(), certificate.serial_number,
                       certificate.root_fingerprint, requester});
  }
  std::mutex mutex;
  std::vector<AuditRecord> records;
  bool broken = false;
};

struct AuditedFixture : ManagerFixture {
  AuditedFixture() {
    manager = make_manager({.issuer = std::make_unique<certificate::testing::FakeIssuer>(ca),
                            .runtime = runtime,
                            .audit = &sink});
    executor.run_until_idle();
  }
  ~AuditedFixture() { manager.reset(); }
  std::vector<std::string> reasons() const {
    std::vector<std::string> reasons;
    for (const AuditRecord& record : sink.records)
      reasons.emplace_back(issue_reason_text(record.requester.reason.value()));
    return reasons;
  }
  RecordingSink sink;
};

}  // namespace

TEST_SUITE("certificate::AuditSink") {
  TEST_CASE("the audit log has every certificate once, with its reason") {
    AuditedFixture f;
    using Reasons = std::vector<std::string>;
    const auto first = f.issue("buyer");
    CHECK(f.issue("buyer") == first);  // from the cache
    REQUIRE(f.reasons() == Reasons{"first"});
    CHECK(f.sink.records[0].name == first->subject.common_name.str());
    CHECK(f.sink.records[0].serial_number == first->serial_number);
    const openssl::CleanErrorQueue clean;
    CHECK(f.sink.records[0].root == x509::fingerprint(*f.ca.root).value());

    f.executor.run_for(hours(33));  // past two thirds of its life
    CHECK(f.reasons() == Reasons{"first", "renewal"});
    REQUIRE(f.manager->rotate_certificate(first->subject.common_name).ok());
    CHECK(f.reasons() == Reasons{"first", "renewal", "rotation"});
    f.ca.id = "ca-2";
    f.ca.changed.notify();
    f.executor.run_for(minutes(1));
    CHECK(f.reasons() == Reasons{"first", "renewal", "rotation", "rotation"});

    f.ca.failure = Error{ErrorCode::kUnavailable, "CA unreachable"};
    CHECK_FALSE(f.manager->rotate_certificate(first->subject.common_name).ok());
    CHECK(f.sink.records.size() == 4);  // nothing was issued
  }

  TEST_CASE("the audit log says who asked") {
    AuditedFixture f;
    const auto made = make_request(workload("buyer"));
    REQUIRE(made.ok());
    REQUIRE(f.manager
                ->certify_request(workload("buyer"), made->request_pem, hours(9),
                                  {IssueReason::kBootstrap, "10.0.0.1:1", "uid 0"})
                .ok());
    REQUIRE(f.manager
                ->issue_certificate(workload("store"), hours(9),
                                    {IssueReason::kInjection, "10.0.0.2:2", "somebody"})
                .ok());
    REQUIRE(f.reasons() == std::vector<std::string>{"bootstrap", "injection"});
    CHECK(f.sink.records[0].requester.identity == "uid 0");
    CHECK(f.sink.records[0].requester.address == "10.0.0.1:1");
    CHECK(f.sink.records[1].requester.identity == "somebody");
    CHECK(f.sink.records[1].requester.address == "10.0.0.2:2");
  }

  TEST_CASE("an audit log that fails stops no issuance") {
    AuditedFixture f;
    f.sink.broken = true;
    const auto issued = f.issue("buyer");
    REQUIRE(f.log.lines_with("the audit log failed").size() == 1);
    const auto line = f.log.lines_with("the audit log failed")[0];
    CHECK(line.level == LogLevel::kError);
    CHECK(line.fields.at("serial_number") == issued->serial_number);
  }
}
