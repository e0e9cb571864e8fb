#include "roots.hpp"

#include <utility>

#include "osm/kubernetes/upkeep.hpp"
#include "replica.hpp"

namespace osm::injector {

Result<Roots> start_roots(const daemon::LoadCaOptions& ca, MeshSpec& spec,
                          const std::string& mesh_name, Executor& waiting) {
  OSM_TRY(auto own, daemon::load_ca(ca));
  Roots roots;
  roots.record = kubernetes::make_rotation_record(*ca.cluster, ca.osm_namespace);
  OSM_TRY(roots.board, kubernetes::make_replica_board(
                           {.cluster = *ca.cluster,
                            .runtime = {waiting, waiting, ca.runtime.clock, ca.runtime.rng,
                                        ca.runtime.log, ca.runtime.metrics},
                            .replica = daemon::replica_name(ca.runtime.rng),
                            .mesh_name = mesh_name,
                            .osm_namespace = ca.osm_namespace,
                            .topics = {"roots"}}));
  OSM_TRY(
      roots.rotation,
      RootRotation::start({.runtime = {ca.runtime.executor, waiting, ca.runtime.clock,
                                       ca.runtime.rng, ca.runtime.log, ca.runtime.metrics},
                           .spec = spec,
                           .record = *roots.record,
                           .board = roots.board.get(),
                           .own = std::move(own),
                           .make_issuer = [ca](const auto& root) { return make_root(ca, root); },
                           .trust_domain = ca.trust_domain}));
  return roots;
}

}  // namespace osm::injector
