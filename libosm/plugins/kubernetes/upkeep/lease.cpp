#include "kubernetes/upkeep/lease.hpp"

#include <algorithm>
#include <utility>

#include "base/backoff.hpp"
#include "base/json.hpp"
#include "base/times.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/upkeep/labels.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr std::chrono::seconds kLeaseDuration{15};
constexpr std::chrono::seconds kRenewDeadline{10};  // less than the duration
constexpr std::chrono::seconds kLeaseRetry{2};

json::object& spec_of(json::object& lease) {
  json::value& spec = lease["spec"];
  if (!spec.is_object()) spec = json::object();
  return spec.as_object();
}

}  // namespace

Lease::Lease(const UpkeepOptions& options, std::function<void()> on_acquired)
    : api_(options.cluster.api()),
      runtime_(options.runtime),
      ns_(options.osm_namespace),
      name_("osm-controller-" + options.mesh_name),
      identity_(options.replica),
      on_acquired_(std::move(on_acquired)),
      strand_(runtime_.blocking) {
  strand_.post([this] { tick(); });
}

Lease::~Lease() {
  stop();
  if (!held()) return;
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

void Lease::tick() {
  look(runtime_.clock.steady_now());
  runtime_.metrics.set("osm_lease_held", {}, held() ? 1 : 0);
  timer_ = strand_.post_after(jittered(kLeaseRetry, runtime_.rng), [this] { tick(); });
}

// `asked`: time before the call of the API; its answer is not older.
void Lease::look(SteadyTime asked) {
  auto lease = api_.get(kLeases, ns_, name_);
  if (!lease.ok()) {
    if (lease.error().code == ErrorCode::kNotFound) return create(asked);
    if (!std::exchange(failing_, true))
      runtime_.log.warning("the Lease of this control plane cannot be read",
                           {{"lease", ns_ + '/' + name_}, {"detail", lease.error().text()}});
    return;
  }
  failing_ = false;
  const std::string holder = text_at(map_at(*lease, "spec"), "holderIdentity");
  const bool ours = holder == identity_;
  if (!ours) held_until_ = SteadyTime::min().time_since_epoch().count();
  if (!ours && !holder.empty() && !expired(*lease)) return;
  json::object& spec = spec_of(*lease);
  const std::string now = rfc3339(runtime_.clock.wall_now(), 6);
  if (!ours) {
    spec["holderIdentity"] = identity_;
    spec["acquireTime"] = now;
    spec["leaseTransitions"] = number_at(lease->at("spec"), "leaseTransitions") + 1;
  }
  spec["leaseDurationSeconds"] = kLeaseDuration.count();
  spec["renewTime"] = now;
  write(*std::move(lease), asked, !ours);
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

void Lease::create(SteadyTime asked) {
  const std::string now = rfc3339(runtime_.clock.wall_now(), 6);
  json::object lease = new_object(kLeases, ns_, name_, name_label());
  lease["spec"] = {{"holderIdentity", identity_},
                   {"leaseDurationSeconds", kLeaseDuration.count()},
                   {"acquireTime", now},
                   {"renewTime", now},
                   {"leaseTransitions", 0}};
  // Another replica may have been first; the next check shows it.
  if (api_.create(kLeases, lease).ok()) acquired_until(asked + kRenewDeadline);
}

void Lease::write(json::object lease, SteadyTime asked, bool taken) {
  // A conflict: another replica took it in between, or renewed.
  if (!api_.update(kLeases, lease).ok()) return;
  if (taken)
    runtime_.log.info("this replica writes what one replica at a time does",
                      {{"lease", ns_ + '/' + name_}});
  acquired_until(asked + kRenewDeadline);
}

void Lease::acquired_until(SteadyTime until) {
  const bool before = held();
  held_until_ = until.time_since_epoch().count();
  if (!before) on_acquired_();
}

}  // namespace osm::inline v1::kubernetes
