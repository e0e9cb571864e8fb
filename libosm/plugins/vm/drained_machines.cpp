#include "osm/providers/drained_machines.hpp"

#include <algorithm>
#include <atomic>
#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/json.hpp"
#include "base/strand.hpp"
#include "osm/log.hpp"
#include "osm/notifier.hpp"

namespace osm::inline v1::vm {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostDrained = 1000;
constexpr int kMostTries = 8;  // replicas that change the record at once
// A mesh directory that is replaced has no machines for a moment.
constexpr std::chrono::seconds kAbsence{60};

struct Drain {
  ProxyId proxy;
  std::int64_t since = 0;  // seconds since 1970

  friend bool operator==(const Drain&, const Drain&) = default;
};
using Drains = std::map<WorkloadName, Drain>;

Result<Drains> decode_drains(const std::string& text, const std::string& name) {
  Drains drains;
  if (text.empty()) return drains;
  const auto parsed = parse_json_object(text, name);
  if (!parsed.ok()) return parsed.error();
  const json::array& machines = list_at(*parsed, "machines");
  if (machines.size() > kMostDrained)
    return Error{ErrorCode::kTooLarge, name + ": has more than " + std::to_string(kMostDrained) +
                                           " drained machines; delete it, and drain again"};
  for (const json::value& value : machines) {
    const WorkloadName machine{text_at(value, "namespace"), text_at(value, "name")};
    const std::string uuid = text_at(value, "uuid");
    if (!is_dns_label(machine.ns) || !is_dns_subdomain(machine.name) || !is_uuid(uuid))
      return Error{ErrorCode::kInvalidSyntax,
                   name +
                       ": an entry of \"machines\" lacks a valid namespace, name or uuid; "
                       "delete the record, and drain the machines again"};
    drains.insert_or_assign(machine, Drain{ProxyId(uuid), number_at(value, "since")});
  }
  return drains;
}

std::string encode_drains(const Drains& drains) {
  json::array machines;
  for (const auto& [machine, drain] : drains)
    machines.push_back(json::object{{"namespace", machine.ns},
                                    {"name", machine.name},
                                    {"uuid", drain.proxy.str()},
                                    {"since", drain.since}});
  return json::serialize(json::object{{"machines", std::move(machines)}});
}

std::vector<WorkloadName> differences(const Drains& before, const Drains& after) {
  std::vector<WorkloadName> changed;
  for (const auto& [machine, drain] : before) {
    const auto at = after.find(machine);
    if (at == after.end() || at->second.proxy != drain.proxy) changed.push_back(machine);
  }
  for (const auto& [machine, drain] : after)
    if (!before.contains(machine)) changed.push_back(machine);
  return changed;
}

class RecordedDrains final : public DrainedMachines {
 public:
  explicit RecordedDrains(const DrainedMachinesOptions& options)
      : options_(options), strand_(options.runtime.blocking) {
    read();
    wait();
  }
  ~RecordedDrains() override { strand_.stop(); }

  bool has_synced() const override { return loaded_; }

  bool contains(const WorkloadName& machine, const ProxyId& proxy) const override {
    const std::lock_guard lock(mutex_);
    const auto at = drains_.find(machine);
    return at != drains_.end() && at->second.proxy == proxy;
  }

  Status drain(const WorkloadName& machine, const ProxyId& proxy) override {
    if (contains(machine, proxy)) return {};
    if (!is_known(machine))
      return Error{ErrorCode::kNotFound,
                   machine.str() +
                       " is no VirtualMachine of the mesh: only these can be drained. On the "
                       "machine, `osm vm leave --force` leaves without it"};
    const std::int64_t now = std::chrono::duration_cast<std::chrono::seconds>(
                                 options_.runtime.clock.wall_now().time_since_epoch())
                                 .count();
    return change([&](Drains& drains) -> Status {
      const auto at = drains.find(machine);
      if (at != drains.end() && at->second.proxy == proxy) return {};
      if (at == drains.end() && drains.size() >= kMostDrained)
        return Error{ErrorCode::kTooLarge,
                     std::to_string(kMostDrained) +
                         " machines are drained already: take some back with `osm vm drain NAME "
                         "--undo`, or delete their VirtualMachines"};
      drains.insert_or_assign(machine, Drain{proxy, now});
      return {};
    });
  }

  Status take_back(const WorkloadName& machine) override {
    return change([&](Drains& drains) -> Status {
      drains.erase(machine);
      return {};
    });
  }

  void follow(const WorkloadProvider* machines, std::function<bool()> synced) override {
    const std::lock_guard lock(following_);
    machines_ = machines;
    synced_ = std::move(synced);
  }

  Subscription subscribe(std::function<void(const std::vector<WorkloadName>&)> on_change) override {
    return changed_.subscribe(std::move(on_change));
  }

 private:
  bool is_known(const WorkloadName& machine) {
    const std::lock_guard lock(following_);
    return machines_ != nullptr && machines_->find_workload(machine).has_value();
  }

  // Changes the record until nobody else has changed it meanwhile. `edit` may run several times.
  Status change(const std::function<Status(Drains&)>& edit) {
    const std::lock_guard order(changing_);
    Status stored;
    for (int attempt = 0; attempt < kMostTries; ++attempt) {
      OSM_TRY(const TextRecord::Text present, options_.record.load());
      OSM_TRY(const Drains before, decode_drains(present.text, options_.record.name()));
      Drains after = before;
      OSM_TRY(edit(after));
      stored = after == before ? Status()
                               : options_.record.store({encode_drains(after), present.version});
      if (stored.ok()) use(std::move(after));
      if (stored.ok() || stored.error().code != ErrorCode::kConflict) break;
    }
    return stored;
  }

  // Precondition: changing_ held, so that an older record does not replace a newer one.
  void use(Drains drains) {
    std::vector<WorkloadName> changed;
    {
      const std::lock_guard lock(mutex_);
      changed = differences(drains_, drains);
      drains_ = std::move(drains);
    }
    if (!loaded_.exchange(true) || !changed.empty()) changed_.notify(changed);
  }

  void read() {
    const std::lock_guard order(changing_);
    const auto present = options_.record.load();
    auto drains = present.ok() ? decode_drains(present->text, options_.record.name())
                               : Result<Drains>(present.error());
    const std::string failure = drains.ok() ? "" : drains.error().message;
    if (failure != std::exchange(failure_, failure) && !failure.empty())
      options_.runtime.log.warning("the record of drained machines cannot be read",
                                   {{"record", options_.record.name()}, {"detail", failure}});
    if (drains.ok()) use(*std::move(drains));
  }

  void wait() {
    timer_ = strand_.post_after(options_.interval, [this] {
      read();
      forget_absent();
      wait();
    });
  }

  // The entries whose machines are gone.
  Drains find_gone() {
    Drains drains;
    {
      const std::lock_guard lock(mutex_);
      drains = drains_;
    }
    Drains gone;
    const std::lock_guard lock(following_);
    if (machines_ == nullptr || !synced_()) return gone;
    const SteadyTime now = options_.runtime.clock.steady_now();
    std::erase_if(absent_, [&](const auto& one) { return !drains.contains(one.first); });
    for (const auto& [machine, drain] : drains) {
      const auto workload = machines_->find_workload(machine);
      if (workload) absent_.erase(machine);
      const bool away =
          !workload && now - absent_.try_emplace(machine, now).first->second >= kAbsence;
      if (away || (workload && workload->proxy_id != drain.proxy)) gone.emplace(machine, drain);
    }
    return gone;
  }

  void forget_absent() {
    const Drains gone = find_gone();
    if (gone.empty()) return;
    // A failure is one of the record, which read() tells.
    static_cast<void>(change([&](Drains& recorded) -> Status {
                        std::erase_if(recorded, [&](const auto& entry) {
                          const auto at = gone.find(entry.first);
                          return at != gone.end() && at->second == entry.second;
                        });
                        return {};
                      }).ok());
  }

  const DrainedMachinesOptions options_;
  std::mutex changing_;  // before mutex_
  mutable std::mutex mutex_;
  Drains drains_;                     // guarded by mutex_
  std::atomic<bool> loaded_ = false;  // the record was read once
  std::string failure_;               // guarded by changing_
  std::mutex following_;
  const WorkloadProvider* machines_ = nullptr;  // these three: guarded by following_
  std::function<bool()> synced_;
  std::map<WorkloadName, SteadyTime> absent_;  // machines that are not in the mesh
  Notifier<const std::vector<WorkloadName>&> changed_;
  Strand strand_;
  Subscription timer_;
};

}  // namespace

std::unique_ptr<DrainedMachines> make_drained_machines(const DrainedMachinesOptions& options) {
  return std::make_unique<RecordedDrains>(options);
}

}  // namespace osm::inline v1::vm
