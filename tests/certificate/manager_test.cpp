// Certificates are cached, renewed, rotated and released, also while the CA fails.
#include "osm/certificate/make_manager.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "certificate/manager_fixture.hpp"
#include "certificate/x509.hpp"
#include "lib/run.hpp"
#include "osm/certificate/request.hpp"

using namespace osm;
using namespace osm::certificate;

namespace {

using certificate::testing::ManagerFixture;
using certificate::testing::workload;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

const Error kCaDown{ErrorCode::kUnavailable, "CA unreachable"};

// Holds issuances up until it is opened.
class Gate {
 public:
  void wait() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  // True if a caller arrived within ten seconds.
  bool arrived() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(10), [&] { return waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  bool open_ = false;
};

openssl::Key requested_key(const SigningRequest& request) {
  const openssl::CleanErrorQueue clean;
  return openssl::Key(X509_REQ_get_pubkey(x509::parse_request(request.request_pem).value().get()));
}

// Common names that are one to who compares without case, cuts at 63 or 64 letters, drops a dot, or
// reads '_' as '-'; each for two accounts that resemble each other as much.
std::vector<Subject> subjects_alike() {
  const std::string longest(63, 'a');
  std::vector<std::string> names{
      "buyer.shop.cluster.local",  "Buyer.shop.cluster.local",   "BUYER.SHOP.CLUSTER.LOCAL",
      "buyer.shop.cluster.local.", ".buyer.shop.cluster.local",  "buyer..shop.cluster.local",
      "buyer.shop.cluster.loca",   "buyer-1.shop.cluster.local", "buyer_1.shop.cluster.local"};
  for (const char* rest : {"", "a", "ab", "b", ".shop", ".Shop"}) names.push_back(longest + rest);
  std::vector<Subject> subjects;
  for (const std::string& name : names)
    for (const char* account : {"buyer", "Buyer"})
      subjects.push_back({CommonName(name),
                          SpiffeId("spiffe://cluster.local/ns/shop/sa/" + std::string(account))});
  return subjects;
}

// By what is in it, and by what the manager says is.
void check_is_for(const Subject& subject, const Certificate& certificate) {
  const openssl::CleanErrorQueue clean;
  CHECK(certificate.subject == subject);
  const auto leaf = x509::parse_certificate(certificate.chain_pem).value();
  CHECK(x509::common_name(*X509_get_subject_name(leaf.get())) == subject.common_name.str());
  CHECK(x509::same_names(x509::alternative_names(*leaf), subject));
  const auto key = x509::parse_key(certificate.private_key.pem()).value();
  CHECK(X509_check_private_key(leaf.get(), key.get()) == 1);
}

}  // namespace

TEST_SUITE("certificate::Manager") {
  TEST_CASE("a certificate is issued once and served from the cache while it is fresh") {
    ManagerFixture f;
    const auto first = f.issue("buyer");
    CHECK(f.issue("buyer") == first);
    CHECK(f.ca.total == 1);
    CHECK(first->subject == workload("buyer"));
    CHECK_FALSE(first->issuer_key_id.empty());
    CHECK(first->issuer_id == "ca-1");
    const openssl::CleanErrorQueue clean;
    const auto leaf = x509::parse_certificate(first->chain_pem).value();
    const auto key = x509::parse_key(first->private_key.pem()).value();
    CHECK(X509_check_private_key(leaf.get(), key.get()) == 1);
    CHECK(x509::fingerprint(*leaf).value() == first->fingerprint);
    CHECK(f.metrics.value("osm_cert_issued_count") == 1);
    CHECK(f.metrics.observations("osm_cert_issued_time").size() == 1);
    CHECK(f.metrics.value("osm_cert_rotated_count") == 0);
  }

  TEST_CASE("a common name is held by one subject until it is released") {
    ManagerFixture f;
    f.issue("buyer");
    Subject thief = workload("thief");
    thief.common_name = workload("buyer").common_name;
    const auto refused = f.manager->issue_certificate(thief, hours(1));
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kInvalidArgument);
    CHECK(refused.error().message.find("held by another subject") != std::string::npos);
    f.manager->release_certificate(thief.common_name);
    CHECK(f.manager->issue_certificate(thief, hours(1)).ok());
  }

  TEST_CASE("random calls never return the certificate of a similar name") {
    ManagerFixture f;
    auto random = osm::testing::seeded();
    const auto pick = [&](std::size_t count) { return random() % count; };
    const std::vector<Subject> subjects = subjects_alike();
    std::map<std::string, Subject> holders;  // by common name
    std::set<std::string> keys;
    int held = 0, taken = 0;
    for (int step = 0; step < 2000; ++step) {
      CAPTURE(step);
      const Subject& subject = subjects[pick(subjects.size())];
      const std::string& name = subject.common_name.str();
      CAPTURE(name);
      const auto holder = holders.find(name);
      switch (pick(8)) {
        case 0:
          f.manager->release_certificate(subject.common_name);
          holders.erase(name);
          break;
        case 1:
          if (const auto rotated = f.manager->rotate_certificate(subject.common_name)) {
            REQUIRE(holder != holders.end());
            check_is_for(holder->second, **rotated);
          } else {
            CHECK(holder == holders.end());
          }
          break;
        case 2:
          f.executor.run_for(hours(pick(3)));
          break;
        default: {
          const auto issued = f.manager->issue_certificate(subject, hours(48));
          const bool others = holder != holders.end() && holder->second != subject;
          REQUIRE(issued.ok() != others);
          taken += others;
          if (others) break;
          holders.emplace(name, subject);
          check_is_for(subject, **issued);
          ++held;
        }
      }
    }
    const auto list = f.manager->list_certificates();
    CHECK(list.size() == holders.size());
    for (const CertificatePtr& each : list) {
      check_is_for(holders.at(each->subject.common_name.str()), *each);
      CHECK(keys.insert(each->private_key.pem()).second);  // two names never share one
    }
    CHECK(held > 500);
    CHECK(taken > 100);
  }

  TEST_CASE("certificates live between nine tenths and all of what was asked, at random") {
    ManagerFixture f;
    std::set<WallTime> ends;
    for (int i = 0; i < 200; ++i) {
      const auto life = f.issue("w" + std::to_string(i))->not_after - f.clock.wall_now();
      CHECK(life > hours(48) * 9 / 10 - seconds(1));
      CHECK(life <= hours(48));
      ends.insert(f.clock.wall_now() + life);
    }
    CHECK(ends.size() > 150);
    const auto refused = f.manager->issue_certificate(workload("none"), seconds(0));
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kInvalidArgument);
    CHECK(f.manager->issue_certificate(workload("short"), seconds(1)).ok());
  }

  TEST_CASE("list_certificates is ordered by common name") {
    ManagerFixture f;
    for (const char* name : {"c", "a", "b"}) f.issue(name);
    std::vector<std::string> names;
    for (const auto& each : f.manager->list_certificates())
      names.push_back(each->subject.common_name.str());
    CHECK(names == std::vector<std::string>{"a.default.cluster.local", "b.default.cluster.local",
                                            "c.default.cluster.local"});
  }

  TEST_CASE("concurrent calls for one name share one issuance, for two names they do not wait") {
    ManagerFixture f;
    Gate gate;
    f.ca.while_issuing = [&] { gate.wait(); };
    std::vector<CertificatePtr> got(8);
    std::vector<std::thread> callers;
    for (CertificatePtr& each : got)
      callers.emplace_back([&] {
        auto issued = f.manager->issue_certificate(workload("buyer"), hours(1));
        if (issued.ok()) each = *issued;
      });
    REQUIRE(gate.arrived());
    {
      const std::lock_guard lock(f.ca.mutex);
      f.ca.while_issuing = nullptr;
    }
    CHECK(f.manager->issue_certificate(workload("store"), hours(1)).ok());
    gate.open();
    for (std::thread& caller : callers) caller.join();
    CHECK(f.ca.issued["buyer.default.cluster.local"] == 1);
    for (const CertificatePtr& each : got) {
      REQUIRE(each);
      CHECK(each == got.front());
    }
  }

  TEST_CASE("rotating replaces key and certificate and tells subscribers, first issuing does not") {
    ManagerFixture f;
    std::vector<CertificatePtr> heard;
    const auto subscription =
        f.manager->subscribe([&](const CertificatePtr& rotated) { heard.push_back(rotated); });
    const auto old = f.issue("buyer");
    f.executor.run_until_idle();
    CHECK(heard.empty());
    const auto rotated = f.manager->rotate_certificate(old->subject.common_name);
    REQUIRE(rotated.ok());
    CHECK((*rotated)->private_key.pem() != old->private_key.pem());
    CHECK(f.issue("buyer") == *rotated);
    f.executor.run_until_idle();
    CHECK(heard == std::vector<CertificatePtr>{*rotated});
    CHECK(f.metrics.value("osm_cert_rotated_count") == 1);
    const auto unknown = f.manager->rotate_certificate(CommonName("nobody"));
    REQUIRE_FALSE(unknown.ok());
    CHECK(unknown.error().code == ErrorCode::kNotFound);
  }

  TEST_CASE("a rotation that fails leaves the old certificate and its schedule alone") {
    ManagerFixture f;
    const auto old = f.issue("buyer");
    f.ca.failure = kCaDown;
    CHECK_FALSE(f.manager->rotate_certificate(old->subject.common_name).ok());
    CHECK(f.only() == old);
    const int attempts = f.ca.attempts;
    f.executor.run_for(hours(1));
    CHECK(f.ca.attempts == attempts);
  }

  TEST_CASE("a certificate is renewed by itself between half and two thirds of its life") {
    ManagerFixture f;
    const auto old = f.issue("buyer");
    const auto life = old->not_after - f.clock.wall_now();
    f.executor.run_for(life / 2 - minutes(1));
    CHECK(f.only() == old);
    f.executor.run_for(life / 6 + minutes(2));
    CHECK(f.only() != old);
    CHECK(f.ca.total == 2);
    CHECK(f.ca.last.subject == old->subject);
  }

  TEST_CASE("a certificate of a few seconds is renewed in time too") {
    ManagerFixture f;
    f.executor.run_for(seconds(30));
    f.issue("buyer", seconds(9));
    for (int i = 0; i < 600; ++i) {
      f.executor.run_for(std::chrono::milliseconds(100));
      CHECK(f.valid(*f.only()));
    }
    CHECK(f.ca.total > 8);
    CHECK(f.ca.total < 30);
  }

  TEST_CASE("later renewals keep to the newest validity and key asked for") {
    ManagerFixture f;
    f.issue("buyer");
    CHECK(EVP_PKEY_get_bits(requested_key(f.ca.last).get()) == 256);
    const auto same = f.issue("buyer", hours(10));
    CHECK(f.ca.total == 1);
    f.key = {KeyType::kRsa, 3072};
    f.executor.run_for(hours(33));
    REQUIRE(f.ca.total >= 2);
    CHECK(f.ca.last.validity <= hours(10));
    CHECK(f.ca.last.validity >= hours(9));
    CHECK(EVP_PKEY_get_bits(requested_key(f.ca.last).get()) == 3072);
  }

  TEST_CASE("while the CA fails the old certificate is served and attempts back off") {
    ManagerFixture f;
    const auto old = f.issue("buyer");
    f.ca.failure = kCaDown;
    f.executor.run_for(hours(40));
    CHECK(f.only() == old);
    CHECK(f.issue("buyer") == old);
    CHECK(f.ca.attempts > 8 * 12);        // at least one in five minutes
    CHECK(f.ca.attempts < 16 * 24 + 20);  // at most one in two and a half
    CHECK(f.log.count("certificate not renewed") == 1);
    CHECK(f.log.count("CA unreachable") == 1);
    CHECK(f.metrics.value("osm_cert_issue_failed_count") == f.ca.attempts - 1);

    f.ca.failure.reset();
    f.executor.run_for(minutes(6));
    CHECK(f.only() != old);
    CHECK(f.valid(*f.only()));
  }

  TEST_CASE("a caller whose certificate is due gets the old one while the CA fails") {
    ManagerFixture f;
    const auto old = f.issue("buyer");
    f.ca.failure = kCaDown;
    f.clock.advance(hours(40));  // the manager's own renewal has not run yet
    CHECK(f.issue("buyer") == old);
    CHECK(f.ca.attempts == 2);
  }

  TEST_CASE("a CA that stays away until the end is an error in the log, and callers get it too") {
    ManagerFixture f;
    f.issue("buyer");
    f.ca.failure = kCaDown;
    f.executor.run_for(hours(49));
    CHECK(f.log.count("error: certificate is not valid any more") > 0);
    const auto refused = f.manager->issue_certificate(workload("buyer"), hours(1));
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error() == kCaDown);
    CHECK(f.metrics.value("osm_cert_expiry_seconds") < 0);
  }

  TEST_CASE("a first issuance that fails leaves nothing behind") {
    ManagerFixture f;
    f.ca.failure = kCaDown;
    CHECK_FALSE(f.manager->issue_certificate(workload("buyer"), hours(1)).ok());
    CHECK(f.manager->list_certificates().empty());
    f.executor.run_for(hours(24));
    CHECK(f.ca.attempts == 1);
    f.ca.failure.reset();
    CHECK(f.issue("buyer"));
  }

  TEST_CASE("an issuer that throws has failed, and its callers may try again") {
    ManagerFixture f;
    bool throws = true;
    f.ca.while_issuing = [&] {
      if (throws) throw std::runtime_error("out of memory");
    };
    const auto failed = f.manager->issue_certificate(workload("buyer"), hours(1));
    REQUIRE_FALSE(failed.ok());
    CHECK(failed.error() == Error{ErrorCode::kInternal, "out of memory"});
    throws = false;
    CHECK(f.issue("buyer"));
  }

  TEST_CASE("a certificate that is to be kept is issued in the background and announced") {
    ManagerFixture f;
    std::vector<CertificatePtr> heard;
    const auto subscription =
        f.manager->subscribe([&](const CertificatePtr& issued) { heard.push_back(issued); });
    seconds validity = hours(48);
    const auto keep = [&] {
      return f.manager->keep_certificate(workload("buyer"), [&] { return validity; });
    };
    CHECK(keep().value() == nullptr);
    CHECK(keep().value() == nullptr);
    CHECK(f.ca.attempts == 0);  // not in the caller's thread
    f.executor.run_until_idle();
    REQUIRE(heard.size() == 1);
    CHECK(keep().value() == heard[0]);
    CHECK(f.issue("buyer") == heard[0]);
    CHECK(keep().value() == heard[0]);
    CHECK(f.ca.attempts == 1);

    Subject thief = workload("thief");
    thief.common_name = workload("buyer").common_name;
    const auto refused = f.manager->keep_certificate(thief, [&] { return validity; });
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kInvalidArgument);

    validity = hours(10);
    f.executor.run_for(hours(33));
    REQUIRE(f.ca.total >= 2);
    CHECK(f.ca.last.validity <= hours(10));
    CHECK(heard.size() == static_cast<std::size_t>(f.ca.total));
  }

  TEST_CASE("a kept certificate that cannot be issued is tried again, also when time jumps back") {
    ManagerFixture f;
    f.ca.failure = kCaDown;
    const auto kept =
        f.manager->keep_certificate(workload("buyer"), [] { return ManagerFixture::kTwoDays; });
    REQUIRE(kept.ok());
    f.executor.run_for(minutes(10));
    CHECK(f.ca.attempts >= 9);
    CHECK(f.ca.attempts <= 12);
    CHECK(f.log.count("certificate not issued") == 1);
    CHECK(f.manager->list_certificates().empty());
    f.clock.set_wall(f.clock.wall_now() - hours(24));
    f.ca.failure.reset();
    f.executor.run_for(minutes(6));
    CHECK(f.valid(*f.only()));
  }

  TEST_CASE("a metric counts certificates that are due, and is 0 when all are issued") {
    ManagerFixture f;
    const auto waiting = [&] {
      return f.metrics.value("osm_queue_length", {{"queue", "certificates"}});
    };
    double most = 0;
    f.ca.while_issuing = [&] { most = std::max(most, waiting()); };
    for (const char* name : {"a", "b", "c"})
      REQUIRE(f.manager->keep_certificate(workload(name), [] { return hours(48); }).ok());
    f.executor.run_until_idle();
    CHECK(most == 3);
    CHECK(waiting() == 0);
  }

  TEST_CASE("a first certificate does not wait until all renewals are done") {
    ManagerFixture f;
    for (int i = 0; i < 20; ++i) f.issue("w" + std::to_string(i));
    std::string third;
    f.ca.while_issuing = [&] {
      if (f.ca.attempts == 22) {
        const auto kept =
            f.manager->keep_certificate(workload("new"), [] { return ManagerFixture::kTwoDays; });
        CHECK(kept.ok());
      }
      if (f.ca.attempts == 23) third = f.ca.last.subject.common_name.str();
    };
    f.ca.id = "ca-2";
    f.ca.changed.notify();
    f.executor.run_until_idle();
    CHECK(third == workload("new").common_name.str());
    CHECK(f.ca.total == 41);
  }

  TEST_CASE("a name released while it is renewed stays released") {
    ManagerFixture f;
    const auto old = f.issue("buyer");
    f.ca.while_issuing = [&] { f.manager->release_certificate(old->subject.common_name); };
    f.executor.run_for(hours(33));
    CHECK(f.ca.total == 2);
    CHECK(f.manager->list_certificates().empty());
    f.executor.run_for(hours(24 * 7));
    CHECK(f.ca.total == 2);
  }

  TEST_CASE("a name released and issued anew during a renewal keeps the new certificate") {
    ManagerFixture f;
    const auto old = f.issue("buyer");
    CertificatePtr anew;
    bool once = false;
    // The old flight's own name is in flight at the fake, so the new subject takes the name over
    // after the release only.
    f.ca.while_issuing = [&] {
      if (std::exchange(once, true)) return;
      f.manager->release_certificate(old->subject.common_name);
    };
    f.executor.run_for(hours(33));
    f.ca.while_issuing = nullptr;
    anew = f.issue("buyer");
    CHECK(f.only() == anew);
    CHECK(f.ca.total == 3);
  }

  TEST_CASE("a thousand issue and release cycles leave cache and schedule empty") {
    ManagerFixture f;
    for (int i = 0; i < 1000; ++i) {
      const std::string name = "w" + std::to_string(i % 10);
      f.issue(name);
      f.manager->release_certificate(workload(name).common_name);
    }
    f.manager->release_certificate(CommonName("unknown"));
    CHECK(f.manager->list_certificates().empty());
    f.executor.run_for(hours(100));
    CHECK(f.ca.total == 1000);
    CHECK(f.executor.queued() == 0);
    CHECK(f.executor.timers() == 1);  // the tick
  }

  TEST_CASE("the metric of the first end forgets a released certificate") {
    ManagerFixture f;
    f.issue("buyer");
    f.issue("short", hours(1));
    const auto left = [&] {
      return seconds(std::lround(f.metrics.value("osm_cert_expiry_seconds")));
    };
    f.executor.run_for(minutes(1));
    CHECK(left() < hours(1));
    f.manager->release_certificate(workload("short").common_name);
    f.executor.run_for(minutes(1));
    CHECK(left() > hours(40));
    f.manager->release_certificate(workload("buyer").common_name);
    f.executor.run_for(minutes(1));
    CHECK(f.metrics.value("osm_cert_expiry_seconds") == std::numeric_limits<double>::infinity());
  }

  TEST_CASE("a released certificate is freed with its last holder") {
    ManagerFixture f;
    std::weak_ptr<const Certificate> weak = f.issue("buyer");
    CHECK_FALSE(weak.expired());
    REQUIRE(f.manager->rotate_certificate(workload("buyer").common_name).ok());
    f.executor.run_until_idle();
    CHECK(weak.expired());
    weak = f.issue("buyer");
    f.manager->release_certificate(workload("buyer").common_name);
    CHECK(weak.expired());
  }

  TEST_CASE("a changed trust bundle is announced within a minute, certificates unchanged") {
    ManagerFixture f;
    const auto old = f.issue("buyer");
    int events = 0;
    const auto changed = f.manager->subscribe_ca([&] { ++events; });
    f.ca.bundle = "roots-2";
    CHECK(f.manager->trust_bundle_pem() == f.ca.bundle_pem());
    f.executor.run_for(minutes(1));
    CHECK(events == 1);
    CHECK(f.issue("buyer") == old);
  }

  TEST_CASE("a changed trust bundle is one event and copies no key, whatever is cached") {
    ManagerFixture f;
    for (int i = 0; i < 300; ++i) f.issue("w" + std::to_string(i));
    const auto before = f.manager->list_certificates();
    int events = 0;
    const auto replaced = f.manager->subscribe([&](const CertificatePtr&) { ++events; });
    const auto changed = f.manager->subscribe_ca([&] { ++events; });
    f.ca.bundle = "roots-2";
    f.executor.run_for(minutes(10));
    CHECK(events == 1);
    CHECK(f.manager->list_certificates() == before);  // the same objects with the same keys
    CHECK(f.ca.total == 300);
  }

  TEST_CASE("a changed trust bundle is announced at once when the issuer can tell") {
    ManagerFixture f;
    f.issue("buyer");
    int events = 0;
    const auto changed = f.manager->subscribe_ca([&] { ++events; });
    f.ca.bundle = "roots-2";
    f.ca.changed.notify();
    CHECK(events == 0);  // not in the issuer's thread
    f.executor.run_until_idle();
    CHECK(events == 1);
    CHECK(f.ca.total == 1);
  }

  TEST_CASE("certificates of another CA are renewed at once if the issuer reports its id") {
    ManagerFixture f;
    for (const char* name : {"a", "b", "c"}) f.issue(name);
    int events = 0;
    const auto changed = f.manager->subscribe_ca([&] { ++events; });
    f.ca.id = "ca-2";
    f.ca.bundle = "roots-2";
    f.ca.changed.notify();
    f.executor.run_until_idle();
    CHECK(events == 1);
    CHECK(f.ca.total == 6);
    for (const auto& each : f.manager->list_certificates()) CHECK(each->issuer_id == "ca-2");
    f.executor.run_for(hours(12));
    CHECK(f.ca.total == 6);
  }

  TEST_CASE("and within a minute when it cannot, also while it fails at first") {
    ManagerFixture f;
    const auto old = f.issue("buyer");
    f.ca.id = "ca-2";
    f.ca.failure = kCaDown;
    f.executor.run_for(minutes(1));
    CHECK(f.only() == old);
    CHECK(f.ca.attempts >= 2);
    f.ca.failure.reset();
    f.executor.run_for(minutes(5));
    CHECK(f.only()->issuer_id == "ca-2");
    CHECK(f.ca.total == 2);
  }

  TEST_CASE("a CA that changes while it signs does not leave the old one's certificate behind") {
    ManagerFixture f;
    f.ca.while_issuing = [&] { f.ca.id = "ca-2"; };
    CHECK(f.issue("buyer")->issuer_id == "ca-1");  // by what it called itself before
    f.ca.while_issuing = nullptr;
    f.executor.run_for(minutes(1));
    CHECK(f.only()->issuer_id == "ca-2");
  }

  TEST_CASE(
      "a certificate that was being issued when the manager noticed another CA is renewed soon") {
    ManagerFixture f;
    CertificatePtr landed;
    const auto change = [&] {
      f.ca.while_issuing = nullptr;
      f.ca.id = "ca-2";
      f.ca.changed.notify();
      f.executor.run_until_idle();
    };
    SUBCASE("the first of its name") {
      f.ca.while_issuing = change;
      landed = f.issue("buyer");
    }
    SUBCASE("a later one") {
      f.issue("buyer");
      f.ca.while_issuing = change;
      landed = f.manager->rotate_certificate(workload("buyer").common_name).value();
    }
    CHECK(landed->issuer_id == "ca-1");
    CHECK(f.only() == landed);
    f.executor.run_for(seconds(2));
    CHECK(f.only()->issuer_id == "ca-2");
  }

  TEST_CASE("a wrong answer is not used, and the old certificate stays") {
    ManagerFixture f;
    const auto old = f.issue("buyer");
    f.ca.other_answer = old->chain_pem;  // over the old key
    const auto refused = f.manager->rotate_certificate(old->subject.common_name);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kInvalidCertificate);
    CHECK(refused.error().message.find("over another key") != std::string::npos);
    CHECK(f.only() == old);
    CHECK(f.metrics.value("osm_cert_issue_failed_count") == 1);
  }

  TEST_CASE("a request for a foreign key is certified for the subject and not cached") {
    ManagerFixture f;
    const auto made = make_request(workload("buyer"));
    REQUIRE(made.ok());
    const auto certified =
        f.manager->certify_request(workload("buyer"), made->request_pem, hours(9));
    REQUIRE(certified.ok());
    CHECK((*certified)->private_key.empty());
    CHECK((*certified)->issuer_id == "ca-1");
    CHECK((*certified)->not_after ==
          std::chrono::floor<seconds>(f.clock.wall_now() + hours(9)));  // to the second
    CHECK(f.manager->list_certificates().empty());
    CHECK(f.metrics.value("osm_cert_issued_count") == 1);
    CHECK(f.log.count("certificate issued") == 1);

    const auto stolen = f.manager->certify_request(workload("store"), made->request_pem, hours(9));
    REQUIRE_FALSE(stolen.ok());
    CHECK(stolen.error().code == ErrorCode::kInvalidArgument);
    CHECK(f.ca.attempts == 1);  // the CA never saw it
  }

  TEST_CASE("the log names certificates by common name and fingerprint, and never shows a key") {
    ManagerFixture f;
    const auto old = f.issue("buyer");
    REQUIRE(f.manager->rotate_certificate(old->subject.common_name).ok());
    f.ca.failure = kCaDown;
    f.executor.run_for(hours(60));
    const std::string all = f.log.all_text();
    CHECK(all.find("buyer.default.cluster.local") != std::string::npos);
    CHECK(all.find(old->fingerprint) != std::string::npos);
    CHECK(all.find("PRIVATE") == std::string::npos);
    CHECK(all.find(old->private_key.pem().substr(40, 20)) == std::string::npos);
  }

  TEST_CASE("subscribers hear one call at a time and nothing after their handle died") {
    ManagerFixture f;
    int heard = 0;
    auto subscription = f.manager->subscribe([&](const CertificatePtr&) { ++heard; });
    f.issue("buyer");
    REQUIRE(f.manager->rotate_certificate(workload("buyer").common_name).ok());
    CHECK(heard == 0);  // not in the rotating caller's thread
    f.executor.run_until_idle();
    CHECK(heard == 1);
    REQUIRE(f.manager->rotate_certificate(workload("buyer").common_name).ok());
    subscription.reset();
    f.executor.run_until_idle();
    CHECK(heard == 1);
  }

  TEST_CASE("a manager may be destroyed with work queued") {
    ManagerFixture f;
    f.issue("buyer");
    REQUIRE(f.manager->rotate_certificate(workload("buyer").common_name).ok());
    f.manager.reset();
    f.executor.run_until_idle();
    f.executor.run_for(hours(48));
    CHECK(f.ca.total == 2);
  }
}
