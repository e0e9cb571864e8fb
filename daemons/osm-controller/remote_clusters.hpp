// Other Kubernetes clusters whose pods serve Services of this mesh, too. Each is an endpoints
// provider, "kubernetes-<name>": its pods have their sidecars from controllers of their own
// cluster.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mesh_options.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/object.hpp"
#include "osm/runtime/lanes.hpp"
#include "osm/runtime/own_runtime.hpp"

namespace osm::controller {

class RemoteClusters {
 public:
  // Reads the kubeconfigs of `directory`, one file for each cluster, which has the cluster's name;
  // hidden files are none. An empty `directory`: there are no clusters. A file that cannot be used
  // is left out, as problems() says. `own_name`: a cluster that none of them may be called.
  // Lifetime: `runtime` outlives it. Blocking: reads files.
  RemoteClusters(const std::string& directory, const std::string& own_name,
                 const daemon::MeshOptions& options, OwnRuntime& runtime);
  ~RemoteClusters();

  // The mesh starts without a cluster that does not answer. Ordered by the clusters' names.
  std::vector<ProviderEntry> providers() const;

  // Files that are left out, and clusters that cannot be read. Thread: any. Blocking: no.
  std::vector<Problem> problems() const;

 private:
  struct Remote;

  net::Lane blocking_;  // unwatched: their name servers are others'
  std::vector<std::unique_ptr<Remote>> clusters_;
  std::vector<Problem> left_out_;
};

}  // namespace osm::controller
