// Meshes of single proxies. A trial: one proxy is sent the configuration of another mesh than its
// own, and the caller learns if the proxy accepts it. Afterwards the proxy gets the configuration
// of its class again. An assignment: a proxy's class is built from another mesh from now on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

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
  // Generation of its mesh that it acknowledged before; 0: unknown.
  std::uint64_t applied_generation = 0;
  // kAccepted: true if the proxy keeps its listeners or clusters, because the trial has none. They
  // are not removed for a trial.
  bool kept = false;
};

using MeshPtr = std::shared_ptr<const model::MeshSnapshot>;

// Number of a mesh of some proxies, never used again. 0: the mesh of all.
using MeshNumber = std::uint64_t;
inline constexpr MeshNumber kMeshOfAll = 0;

// Resources of a class that are sent: those of `mesh`. Of resources that differ in `without` (null:
// none does) a proxy keeps what it has.
struct ProxyMesh {
  MeshPtr mesh;
  MeshPtr without;
};
// A ProxyMesh that stands for a generation of the mesh of all.
struct MeshUpdate {
  MeshNumber number{};
  ProxyMesh mesh;
  model::Changes changes;  // since the update before, of both meshes
  std::uint64_t generation = 0;
  std::string hash;  // of the mesh of all
};

// Types and names of resources.
using ResourceNames = std::set<std::pair<XdsType, std::string>>;

class TrialHost {
 public:
  virtual ~TrialHost() = default;

  // Calls back for every refusal that belongs to no trial. Callbacks here and below run on the
  // host's strand and must not block. Lifetime: until the handle dies.
  virtual Subscription subscribe_refusals(std::function<void(const Refusal&)> on_refusal) = 0;

  // Sends the proxy the configuration that its class would have in this mesh (null: in its own),
  // and calls `done` once the proxy has answered all of it. The trial lasts until end_trial(), or
  // until the proxy disconnects. `done` is dropped when the trial ends, or another one of the same
  // proxy begins. Thread: any.
  virtual void try_on(const model::ProxyKey& proxy, ProxyMesh mesh,
                      std::function<void(const TrialResult&)> done) = 0;

  // Sends the proxy the configuration of its class again, once that is current. `restore`: and
  // before, what it had acknowledged before its trials. It keeps that of what it refuses, or what
  // is frozen. Thread: any.
  virtual void end_trial(const model::ProxyKey& proxy, bool restore) = 0;

  // Calls `done` with the resources of the proxy's class that differ between the meshes of each
  // pair; with nothing if the proxy is not connected. Thread: any.
  virtual void compare(const model::ProxyKey& proxy, std::vector<ProxyMesh> pairs,
                       std::function<void(std::vector<ResourceNames>)> done) = 0;

  // Adds a mesh, or tells its newest state. Thread: any.
  virtual void update_mesh(MeshUpdate update) = 0;
  // Forgets a mesh. Precondition: no proxy has it. Thread: any.
  virtual void drop_mesh(MeshNumber number) = 0;
  // Builds the proxy's class from this mesh from now on, also after it reconnects. Precondition:
  // the mesh was added. Thread: any.
  virtual void assign_mesh(const model::ProxyKey& proxy, MeshNumber number) = 0;

  // Calls `done` with the connected proxies. Thread: any.
  virtual void list_connected(std::function<void(std::set<model::ProxyKey>)> done) = 0;
};

}  // namespace osm::inline v1::ads
