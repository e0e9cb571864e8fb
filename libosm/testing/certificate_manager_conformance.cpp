#include "osm/testing/certificate_manager_conformance.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "osm/certificate/request.hpp"
#include "testing/conformance_suite.hpp"

namespace osm::inline v1::testing {
namespace {

using certificate::CertificatePtr;
using certificate::Manager;
using certificate::Subject;
using std::chrono::hours;
using std::chrono::minutes;

constexpr hours kLife{1};

Subject workload(const std::string& name, const std::string& account = {}) {
  return {.common_name = CommonName(name + ".shop.cluster.local"),
          .spiffe_id =
              SpiffeId("spiffe://cluster.local/ns/shop/sa/" + (account.empty() ? name : account))};
}

class ManagerBench {
 public:
  ManagerBench(const CertificateManagerPlatformFactory& factory,
               const CertificateManagerConformanceOptions& options, OnStep on_step)
      : options_(options), on_step_(std::move(on_step)), platform_(factory()) {
    step("starting the manager");
    manager_ = platform_->start();
    step("calling the manager");
    told_by_ = manager_->subscribe([this](const CertificatePtr& issued) {
      const std::lock_guard lock(mutex_);
      told_.push_back(issued);
    });
  }

  const CertificateManagerConformanceOptions& options() const { return options_; }
  CertificateManagerPlatform& platform() { return *platform_; }
  Manager& manager() { return *manager_; }
  void step(std::string what) { on_step_(std::move(what)); }
  void settle() { platform_->pass(std::chrono::seconds(1)); }

  Result<CertificatePtr> issue(const std::string& name) {
    return manager_->issue_certificate(workload(name), kLife);
  }
  // The cached certificate of this name; null: there is none.
  CertificatePtr cached(const std::string& name) {
    for (const CertificatePtr& each : manager_->list_certificates())
      if (each->subject.common_name == workload(name).common_name) return each;
    return nullptr;
  }
  // Certificates that subscribers heard of since the last call.
  std::vector<CertificatePtr> told() {
    const std::lock_guard lock(mutex_);
    return std::exchange(told_, {});
  }
  bool valid_now(const CertificatePtr& one) {
    const WallTime now = platform_->clock().wall_now();
    return one && one->not_before <= now && now < one->not_after;
  }

 private:
  const CertificateManagerConformanceOptions options_;
  const OnStep on_step_;
  const std::unique_ptr<CertificateManagerPlatform> platform_;
  std::mutex mutex_;  // guards the next one
  std::vector<CertificatePtr> told_;
  std::unique_ptr<Manager> manager_;
  Subscription told_by_;
};

std::string seen(const Result<CertificatePtr>& got) {
  if (!got.ok()) return got.error().text();
  return *got ? "certificate " + (*got)->fingerprint : "no certificate";
}
bool is(const Result<CertificatePtr>& got, ErrorCode code) {
  return !got.ok() && got.error().code == code;
}

Verdict issued(ManagerBench& bench) {
  const auto got = bench.issue("store");
  if (!got.ok() || !*got) return failed("issue_certificate() gives a certificate", seen(got));
  const certificate::Certificate& one = **got;
  if (one.subject != workload("store") || one.chain_pem.empty() || one.private_key.empty() ||
      one.serial_number.empty() || one.fingerprint.empty())
    return failed("a certificate has its subject, chain, key, serial number and fingerprint",
                  "one of them is missing");
  if (!bench.valid_now(*got) || one.not_after > bench.platform().clock().wall_now() + kLife)
    return failed("a certificate is valid now, and not longer than was asked", "another time");
  if (one.issuer_id.empty() || one.issuer_id != bench.manager().issuer_id())
    return failed("issuer_id() is the CA that signs now", "'" + bench.manager().issuer_id() + "'");
  if (bench.manager().trust_bundle_pem().empty())
    return failed("trust_bundle_pem() has the roots", "nothing");
  return passed(seen(got));
}

Verdict cached(ManagerBench& bench) {
  const auto first = bench.issue("store");
  if (!first.ok()) return not_judged("issued");
  if (const auto again = bench.issue("store"); !again.ok() || *again != *first)
    return failed("while it need not be renewed, the same certificate is served", seen(again));
  for (const char* name : {"z", "a"})
    if (!bench.issue(name).ok()) return not_judged("issued");
  const auto all = bench.manager().list_certificates();
  if (all.size() != 3 || !std::ranges::is_sorted(all, {}, [](const CertificatePtr& each) {
        return each->subject.common_name;
      }))
    return failed("list_certificates() has every cached one, ordered by common name",
                  std::to_string(all.size()) + " in another order");
  bench.manager().release_certificate(workload("store").common_name);
  bench.manager().release_certificate(workload("nobody").common_name);
  if (bench.cached("store"))
    return failed("release_certificate() removes the certificate", "it is listed");
  const auto anew = bench.issue("store");
  if (!anew.ok() || (*anew)->fingerprint == (*first)->fingerprint)
    return failed("after release_certificate() another one is issued", seen(anew));
  bench.settle();
  if (!bench.told().empty())
    return failed("the first certificate of a name is not announced", "an announcement");
  return passed(seen(anew));
}

Verdict names(ManagerBench& bench) {
  const auto first = bench.issue("store");
  if (!first.ok()) return not_judged("issued");
  const Subject other = workload("store", "another");
  if (const auto got = bench.manager().issue_certificate(other, kLife);
      !is(got, ErrorCode::kInvalidArgument))
    return failed("a common name that another subject holds is kInvalidArgument", seen(got));
  if (const auto got = bench.manager().keep_certificate(other, [] { return kLife; });
      !is(got, ErrorCode::kInvalidArgument))
    return failed("a common name that another subject holds is not kept", seen(got));
  if (bench.cached("store") != *first)
    return failed("the holder of a name keeps its certificate", "another one");
  bench.manager().release_certificate(other.common_name);
  if (const auto got = bench.manager().issue_certificate(other, kLife); !got.ok())
    return failed("after release_certificate() the name is free", seen(got));
  return passed("one subject for each name");
}

Verdict concurrent(ManagerBench& bench) {
  std::vector<Result<CertificatePtr>> got(static_cast<std::size_t>(bench.options().callers),
                                          CertificatePtr());
  bench.step("asking for one name on several threads at once");
  std::vector<std::thread> threads;
  for (auto& each : got) threads.emplace_back([&] { each = bench.issue("store"); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& each : got)
    if (!each.ok() || *each != *got.front())
      return failed("concurrent calls for one name share one certificate", seen(each));
  return passed("one certificate for all");
}

Verdict rotates(ManagerBench& bench) {
  const auto first = bench.issue("store");
  if (!first.ok()) return not_judged("issued");
  int silent = 0;
  Subscription ended = bench.manager().subscribe([&](const CertificatePtr&) { ++silent; });
  ended.reset();
  const auto next = bench.manager().rotate_certificate(workload("store").common_name);
  if (!next.ok() || (*next)->fingerprint == (*first)->fingerprint ||
      (*next)->private_key.pem() == (*first)->private_key.pem())
    return failed("rotate_certificate() gives another certificate with another key", seen(next));
  if (bench.cached("store") != *next)
    return failed("the rotated certificate is in place of the old one", "it is not cached");
  bench.settle();
  if (const auto told = bench.told(); told.size() != 1 || told.front() != *next)
    return failed("subscribers hear of a certificate that replaces another one, once",
                  std::to_string(told.size()) + " announcements");
  if (silent != 0)
    return failed("no callback runs after its handle was destroyed", "one was called");
  const auto unknown = bench.manager().rotate_certificate(workload("nobody").common_name);
  if (!is(unknown, ErrorCode::kNotFound))
    return failed("an unknown name is kNotFound", seen(unknown));
  return passed(seen(next));
}

Verdict keeps(ManagerBench& bench) {
  const auto keep = [&] {
    return bench.manager().keep_certificate(workload("store"), [] { return kLife; });
  };
  const auto first = keep();
  if (!first.ok()) return failed("keep_certificate() keeps a free name", seen(first));
  bench.settle();
  const CertificatePtr kept = bench.cached("store");
  if (!kept) return failed("a kept certificate is issued in the background", "nothing is cached");
  const auto told = bench.told();
  if (!*first && !std::ranges::count(told, kept))
    return failed("subscribers hear of a certificate that keep_certificate() did not return",
                  "nothing");
  if (const auto again = keep(); !again.ok() || *again != kept)
    return failed("keep_certificate() gives the cached certificate", seen(again));
  bench.manager().release_certificate(kept->subject.common_name);
  if (bench.cached("store") != kept)
    return failed("a certificate stays until each keeper has released it", "it is gone");
  bench.manager().release_certificate(kept->subject.common_name);
  if (bench.cached("store"))
    return failed("the last release_certificate() removes it", "it is listed");
  return passed("until its last keeper released it");
}

Verdict renews(ManagerBench& bench) {
  if (!bench.platform().traits().renews) return not_applicable("the manager renews nothing");
  const auto first = bench.issue("store");
  if (!first.ok()) return not_judged("issued");
  bench.step("waiting for a renewal");
  for (int i = 0; i < 55; ++i) {
    bench.platform().pass(minutes(1));
    if (!bench.valid_now(bench.cached("store")))
      return failed("the cached certificate is valid at any time", "one that has ended");
  }
  const CertificatePtr next = bench.cached("store");
  if (next == *first) return failed("a certificate is renewed in time", "the first one is left");
  const auto told = bench.told();
  if (told.empty() || told.back() != next)
    return failed("subscribers hear of a renewal", std::to_string(told.size()) + " announcements");
  return passed("renewed within its life");
}

Verdict certifies(ManagerBench& bench) {
  const Subject subject = workload("store");
  const auto made = certificate::make_request(subject);
  if (!made.ok()) return not_judged("issued");
  const auto got = bench.manager().certify_request(subject, made->request_pem, kLife);
  if (!got.ok() || !*got || (*got)->chain_pem.empty() || (*got)->subject != subject)
    return failed("certify_request() certifies a key of the requester's", seen(got));
  if (!(*got)->private_key.empty())
    return failed("the requester keeps the key: the result has none", "a private key");
  bench.settle();
  if (bench.cached("store") || !bench.told().empty())
    return failed("a certified request is neither cached nor announced", "it is");
  if (bench.platform().traits().checks) {
    const auto other = bench.manager().certify_request(workload("other"), made->request_pem, kLife);
    if (!is(other, ErrorCode::kInvalidArgument))
      return failed("a request of another subject is kInvalidArgument", seen(other));
  }
  return passed(seen(got));
}

Verdict outage(ManagerBench& bench) {
  if (!bench.platform().traits().outages) return not_applicable("the CA is always reachable");
  const auto first = bench.issue("store");
  if (!first.ok()) return not_judged("issued");
  bench.step("asking while the CA is away");
  bench.platform().set_reachable(false);
  if (const auto again = bench.issue("store"); !again.ok() || *again != *first)
    return failed("if the CA fails, the cached certificate is served while it is valid",
                  seen(again));
  const auto other = bench.issue("other");
  if (!is(other, ErrorCode::kUnavailable))
    return failed("a CA that cannot be reached is kUnavailable", seen(other));
  const auto rotated = bench.manager().rotate_certificate(workload("store").common_name);
  if (rotated.ok() || bench.cached("store") != *first || bench.cached("other"))
    return failed("a rotation that fails leaves the old certificate", seen(rotated));
  bench.platform().set_reachable(true);
  Result<CertificatePtr> back = bench.issue("other");
  for (int i = 0; i < 10 && !back.ok(); ++i) {
    bench.platform().pass(minutes(1));
    back = bench.issue("other");
  }
  if (!back.ok()) return failed("when the CA is back certificates are issued", seen(back));
  return passed(other.error().text());
}

Verdict changes(ManagerBench& bench) {
  if (!bench.platform().traits().changes) return not_applicable("the CA stays");
  const auto first = bench.issue("store");
  if (!first.ok()) return not_judged("issued");
  std::atomic<int> told{0};
  const Subscription listening = bench.manager().subscribe_ca([&] { ++told; });
  const std::string before = bench.manager().issuer_id();
  bench.step("replacing the CA");
  bench.platform().change_ca();
  for (int i = 0; i < 10 && bench.manager().issuer_id() == before; ++i)
    bench.platform().pass(minutes(1));
  bench.settle();
  if (bench.manager().issuer_id() == before)
    return failed("issuer_id() is the CA that signs now", "the same after ten minutes");
  if (told != 1)
    return failed("subscribers of subscribe_ca() hear of another CA, once",
                  std::to_string(told) + " announcements");
  const auto next = bench.issue("other");
  if (!next.ok() || (*next)->issuer_id != bench.manager().issuer_id())
    return failed("another CA signs from then on", seen(next));
  return passed("from " + before + " to " + bench.manager().issuer_id());
}

Suite<ManagerBench> manager_suite(const CertificateManagerPlatformFactory& platform,
                                  const CertificateManagerConformanceOptions& options) {
  return {"certificate manager",
          "certificate_manager_clauses()",
          {
              {{"issued", "a certificate has its subject, its key and its times"}, issued},
              {{"cached", "a certificate is issued once and served until it is released"}, cached},
              {{"names", "a common name is of one subject"}, names},
              {{"concurrent", "calls for one name share one certificate"}, concurrent},
              {{"rotates", "a rotation replaces the certificate, and is told"}, rotates},
              {{"keeps", "a kept certificate stays until its last keeper releases it"}, keeps},
              {{"renews", "certificates are renewed in time"}, renews},
              {{"certifies", "a request is certified without its key"}, certifies},
              {{"outage", "without its CA what is cached is served"}, outage},
              {{"changes", "another CA is told once"}, changes},
          },
          options.clause_deadline,
          [platform, options](const OnStep& on_step) {
            return std::make_unique<ManagerBench>(platform, options, on_step);
          }};
}

}  // namespace

std::vector<ConformanceClause> certificate_manager_clauses() {
  return listed(manager_suite({}, {}).clauses);
}

ConformanceReport check_certificate_manager(const CertificateManagerPlatformFactory& platform,
                                            const CertificateManagerConformanceOptions& options) {
  return manager_suite(platform, options).run_all();
}

ConformanceResult check_certificate_manager_clause(
    std::string_view id, const CertificateManagerPlatformFactory& platform,
    const CertificateManagerConformanceOptions& options) {
  return manager_suite(platform, options).run_one(id);
}

}  // namespace osm::inline v1::testing
