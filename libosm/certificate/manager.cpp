#include "osm/certificate/make_manager.hpp"

#include <algorithm>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/backoff.hpp"
#include "base/guarded.hpp"
#include "base/maps.hpp"
#include "base/shared_metrics.hpp"
#include "base/strand.hpp"
#include "certificate/issuance.hpp"
#include "osm/notifier.hpp"

namespace osm::inline v1::certificate {
namespace {

constexpr Counter kCertIssueFailedCount{"osm_cert_issue_failed_count",
                                        "Certificates that could not be issued"};
constexpr Counter kCertIssuedCount{"osm_cert_issued_count", "Certificates issued"};
constexpr Histogram kCertIssuedTime{"osm_cert_issued_time", "Seconds to issue a certificate"};
constexpr Counter kCertRotatedCount{"osm_cert_rotated_count",
                                    "Certificates replaced by newer ones"};
constexpr Gauge kCertExpiry{"osm_cert_expiry_seconds",
                            "Seconds until a held certificate ends, the least of its kind"};

using std::chrono::nanoseconds;
using std::chrono::seconds;

// The longest time between two looks at the calendar.
constexpr nanoseconds kTick = std::chrono::minutes(1);
// A larger step between two checks is a jump or a suspended host; so is a step back by more than
// kBackwards.
constexpr nanoseconds kForwards = 3 * kTick;
constexpr nanoseconds kBackwards = seconds(30);
constexpr Backoff kBackoff{seconds(1), std::chrono::minutes(5)};
constexpr WallTime kNever = WallTime::max();
// osm_cert_expiry_seconds without any certificate: a gauge cannot be taken back.
constexpr std::chrono::duration<double> kEndless{std::numeric_limits<double>::infinity()};
// First certificates go before renewals, whose old certificates are good for long.
constexpr WallTime kAtOnce{};

struct Entry {
  explicit Entry(Subject s) : subject(std::move(s)) {}

  const Subject subject;
  std::function<seconds()> validity;  // requested by the newest caller
  std::size_t keepers = 0;            // calls of keep_certificate(): stays without a certificate
  bool issued = false;                // by issue_certificate(), when there was no keeper
  CertificatePtr current;             // null until the first issuance succeeds
  WallTime renew_at = kNever;         // its place in the schedule
  unsigned failures = 0;              // in a row
  // The running issuance, for which all callers of the name wait; invalid: none.
  std::shared_future<Result<CertificatePtr>> flight;
};
using EntryPtr = std::shared_ptr<Entry>;

bool is_valid(const Certificate& certificate, WallTime now) {
  return certificate.not_before <= now && now < certificate.not_after;
}

// The outcome of an issuance, for the log.
struct Landing {
  bool replaced = false;    // an older certificate of the name
  unsigned failures = 0;    // in a row, of a name that is tried again
  bool still_valid = true;  // the old certificate, if there is one
};

class CachingManager final : public Manager {
 public:
  explicit CachingManager(ManagerOptions options)
      : issuer_(std::move(options.issuer)),
        runtime_(options.runtime),
        key_parameters_(std::move(options.key_parameters)),
        audit_(options.audit),
        issuer_id_(issuer_->id()),
        last_look_(runtime_.clock.wall_now()),
        trust_bundle_(issuer_->trust_bundle_pem()),
        announcements_(runtime_.blocking),
        renewals_(runtime_.blocking) {
    runtime_.metrics.add(kCertIssueFailedCount, {}, 0);  // for alerts on an increase
    renewals_.post([this] { look(); });
    issuer_changes_ = issuer_->subscribe([this] { renewals_.post([this] { look(); }); });
  }

  ~CachingManager() override {
    issuer_changes_.reset();
    renewals_.stop();
    announcements_.stop();
  }

  Result<CertificatePtr> issue_certificate(const Subject& subject, seconds validity,
                                           const Requester& requester) override {
    if (validity < seconds(1))
      return Error{ErrorCode::kInvalidArgument, "common name \"" + subject.common_name.str() +
                                                    "\": a validity of " +
                                                    std::to_string(validity.count()) +
                                                    " s cannot be issued: ask for at least 1 s"};
    Lock lock(mutex_);
    OSM_TRY(const EntryPtr entry, entry_of(subject));
    if (entry->keepers == 0) {
      entry->issued = true;
      entry->validity = [validity] { return validity; };
    }
    const CertificatePtr current = entry->current;
    const bool valid = current && is_valid(*current, runtime_.clock.wall_now());
    if (valid && runtime_.clock.wall_now() < entry->renew_at) return current;
    auto issued = fly(std::move(lock), entry, requester);
    if (!issued && valid) return current;
    return issued;
  }

  Result<CertificatePtr> keep_certificate(const Subject& subject,
                                          std::function<seconds()> validity) override {
    const Lock lock(mutex_);
    OSM_TRY(const EntryPtr entry, entry_of(subject));
    entry->validity = std::move(validity);
    if (++entry->keepers == 1 && !entry->current && !entry->flight.valid())
      schedule(*entry, kAtOnce);
    return entry->current;
  }

  Result<CertificatePtr> rotate_certificate(const CommonName& common_name) override {
    Lock lock(mutex_);
    const EntryPtr* found = find_in(entries_, common_name);
    if (!found || !(*found)->current)
      return Error{ErrorCode::kNotFound,
                   "no certificate is held under common name \"" + common_name.str() + "\""};
    return fly(std::move(lock), EntryPtr(*found), {.reason = IssueReason::kRotation});
  }

  Result<CertificatePtr> certify_request(const Subject& subject, const std::string& request_pem,
                                         seconds validity, const Requester& requester) override {
    const SteadyTime start = runtime_.clock.steady_now();
    auto certified =
        count(certify(*issuer_, subject, request_pem, validity, runtime_.clock, roots_), start);
    if (certified) record(**certified, requester, IssueReason::kFirst);
    report(subject, certified, {});
    return certified;
  }

  void release_certificate(const CommonName& common_name) override {
    EntryPtr released;  // outlives the lock: erasing a key takes time
    const Lock lock(mutex_);
    const auto found = entries_.find(common_name);
    if (found == entries_.end()) return;
    Entry& entry = *found->second;
    if (!std::exchange(entry.issued, false) && entry.keepers > 0) --entry.keepers;
    if (entry.keepers > 0) return;
    released = found->second;
    schedule(*released, kNever);
    if (released->current) expiring_.erase({released->current->not_after, common_name});
    entries_.erase(found);
  }

  std::vector<CertificatePtr> list_certificates() const override {
    std::vector<CertificatePtr> list;
    {
      const Lock lock(mutex_);
      list.reserve(entries_.size());
      for (const auto& [name, entry] : entries_)
        if (entry->current) list.push_back(entry->current);
    }
    std::ranges::sort(list, [](const CertificatePtr& a, const CertificatePtr& b) {
      return a->subject.common_name < b->subject.common_name;
    });
    return list;
  }

  std::string trust_bundle_pem() const override { return issuer_->trust_bundle_pem(); }
  std::string issuer_id() const override { return issuer_->id(); }
  Subscription subscribe(std::function<void(const CertificatePtr&)> on_issued) override {
    return issued_.subscribe(std::move(on_issued));
  }
  Subscription subscribe_ca(std::function<void()> on_change) override {
    return ca_changed_.subscribe(std::move(on_change));
  }

 private:
  using Lock = std::unique_lock<std::mutex>;
  using ByTime = std::set<std::pair<WallTime, CommonName>>;

  // Guarded by mutex_.
  Result<EntryPtr> entry_of(const Subject& subject) {
    EntryPtr& entry = entries_[subject.common_name];
    if (!entry) entry = std::make_shared<Entry>(subject);
    if (entry->subject == subject) return entry;
    return Error{ErrorCode::kInvalidArgument,
                 "common name \"" + subject.common_name.str() + "\" is held by another subject (" +
                     entry->subject.spiffe_id.str() + "): release it first"};
  }

  // Joins the entry's flight or starts one. Result: the flight's result, whatever the old
  // certificate is worth.
  Result<CertificatePtr> fly(Lock lock, const EntryPtr& entry, const Requester& requester) {
    if (const auto other = entry->flight; other.valid()) {
      lock.unlock();
      return other.get();
    }
    std::promise<Result<CertificatePtr>> flight;
    entry->flight = flight.get_future().share();
    const std::function<seconds()> validity = entry->validity;
    const CertificatePtr before = entry->current;
    lock.unlock();
    const auto attempt = guarded([&] { return issue_new(entry->subject, validity()); });
    const auto issued = attempt ? *attempt : Result<CertificatePtr>(attempt.error());
    if (issued) record(**issued, requester, reason_after(before.get(), **issued));
    lock.lock();
    entry->flight = {};
    const Landing landing = land(entry, issued);
    flight.set_value(issued);
    lock.unlock();
    report(entry->subject, issued, landing);
    return issued;
  }

  Result<CertificatePtr> issue_new(const Subject& subject, seconds validity) {
    const SteadyTime start = runtime_.clock.steady_now();
    const seconds life = validity - std::chrono::floor<seconds>(random(validity / 10));
    return count(
        issue(*issuer_, subject, life, key_parameters_ ? key_parameters_() : KeyParameters{},
              runtime_.clock, roots_),
        start);
  }

  static IssueReason reason_after(const Certificate* before, const Certificate& issued) {
    if (!before) return IssueReason::kFirst;
    return before->issuer_id == issued.issuer_id ? IssueReason::kRenewal : IssueReason::kRotation;
  }

  // `otherwise`: the reason if the requester has none.
  void record(const Certificate& issued, const Requester& requester, IssueReason otherwise) {
    if (!audit_) return;
    Requester named = requester;
    named.reason = requester.reason.value_or(otherwise);
    const auto recorded = guarded([&] {
      audit_->issued(issued, named);
      return true;
    });
    if (!recorded)
      runtime_.log.error("the audit log failed", {{"error", recorded.error().message},
                                                  {"serial_number", issued.serial_number}});
  }

  Result<CertificatePtr> count(Result<Certificate> issued, SteadyTime start) {
    if (!issued) {
      runtime_.metrics.add(kCertIssueFailedCount, {}, 1);
      return issued.error();
    }
    runtime_.metrics.add(kCertIssuedCount, {}, 1);
    runtime_.metrics.observe(kCertIssuedTime, {}, runtime_.clock.steady_now() - start);
    return CertificatePtr(std::make_shared<const Certificate>(*std::move(issued)));
  }

  // Stores a flight's result, unless the name was released meanwhile: then its callers get the
  // certificate and the cache does not.
  Landing land(const EntryPtr& entry, const Result<CertificatePtr>& issued) {
    Landing landing;
    if (!cached(entry)) return landing;
    landing.replaced = entry->current != nullptr;
    if (issued) {
      adopt(*entry, *issued);
    } else if (entry->current || entry->keepers > 0) {
      set_back(*entry);
      landing.failures = entry->failures;
      landing.still_valid = !entry->current || is_valid(*entry->current, runtime_.clock.wall_now());
    } else {
      entries_.erase(entry->subject.common_name);
    }
    return landing;
  }

  void report(const Subject& subject, const Result<CertificatePtr>& issued,
              const Landing& landing) {
    const std::string& name = subject.common_name.str();
    if (issued) {
      if (landing.replaced) runtime_.metrics.add(kCertRotatedCount, {}, 1);
      runtime_.log.info(landing.replaced ? "certificate renewed" : "certificate issued",
                        {{"common_name", name}, {"fingerprint", (*issued)->fingerprint}});
    } else if (!landing.still_valid) {
      runtime_.log.error(
          "certificate is not valid any more and cannot be renewed; its holder is cut off",
          {{"common_name", name}, {"error", issued.error().text()}});
    } else if (landing.failures ==
               1) {  // further ones are counted: a line each would hide the cause
      runtime_.log.warning(
          landing.replaced
              ? "certificate not renewed; the old one stays while renewal is tried again"
              : "certificate not issued; it is tried again",
          {{"common_name", name}, {"error", issued.error().text()}});
    }
  }

  void adopt(Entry& entry, CertificatePtr certificate) {
    const WallTime now = runtime_.clock.wall_now();
    const nanoseconds left = std::max(certificate->not_after - now, nanoseconds::zero());
    // A certificate of a CA that signs no more is renewed soon.
    const nanoseconds pause = certificate->issuer_id == issuer_id_
                                  ? left / 2 + random(left / 6)
                                  : kBackoff.delay(1, runtime_.rng);
    entry.failures = 0;
    replace(entry, std::move(certificate));
    schedule(entry, now + pause);
  }

  void set_back(Entry& entry) {
    const WallTime now = runtime_.clock.wall_now();
    if (entry.renew_at != kNever && entry.renew_at > now)
      return;  // this was a rotation before time
    ++entry.failures;
    schedule(entry, now + kBackoff.delay(entry.failures, runtime_.rng));
  }

  void replace(Entry& entry, CertificatePtr certificate) {
    const CommonName& name = entry.subject.common_name;
    const bool announce = entry.current != nullptr || entry.keepers > 0;
    if (entry.current) expiring_.erase({entry.current->not_after, name});
    expiring_.emplace(certificate->not_after, name);
    entry.current = std::move(certificate);
    // Post under the lock, so that subscribers get a name's certificates in order.
    if (announce) announcements_.post([this, current = entry.current] { issued_.notify(current); });
  }

  void schedule(Entry& entry, WallTime renew_at) {
    if (entry.renew_at != kNever) due_.erase({entry.renew_at, entry.subject.common_name});
    entry.renew_at = renew_at;
    if (renew_at == kNever) return;
    due_.emplace(renew_at, entry.subject.common_name);
    if (renew_at >= armed_for_) return;
    armed_for_ = renew_at;
    renewals_.post([this] { look(); });
  }

  bool cached(const EntryPtr& entry) const {
    const EntryPtr* found = find_in(entries_, entry->subject.common_name);
    return found && *found == entry;
  }

  // Runs on the renewals strand at every tick, and when something is due.
  void look() {
    const WallTime now = runtime_.clock.wall_now();
    const nanoseconds passed = now - std::exchange(last_look_, now);
    if (passed > kForwards || passed < -kBackwards) notice_jump(passed, now);
    notice_ca();

    Lock lock(mutex_);
    const WallTime first_end = expiring_.empty() ? kNever : expiring_.begin()->first;
    const nanoseconds left =
        due_.empty() ? kTick : std::clamp(due_.begin()->first - now, nanoseconds::zero(), kTick);
    armed_for_ = now + left;
    const std::optional<std::size_t> due = count_due(now);
    lock.unlock();
    if (due) runtime_.metrics.set(kQueueLength, {{"queue", "certificates"}}, *due);
    if (first_end != kNever || expiry_shown_)
      runtime_.metrics.set(kCertExpiry, {}, first_end != kNever ? first_end - now : kEndless);
    expiry_shown_ = first_end != kNever;
    if (left == nanoseconds::zero()) {
      renewals_.post([this] { renew_next(); });
    } else {
      timer_ = renewals_.post_after(left, [this] { look(); });
    }
  }

  // Null if it was counted within this second: after a root rotation all are due.
  std::optional<std::size_t> count_due(WallTime now) {
    const bool none = due_.empty() || due_.begin()->first > now;
    if (!none && due_counted_ <= now && now - due_counted_ < seconds(1)) return std::nullopt;
    due_counted_ = none ? WallTime{} : now;
    const auto end = std::ranges::find_if(due_, [now](const auto& due) { return due.first > now; });
    return std::distance(due_.begin(), end);
  }

  // Certificates that are missing, or not valid on the new calendar, are issued at once. Renewals
  // that became due unnoticed are spread over a quarter of the time that is left. The rest keeps
  // its place.
  void notice_jump(nanoseconds passed, WallTime now) {
    runtime_.log.warning(
        "the calendar jumped or the host was suspended; renewals are scheduled anew",
        {{"seconds", std::to_string(std::chrono::floor<seconds>(passed).count())}});
    const Lock lock(mutex_);
    for (const auto& [name, entry] : entries_) {
      if (entry->flight.valid()) continue;  // it schedules when it lands
      if (!entry->current || !is_valid(*entry->current, now))
        schedule(*entry, now);
      else if (entry->renew_at <= now)
        schedule(*entry, now + random((entry->current->not_after - now) / 4));
    }
  }

  // Certificates that another CA signed are renewed, one after another, beginning now.
  void notice_ca() {
    std::string bundle = issuer_->trust_bundle_pem();
    std::string id = issuer_->id();
    const WallTime now = runtime_.clock.wall_now();
    const Lock lock(mutex_);
    const bool other_roots = bundle != trust_bundle_, other_ca = id != issuer_id_;
    if (!other_roots && !other_ca) return;
    trust_bundle_ = std::move(bundle);
    issuer_id_ = std::move(id);
    announcements_.post([this] { ca_changed_.notify(); });
    if (other_roots) runtime_.log.info("trust bundle changed");
    if (!other_ca) return;
    runtime_.log.info("another CA signs; every certificate is renewed", {{"issuer", issuer_id_}});
    for (const auto& [name, entry] : entries_)
      if (entry->current && entry->current->issuer_id != issuer_id_ && !entry->flight.valid())
        schedule(*entry, now);  // adopt() handles a flight's result
  }

  // Runs on the renewals strand. It renews one certificate per task, so that an executor of one
  // thread does its other work in between.
  void renew_next() {
    Lock lock(mutex_);
    if (!due_.empty() && due_.begin()->first <= runtime_.clock.wall_now()) {
      const EntryPtr entry = entries_.at(due_.begin()->second);
      schedule(*entry, kNever);
      const SteadyTime start = runtime_.clock.steady_now();
      // It schedules the next attempt, and reports a failure.
      (void)fly(std::move(lock), entry, {});
      last_look_ += runtime_.clock.steady_now() - start;  // a slow CA is not a jump
    }
    renewals_.post([this] { look(); });
  }

  nanoseconds random(nanoseconds most) { return random_part(most, runtime_.rng); }

  const std::shared_ptr<Issuer> issuer_;
  const Runtime runtime_;
  const std::function<KeyParameters()> key_parameters_;
  AuditSink* const audit_;
  TrustedRoots roots_;
  Notifier<const CertificatePtr&> issued_;
  Notifier<> ca_changed_;

  mutable std::mutex mutex_;
  std::unordered_map<CommonName, EntryPtr> entries_;  // these five: guarded by mutex_
  ByTime due_;       // by renew_at: every entry that is kept or renewed, and not just now
  ByTime expiring_;  // by not_after: every entry that has a certificate
  WallTime armed_for_ = kNever;
  std::string issuer_id_;  // the CA that signs, as far as it was noticed

  WallTime due_counted_;  // this and the next four: used on the renewals strand only
  WallTime last_look_;
  std::string trust_bundle_;   // as subscribers know it
  bool expiry_shown_ = false;  // osm_cert_expiry_seconds has the end of a certificate
  Subscription timer_;

  // Separate strands: renewals block, and announcements must not wait for them.
  Strand announcements_;
  Strand renewals_;
  Subscription issuer_changes_;
};

}  // namespace

std::unique_ptr<Manager> make_manager(ManagerOptions options) {
  return std::make_unique<CachingManager>(std::move(options));
}

}  // namespace osm::inline v1::certificate
