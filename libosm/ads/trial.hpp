// A trial: one proxy is given the configuration of another mesh than the real one, to learn whether
// it accepts that. Afterwards it goes back to what its class holds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "model/mesh_snapshot.hpp"
#include "osm/subscription.hpp"
#include "osm/values/proxy.hpp"

namespace osm::inline v1::ads {

// A proxy refused what its class holds, secrets apart. It keeps its last good configuration.
struct Refusal {
  model::ProxyKey proxy;
  WorkloadName workload;
  XdsType type{};
  std::string detail;  // the proxy's words
};

struct TrialResult {
  enum class Outcome {
    kAccepted,
    kRefused,
    kGone,      // the proxy is not connected, or its stream ended
    kTimedOut,  // it did not answer
  };
  Outcome outcome = Outcome::kGone;
  XdsType type{};  // kRefused: which one, and the proxy's words
  std::string detail;
  std::uint64_t applied_generation = 0;  // of the real mesh, acknowledged before; 0: unknown
};

// Whether somebody else accepted what the proxy refuses.
enum class Witness {
  kNone,
  kAccepted,   // another proxy holds the like of it, and acknowledged it
  kUndecided,  // nobody yet, but some have not answered
};

class TrialHost {
 public:
  using MeshPtr = std::shared_ptr<const model::MeshSnapshot>;

  virtual ~TrialHost() = default;

  // Calls back for every refusal that belongs to no trial. Callbacks here and below run on the
  // host's strand and must not block. Lifetime: until the handle dies.
  virtual Subscription subscribe_refusals(std::function<void(const Refusal&)> on_refusal) = 0;

  // Gives the proxy what its class would hold in `mesh`, and tells once it has answered all of it;
  // null: what its class holds. It stays on trial until end_trial(), or until it is gone. `done` is
  // dropped when another trial of it begins, or it ends. Thread: any.
  virtual void try_on(const model::ProxyKey& proxy, MeshPtr mesh,
                      std::function<void(const TrialResult&)> done) = 0;

  // The proxy goes back to what its class holds, once that comes from `generation` or a later one.
  // Thread: any.
  virtual void end_trial(const model::ProxyKey& proxy, std::uint64_t generation) = 0;

  // Looks for other proxies that hold resources of `type` in the same role as those
  // that `proxy` would not have in the mesh `without`. `without.changes` says how it differs from
  // the real mesh. Thread: any.
  virtual void find_witness(const model::ProxyKey& proxy, XdsType type, MeshPtr without,
                            std::function<void(Witness)> done) = 0;
};

}  // namespace osm::inline v1::ads
