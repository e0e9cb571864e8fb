// A trial: one proxy is sent the configuration of another mesh than the real one, and the caller
// learns if the proxy accepts it. Afterwards the proxy gets the configuration of its class again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "model/mesh_snapshot.hpp"
#include "osm/subscription.hpp"
#include "osm/values/proxy.hpp"

namespace osm::inline v1::ads {

// A proxy refused the configuration of its class, secrets apart. It keeps its last good one.
struct Refusal {
  model::ProxyKey proxy;
  WorkloadName workload;
  XdsType type{};
  std::string detail;  // the proxy's text
};

struct TrialResult {
  enum class Outcome {
    kAccepted,  // also a configuration without listeners or clusters: see `kept`
    kRefused,
    kGone,      // the proxy is not connected, or its stream ended
    kTimedOut,  // it did not answer
  };
  Outcome outcome = Outcome::kGone;
  XdsType type{};      // kRefused: the type that was refused
  std::string detail;  // kRefused: the proxy's text
  std::uint64_t applied_generation =
      0;  // generation of the real mesh, acknowledged before; 0: unknown
  // kAccepted: true if the proxy keeps its listeners or clusters, because the trial has none. They
  // are not removed for a trial.
  bool kept = false;
};

// The answer of the other proxies to resources that one proxy refuses.
enum class OtherProxies {
  kNone,       // no other proxy has such resources, or none accepted them
  kAccepted,   // at least one acknowledged them
  kUndecided,  // none acknowledged them yet, and some have not answered
};

class TrialHost {
 public:
  using MeshPtr = std::shared_ptr<const model::MeshSnapshot>;

  virtual ~TrialHost() = default;

  // Calls back for every refusal that belongs to no trial. Callbacks here and below run on the
  // host's strand and must not block. Lifetime: until the handle dies.
  virtual Subscription subscribe_refusals(std::function<void(const Refusal&)> on_refusal) = 0;

  // Sends the proxy the configuration that its class would have in `mesh` (null: in the real mesh),
  // and calls `done` once the proxy has answered all of it. The trial lasts until end_trial(), or
  // until the proxy disconnects. `done` is dropped when the trial ends, or another one of the same
  // proxy begins. Thread: any.
  virtual void try_on(const model::ProxyKey& proxy, MeshPtr mesh,
                      std::function<void(const TrialResult&)> done) = 0;

  // Sends the proxy the configuration of its class again, once that is of `generation` or later.
  // Thread: any.
  virtual void end_trial(const model::ProxyKey& proxy, std::uint64_t generation) = 0;

  // Compares `proxy` with the other proxies: those count that have resources of `type` in the same
  // role as the resources that `proxy` would not have in the mesh `without`. `without.changes` is
  // the difference to the real mesh. Thread: any.
  virtual void ask_others(const model::ProxyKey& proxy, XdsType type, MeshPtr without,
                          std::function<void(OtherProxies)> done) = 0;
};

}  // namespace osm::inline v1::ads
