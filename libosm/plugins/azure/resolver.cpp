#include "azure/resolver.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "azure/arm.hpp"
#include "base/backoff.hpp"
#include "base/maps.hpp"
#include "base/strand.hpp"
#include "osm/notifier.hpp"

namespace osm::inline v1::azure {
namespace {

using std::chrono::seconds;

constexpr std::size_t kParallel = 4;
// ARM may refuse a resource for ever. So many refusals count as an answer.
constexpr unsigned kLastingRefusals = 3;

}  // namespace

struct AzureResolver::Entry {
  ResourceId id;
  std::optional<Resolution> good;
  std::optional<Error> fault;
  bool asking = false;
  bool settled = false;
  unsigned failures = 0;
  unsigned refusals = 0;
  std::optional<SteadyTime> gone{};  // the first 404 without a break
  SteadyTime due{};
};

// Shared with requests in flight, which may outlive the resolver.
struct AzureResolver::Core : std::enable_shared_from_this<Core> {
  Core(const AzureResolverOptions& with, std::unique_ptr<Ending> with_ending,
       std::unique_ptr<Arm> with_arm)
      : options(with),
        ending(std::move(with_ending)),
        arm(std::move(with_arm)),
        strand(with.runtime.executor) {}

  void plan();
  void start(const std::string& id, const ResourceId& resource);
  void end(const std::string& id, const Result<Resolution>& answer);
  bool take(Entry& entry, const Result<Resolution>& answer);
  void take_fault(Entry& entry, const Error& fault, bool throttled);
  Backoff again() const { return {seconds(1), options.settings.interval}; }

  const AzureResolverOptions options;
  const std::unique_ptr<Ending> ending;
  const std::unique_ptr<Arm> arm;  // before `ending` in the end
  Notifier<const std::set<std::string>&> changed;

  mutable std::mutex mutex;
  std::map<std::string, Entry> entries;
  std::size_t in_flight = 0;
  bool healthy = true;
  std::optional<Error> login;  // reason why there is no token

  Strand strand;
  Subscription timer;  // on the strand
};

// On the strand.
void AzureResolver::Core::plan() {
  std::vector<std::pair<std::string, ResourceId>> due;
  std::optional<SteadyTime> next;
  const SteadyTime now = options.runtime.clock.steady_now();
  const SteadyTime pause = arm->paused_until().value_or(now);
  {
    const std::lock_guard lock(mutex);
    for (auto& [id, entry] : entries) {
      if (entry.asking) continue;
      const SteadyTime at = std::max(entry.due, pause);
      if (at <= now && in_flight < kParallel) {
        entry.asking = true;
        ++in_flight;
        due.emplace_back(id, entry.id);
      } else if (at > now) {
        next = std::min(at, next.value_or(at));
      }
    }
  }
  for (const auto& [id, resource] : due) start(id, resource);
  timer.reset();
  // Resources that are due and wait for others follow when one of these ends.
  if (next)
    timer = strand.post_after(*next - now, [weak = weak_from_this()] {
      if (const auto core = weak.lock()) core->plan();
    });
}

void AzureResolver::Core::start(const std::string& id, const ResourceId& resource) {
  options.runtime.blocking.post([core = shared_from_this(), id, resource] {
    if (core->ending->ended()) return;
    auto answer = core->arm->resolve(resource);
    if (core->ending->ended()) return;
    core->strand.post([weak = core->weak_from_this(), id, answer = std::move(answer)] {
      if (const auto held = weak.lock()) held->end(id, answer);
    });
  });
}

void AzureResolver::Core::take_fault(Entry& entry, const Error& fault, bool throttled) {
  const SteadyTime now = options.runtime.clock.steady_now();
  const bool gone = fault.code == ErrorCode::kNotFound;
  if (!gone && !throttled) entry.gone.reset();
  if (throttled) {
    entry.due = now;  // with the others, after the pause
    return;
  }
  ++entry.failures;
  entry.due = now + again().delay(entry.failures, options.runtime.rng);
  if (fault.code == ErrorCode::kUnavailable) return;
  if (++entry.refusals >= kLastingRefusals || gone) entry.settled = true;
  if (!gone) return;
  if (!entry.gone) entry.gone = now;
  if (now - *entry.gone >= options.gone_after && entry.good) {
    const bool scales = entry.good->scales;
    entry.good = Resolution{{}, scales};
  }
}

// Result: true if the answer or the problem changed.
bool AzureResolver::Core::take(Entry& entry, const Result<Resolution>& answer) {
  const SteadyTime now = options.runtime.clock.steady_now();
  const bool throttled = !answer && arm->paused_until().value_or(now) > now;
  const auto former = std::pair(entry.good, entry.fault);
  if (answer) {
    entry.good = *answer;
    entry.fault.reset();
    entry.failures = entry.refusals = 0;
    entry.gone.reset();
    entry.settled = true;
    entry.due = now + jittered(options.settings.interval, options.runtime.rng);
  } else {
    entry.fault = answer.error();
    take_fault(entry, answer.error(), throttled);
  }
  if (former.second.has_value() != entry.fault.has_value()) {
    if (entry.fault)
      options.runtime.log.warning("an Azure resource is not resolved; its last addresses are kept",
                                  {{"cause", entry.fault->message}});
    else
      options.runtime.log.info("an Azure resource is resolved again", {{"id", entry.id.text}});
  }
  return former != std::pair(entry.good, entry.fault);
}

// On the strand.
void AzureResolver::Core::end(const std::string& id, const Result<Resolution>& answer) {
  std::set<std::string> ids;
  bool told = false;
  {
    const std::lock_guard lock(mutex);
    --in_flight;
    const SteadyTime now = options.runtime.clock.steady_now();
    const bool throttled = arm->paused_until().value_or(now) > now;
    auto now_login = arm->login_problem();
    const bool away = !answer && answer.error().code == ErrorCode::kUnavailable && !throttled;
    const bool now_healthy = !away && !now_login;
    told |= healthy != now_healthy || login != now_login;
    healthy = now_healthy;
    login = std::move(now_login);
    if (Entry* entry = find_in(entries, id); entry && entry->asking) {
      entry->asking = false;
      const bool settled = entry->settled;
      if (take(*entry, answer)) ids.insert(id);
      told |= settled != entry->settled;
    }
  }
  if (!ids.empty()) changed.notify(ids);
  if (told) changed.notify({});
  plan();
}

AzureResolver::AzureResolver(const AzureResolverOptions& options, std::unique_ptr<Ending> ending,
                             std::unique_ptr<Arm> arm)
    : core_(std::make_shared<Core>(options, std::move(ending), std::move(arm))) {}

AzureResolver::~AzureResolver() {
  core_->ending->end();
  core_->strand.stop();
  core_->timer.reset();
}

void AzureResolver::follow(std::set<std::string> ids) {
  {
    const std::lock_guard lock(core_->mutex);
    std::erase_if(core_->entries, [&](const auto& entry) { return !ids.contains(entry.first); });
    for (const std::string& id : ids) {
      const auto resource = resource_id_of(id);
      if (!resource || core_->entries.contains(id)) continue;
      Entry& entry = core_->entries[id];
      entry.id = *resource;
      entry.due = core_->options.runtime.clock.steady_now();
    }
    if (core_->entries.empty()) core_->healthy = true;  // nobody is asked
  }
  core_->strand.post([weak = std::weak_ptr(core_)] {
    if (const auto core = weak.lock()) core->plan();
  });
}

std::optional<Resolution> AzureResolver::find(const std::string& id) const {
  const std::lock_guard lock(core_->mutex);
  const Entry* entry = find_in(core_->entries, id);
  return entry ? entry->good : std::nullopt;
}

bool AzureResolver::has_synced() const {
  const std::lock_guard lock(core_->mutex);
  return std::all_of(core_->entries.begin(), core_->entries.end(),
                     [](const auto& entry) { return entry.second.settled; });
}

bool AzureResolver::healthy() const {
  const std::lock_guard lock(core_->mutex);
  return core_->healthy;
}

std::vector<ResourceProblem> AzureResolver::list_problems() const {
  const std::lock_guard lock(core_->mutex);
  std::vector<ResourceProblem> out;
  // One problem in place of the same one for each resource.
  if (core_->login) {
    if (!core_->entries.empty()) out.push_back({"", core_->login->code, core_->login->message});
    return out;
  }
  for (const auto& [id, entry] : core_->entries)
    if (entry.fault) out.push_back({id, entry.fault->code, entry.fault->message});
  return out;
}

Subscription AzureResolver::subscribe(
    std::function<void(const std::set<std::string>& ids)> on_change) {
  return core_->changed.subscribe(std::move(on_change));
}

Result<std::unique_ptr<ResourceResolver>> make_azure_resolver(const AzureResolverOptions& options) {
  auto ending = std::make_unique<Ending>();
  auto arm = Arm::make(options, *ending);
  if (!arm) return Error{ErrorCode::kInvalidArgument, arm.error().message};
  return std::unique_ptr<ResourceResolver>(
      std::make_unique<AzureResolver>(options, std::move(ending), std::move(*arm)));
}

}  // namespace osm::inline v1::azure
