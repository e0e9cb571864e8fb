// Decides if sidecars are native: init containers that go on, which start first and end last.
#pragma once

#include <memory>
#include <optional>

#include "options.hpp"
#include "osm/host/start.hpp"
#include "osm/kubernetes/cluster.hpp"

namespace osm::injector {

class NativeSidecars {
 public:
  // Follows the nodes' kubelets, unless a flag decides. Lifetime: the references outlive it.
  // Failure: the startup's. Blocking: until the API server has told its version.
  static Result<std::unique_ptr<NativeSidecars>> start(const Options& options,
                                                       kubernetes::Cluster& cluster,
                                                       const Runtime& runtime,
                                                       host::Start& startup);

  // Thread: any. Blocking: no.
  bool wanted() const;
  // False until it is known what to answer.
  bool has_synced() const { return !kubelets_ || kubelets_->has_synced(); }
  std::optional<Problem> problem() const;

 private:
  std::optional<bool> decided_;  // by the flag
  int server_minor_ = 0;
  std::unique_ptr<kubernetes::KubeletVersions> kubelets_;  // null: the flag decides
};

}  // namespace osm::injector
