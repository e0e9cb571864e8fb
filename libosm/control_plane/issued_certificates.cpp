#include "osm/certificate/issued_certificates.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "base/json.hpp"
#include "base/outage.hpp"
#include "base/round.hpp"
#include "base/strand.hpp"
#include "model/issued_text.hpp"

namespace osm::inline v1::control_plane {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostIssuedBytes = 900'000;  // a ConfigMap has at most 1 MiB
constexpr int kIssuedTries = 8;                    // replicas that change the record at once
constexpr std::chrono::milliseconds kCollectIssued{50};
constexpr std::chrono::seconds kIssuedSpacing{1};
// A store keeps each version of a record for a while.
constexpr double kIssuedBytesPerSecond = 100'000;
constexpr std::chrono::seconds kIssuedRetry{5};

// The content of the record.
struct IssuedRecord {
  std::map<std::string, IssuedCertificate> certificates{};  // by serial number
  WallTime dropped_until{};  // the latest end of those that were dropped by the bound
};

Result<IssuedRecord> decode_issued_record(const std::string& text, const std::string& name) {
  IssuedRecord record;
  if (text.empty()) return record;
  const auto damaged = [&](const std::string& why) {
    return Error{ErrorCode::kInvalidSyntax,
                 why +
                     "; delete the record, and the certificates of proxies that connect are "
                     "recorded again"};
  };
  const auto parsed = parse_json_object(text, name);
  if (!parsed.ok()) return damaged(parsed.error().message);
  record.dropped_until = model::seconds_at(*parsed, "dropped_until");
  for (const json::value& value : list_at(*parsed, "certificates")) {
    auto one = model::decode_issued(value);
    if (!one)
      return damaged(name +
                     ": an entry of \"certificates\" lacks a proxy's spiffe_id or a "
                     "serial_number");
    one->claimed = bool_at(value, "claimed").value_or(false);
    std::string serial_number = one->serial_number;
    record.certificates.insert_or_assign(std::move(serial_number), *std::move(one));
  }
  return record;
}

json::object encode_entry(const IssuedCertificate& one) {
  json::object entry = model::encode_issued(one);
  entry["claimed"] = one.claimed;
  return entry;
}

std::string encode_issued_record(const IssuedRecord& record) {
  json::array certificates;
  for (const auto& [serial_number, one] : record.certificates)
    certificates.push_back(encode_entry(one));
  return json::serialize(
      json::object{{"certificates", std::move(certificates)},
                   {"dropped_until", model::whole_seconds(record.dropped_until)}});
}

// Result: true if `into` has changed.
bool merge_issued(IssuedRecord& into, const IssuedCertificate& one) {
  const auto [at, added] = into.certificates.try_emplace(one.serial_number, one);
  IssuedCertificate& known = at->second;
  const bool claims = one.claimed && !known.claimed;
  const bool names = known.issuer.empty() && !one.issuer.empty();
  if (claims) known.claimed = true;
  if (names) known.issuer = one.issuer;
  return added || claims || names;
}

void merge_issued(IssuedRecord& into, const IssuedRecord& from) {
  for (const auto& [serial_number, one] : from.certificates) merge_issued(into, one);
  into.dropped_until = std::max(into.dropped_until, from.dropped_until);
}

// Drops the certificates that have ended, and the oldest ones beyond the bounds.
void trim_issued(IssuedRecord& record, WallTime now) {
  auto& all = record.certificates;
  std::erase_if(all, [&](const auto& one) { return one.second.not_after <= now; });
  std::vector<std::pair<WallTime, std::string>> newest;
  for (const auto& [serial_number, one] : all) newest.emplace_back(one.not_before, serial_number);
  std::ranges::sort(newest, std::ranges::greater{});
  std::size_t kept = 0, bytes = 0;
  for (const auto& [begins, serial_number] : newest) {
    const auto at = all.find(serial_number);
    bytes += json::serialize(encode_entry(at->second)).size() + 1;
    if (++kept <= IssuedCertificates::kMost && bytes <= kMostIssuedBytes) continue;
    record.dropped_until = std::max(record.dropped_until, at->second.not_after);
    all.erase(at);
  }
  if (record.dropped_until <= now) record.dropped_until = {};
}

class RecordedCertificates final : public IssuedCertificates {
 public:
  explicit RecordedCertificates(const IssuedCertificatesOptions& options)
      : options_(options),
        outage_(options.runtime.clock, [this](const Problem* began) { log(began); }),
        strand_(options.runtime.blocking),
        writes_(strand_, options_.runtime.rng,
                {.turn = [this] { return write(); },
                 .collect =
                     [this] {
                       return std::max<std::chrono::nanoseconds>(
                           next_ - options_.runtime.clock.steady_now(), kCollectIssued);
                     }}) {}

  ~RecordedCertificates() override {
    strand_.stop();
    if (unwritten_.certificates.empty()) return;
    if (const Status stored = store(); !stored.ok())
      options_.runtime.log.warning("the newest certificates of proxies are not recorded",
                                   {{"detail", stored.error().message}});
  }

  void add(const IssuedCertificate& certificate) override {
    {
      const std::lock_guard lock(mutex_);
      if (!merge_issued(known_, certificate)) return;
      merge_issued(unwritten_, certificate);
    }
    writes_.wake();
  }

  Result<IssuedCertificateList> list() override {
    OSM_TRY(IssuedRecord all, load());
    {
      const std::lock_guard lock(mutex_);
      merge_issued(all, known_);
    }
    trim_issued(all, options_.runtime.clock.wall_now());
    IssuedCertificateList out{.dropped = all.dropped_until != WallTime()};
    for (auto& [serial_number, one] : all.certificates) out.certificates.push_back(std::move(one));
    std::ranges::sort(out.certificates, {}, [](const IssuedCertificate& one) {
      return std::tie(one.common_name, one.not_before, one.serial_number);
    });
    return out;
  }

  std::optional<Problem> problem() const override { return outage_.problem(); }

 private:
  Result<IssuedRecord> load() const {
    OSM_TRY(const TextRecord::Text present, options_.record.load());
    return decode_issued_record(present.text, options_.record.name());
  }

  // On the strand.
  Pause write() {
    const Status stored = store();
    const SteadyTime now = options_.runtime.clock.steady_now();
    const auto takes =
        std::chrono::duration<double>(static_cast<double>(bytes_) / kIssuedBytesPerSecond);
    next_ = now + std::max<std::chrono::nanoseconds>(
                      kIssuedSpacing, std::chrono::duration_cast<std::chrono::nanoseconds>(takes));
    if (stored.ok()) {
      outage_.end();
      return {};
    }
    const Error& error = stored.error();
    outage_.fail(error.code, {.code = error.code,
                              .object = {},
                              .path = options_.record.name(),
                              .field = {},
                              .cause = error.message +
                                       "; certificates are issued, and the list of them lacks some "
                                       "after a restart"});
    return {.length = kIssuedRetry, .jitter = true};
  }

  // Adds what the record lacks until nobody else has changed it meanwhile.
  Status store() {
    IssuedRecord added;
    {
      const std::lock_guard lock(mutex_);
      added = std::exchange(unwritten_, {});
    }
    IssuedRecord all;
    const Status stored = store(added, all);
    const WallTime now = options_.runtime.clock.wall_now();
    const std::lock_guard lock(mutex_);
    if (stored.ok())
      known_ = std::move(all);
    else
      merge_issued(unwritten_, added);
    merge_issued(known_, unwritten_);
    // While the record is away, both have its bounds.
    trim_issued(unwritten_, now);
    trim_issued(known_, now);
    return stored;
  }

  // Result: the record with `added`, in `all`.
  Status store(const IssuedRecord& added, IssuedRecord& all) {
    Status stored;
    for (int attempt = 0; attempt < kIssuedTries; ++attempt) {
      OSM_TRY(const TextRecord::Text present, options_.record.load());
      OSM_TRY(all, decode_issued_record(present.text, options_.record.name()));
      merge_issued(all, added);
      trim_issued(all, options_.runtime.clock.wall_now());
      const std::string text = encode_issued_record(all);
      bytes_ = text.size();
      stored = text == present.text ? Status() : options_.record.store({text, present.version});
      if (stored.ok() || stored.error().code != ErrorCode::kConflict) break;
    }
    return stored;
  }

  void log(const Problem* began) const {
    if (began != nullptr)
      options_.runtime.log.warning("issued certificates cannot be recorded",
                                   {{"record", began->path}, {"detail", began->cause}});
    else
      options_.runtime.log.info("issued certificates can be recorded again", {});
  }

  const IssuedCertificatesOptions options_;
  std::mutex mutex_;
  IssuedRecord known_;      // the record as it was last read, with `unwritten_`; guarded by mutex_
  IssuedRecord unwritten_;  // guarded by mutex_

  // On the strand.
  std::size_t bytes_ = 0;  // of the record
  SteadyTime next_{};      // no turn before
  Outage<Problem> outage_;
  Strand strand_;
  Round writes_;
};

}  // namespace
}  // namespace osm::inline v1::control_plane

namespace osm::inline v1 {

std::unique_ptr<IssuedCertificates> make_issued_certificates(
    const IssuedCertificatesOptions& options) {
  return std::make_unique<control_plane::RecordedCertificates>(options);
}

}  // namespace osm::inline v1
