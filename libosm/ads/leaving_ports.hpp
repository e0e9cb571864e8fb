// Ports that workloads served until lately. Clients learn by their endpoints and routes that a
// workload has left a Service. Until then its proxy keeps accepting, with the policies of the
// newest snapshot, so that a removal never waits for anything else.
//
// A proxy may also connect after its workload has left, before or beside its clients: their
// controller went. So the meshes of the last seconds are remembered.
//
// Not synchronized.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "model/mesh_snapshot.hpp"
#include "osm/clock.hpp"
#include "translate/translate.hpp"

namespace osm::inline v1::ads {

class LeavingPorts {
 public:
  // Time for which a port is kept for clients that do not acknowledge, or are not known, after the
  // last endpoint here; and since the workload no longer serves it. An endpoint may stay while the
  // one that replaces it waits for its proxy (ADR 0071).
  static constexpr std::chrono::seconds kBound{5};
  static constexpr std::chrono::seconds kLatest{10};

  // The workload of `proxy` serves `after` in place of `before`.
  void note(const model::ProxyKey& proxy, const std::vector<translate::ServedPort>& before,
            const std::vector<translate::ServedPort>& after, SteadyTime now);
  // `mesh` was the newest one until now.
  void remember(std::shared_ptr<const model::MeshSnapshot> mesh, SteadyTime now);
  // The proxy has connected, and its workload serves `after`. Notes what else the workload served
  // in a mesh that ended after `away`, the end of the proxy's last stream here.
  void recall(const model::ProxyKey& proxy, const std::vector<translate::ServedPort>& after,
              SteadyTime away, SteadyTime now);
  // Call it every second.
  void forget_meshes(SteadyTime now);
  // Ports that the proxy keeps, as in translate::ProxyClass.
  std::vector<translate::ServedPort> of(const model::ProxyKey& proxy) const;
  void forget(const model::ProxyKey& proxy) { leaving_.erase(proxy); }
  bool empty() const { return leaving_.empty(); }

  // Ends what no client uses any more. `acknowledged`: the generation that all proxies of the mesh
  // have acknowledged; 0: unknown. Result: proxies that keep less than before. Call it every
  // second. A port goes at the call after the one that found it acknowledged: an Envoy's workers,
  // and requests on their way, are later than its acknowledgement.
  std::vector<model::ProxyKey> tick(SteadyTime now, const model::MeshSnapshot& mesh,
                                    std::uint64_t acknowledged);

 private:
  struct Leaving {
    translate::ServedPort what;
    bool port = true;  // false: the port stays, and only apexes leave
    SteadyTime until{};
    SteadyTime latest{};
    std::uint64_t gone_in = 0;  // a generation in which no endpoint leads here; 0: none was seen
    bool known = false;         // all proxies had acknowledged it at the last tick
  };

  struct Former {
    std::shared_ptr<const model::MeshSnapshot> mesh;
    SteadyTime ended;
    SteadyTime until;  // end of the last one that it stands for
  };
  // One mesh stands for all that end in so much time after it.
  static constexpr std::chrono::milliseconds kApart{500};

  static void add_lost(std::vector<Leaving>& leaving,
                       const std::vector<translate::ServedPort>& before,
                       const std::vector<translate::ServedPort>& after, SteadyTime until,
                       SteadyTime latest);
  void keep(const model::ProxyKey& proxy, std::vector<Leaving> leaving);

  std::map<model::ProxyKey, std::vector<Leaving>> leaving_;
  std::deque<Former> former_;  // oldest first
};

}  // namespace osm::inline v1::ads
