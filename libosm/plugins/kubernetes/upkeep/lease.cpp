#include "kubernetes/upkeep/lease.hpp"

#include <algorithm>
#include <utility>

#include "base/json.hpp"
#include "base/shared_metrics.hpp"
#include "base/times.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/upkeep/labels.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr std::chrono::seconds kLeaseDuration{15};
constexpr std::chrono::seconds kRenewDeadline{13};  // less than the duration
constexpr std::chrono::seconds kLeasePeriod{7};     // leaves time for two retries
// After a failure, and when the holder has not renewed it since the last look.
constexpr std::chrono::seconds kLeaseRetry{2};

json::object& spec_of(json::object& lease) {
  json::value& spec = lease["spec"];
  if (!spec.is_object()) spec = json::object();
  return spec.as_object();
}

}  // namespace

Lease::Lease(const ReplicaBoardOptions& options)
    : api_(options.cluster.api()),
      runtime_(options.runtime),
      ns_(options.osm_namespace),
      name_("osm-controller-" + options.mesh_name),
      identity_(options.replica),
      strand_(runtime_.blocking),
      round_(strand_, runtime_.rng,
             {.turn = [this] { return tick(); },
              .may_run = [this] { return stands_.any(); },
              .forget = [this] { release(); }}),
      stands_(
          strand_, [this] { return leads(); }, [this] { round_.wake(); }) {}

Lease::~Lease() {
  stop();
  release();
}

// Another replica need not wait.
void Lease::release() {
  if (!held()) return;
  held_until_ = SteadyTime::min().time_since_epoch().count();
  ours_.reset();
  runtime_.metrics.set(kLeaseHeld, {}, 0);
  auto lease = api_.get(kLeases, ns_, name_);
  if (!lease.ok() || text_at(map_at(*lease, "spec"), "holderIdentity") != identity_) return;
  json::object& spec = spec_of(*lease);
  spec["holderIdentity"] = "";
  spec["renewTime"] = rfc3339(runtime_.clock.wall_now(), 6);
  // If this fails, the Lease expires by itself.
  static_cast<void>(api_.update(kLeases, *lease));
}

bool Lease::held() const {
  return runtime_.clock.steady_now().time_since_epoch().count() < held_until_.load();
}

Pause Lease::tick() {
  look();
  runtime_.metrics.set(kLeaseHeld, {}, held() ? 1 : 0);
  return {.length = settled_ ? kLeasePeriod : kLeaseRetry, .jitter = true};
}

// Renews what this replica wrote last: one request. False: somebody changed it, or the server is
// away.
bool Lease::renew() {
  if (!ours_) return false;
  json::object lease = *std::exchange(ours_, std::nullopt);
  const SteadyTime asked = runtime_.clock.steady_now();
  spec_of(lease)["renewTime"] = rfc3339(runtime_.clock.wall_now(), 6);
  auto written = api_.update(kLeases, lease);
  if (written.ok()) hold(*std::move(written), asked);
  return written.ok();
}

void Lease::hold(json::object lease, SteadyTime asked) {
  lease["metadata"].as_object().erase("managedFields");  // the server keeps them; half of the bytes
  ours_ = std::move(lease);
  const bool before = held();
  // The answer is not older than the question.
  held_until_ = (asked + kRenewDeadline).time_since_epoch().count();
  if (!before) stands_.begin();
}

void Lease::look() {
  settled_ = renew();
  if (settled_) return;
  const SteadyTime asked = runtime_.clock.steady_now();
  const auto present = api_.get(kLeases, ns_, name_);
  const bool absent = !present.ok() && present.error().code == ErrorCode::kNotFound;
  const Status read = present.ok() || absent ? Status() : Status(present.error());
  if (round_.first_failure(read))
    runtime_.log.warning("the Lease of this control plane cannot be read",
                         {{"lease", ns_ + '/' + name_}, {"detail", read.error().text()}});
  if (!read.ok()) return;
  json::object lease = absent ? new_object(kLeases, ns_, name_, name_label()) : *present;
  json::object& spec = spec_of(lease);
  const std::string holder = text_at(spec, "holderIdentity");
  const bool ours = holder == identity_;
  if (!ours && !absent) {
    held_until_ = SteadyTime::min().time_since_epoch().count();
    if (!holder.empty() && !expired(lease)) {
      settled_ = seen_since_ >= asked;
      return;
    }
  }
  const std::string now = rfc3339(runtime_.clock.wall_now(), 6);
  if (!ours) {
    spec["holderIdentity"] = identity_;
    spec["acquireTime"] = now;
    spec["leaseTransitions"] = absent ? 0 : number_at(spec, "leaseTransitions") + 1;
  }
  spec["leaseDurationSeconds"] = kLeaseDuration.count();
  spec["renewTime"] = now;
  auto written = absent ? api_.create(kLeases, lease) : api_.update(kLeases, lease);
  // Another replica was faster, or renewed it; the next look shows it.
  if (!written.ok()) return;
  if (!ours)
    runtime_.log.info("this replica writes what one replica at a time does",
                      {{"lease", ns_ + '/' + name_}});
  settled_ = true;
  hold(*std::move(written), asked);
}

// True if it has stood still for its holder's duration, by this replica's clock.
bool Lease::expired(const json::object& lease) {
  const std::string version = metadata_of(lease).version;
  const SteadyTime now = runtime_.clock.steady_now();
  if (version != seen_version_) {
    seen_version_ = version;
    seen_since_ = now;
  }
  const std::chrono::seconds said(number_at(map_at(lease, "spec"), "leaseDurationSeconds"));
  return now - seen_since_ >= std::max(said, kLeaseDuration);
}

}  // namespace osm::inline v1::kubernetes
