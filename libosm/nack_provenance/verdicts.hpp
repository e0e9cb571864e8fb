// The objects that proxies refuse, with the proxies' words. A verdict ends when its object changes,
// or when its proxy stays away.
// Thread: any, but for publish().
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/snapshot_cell.hpp"
#include "model/mesh_snapshot.hpp"
#include "osm/values/proxy.hpp"

namespace osm::inline v1::nack_provenance {

// Refusal of an object by one proxy.
struct Verdict {
  static constexpr std::size_t kDetailBytes = 512;

  WorkloadName workload{};
  XdsType type{};
  std::string detail{};   // the proxy's words, so many bytes at most
  bool keeping = false;   // it keeps its last good content; else it is served without the object
  std::string replica{};  // where it is connected; empty: here

  // "client/c1 (CDS): ..."
  std::string text() const;
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

// By object, as the mesh names it, and by proxy.
using Refusals = std::map<ObjectKey, std::map<model::ProxyKey, Verdict>>;

// The verdicts of this replica, for those who ask.
class Verdicts {
 public:
  static constexpr std::size_t kNamed = 3;  // proxies that a problem names

  // `connected`: number of connected proxies that the object concerns, at all replicas.
  Verdicts(std::string osm_namespace, std::function<std::size_t(const ObjectKey&)> connected);

  // All of them. `elsewhere`: those of other replicas; a proxy that is in both counts as here.
  Refusals list(Refusals elsewhere = {}) const;
  // One for each object of list(elsewhere), ordered, without its source.
  std::vector<Problem> problems(Refusals elsewhere = {}) const;
  // The proxies that refuse the object.
  std::map<model::ProxyKey, Verdict> refusing(const ObjectKey& object) const;
  // Calls `on_change` after each change. Lifetime: until the handle dies.
  Subscription subscribe(std::function<void()> on_change) {
    return all_.subscribe([call = std::move(on_change)](const auto&) { call(); });
  }

  // Thread: the one writer.
  void publish(Refusals all);

  // The name of the object; a mesh has one MeshConfig.
  ObjectKey named(const ObjectKey& object) const {
    return object == model::mesh_config_key()
               ? ObjectKey{kinds::kMeshConfig, osm_namespace_, "osm-mesh-config"}
               : object;
  }

 private:
  const std::string osm_namespace_;
  const std::function<std::size_t(const ObjectKey&)> connected_;
  SnapshotCell<Refusals> all_;  // never null
};

}  // namespace osm::inline v1::nack_provenance
