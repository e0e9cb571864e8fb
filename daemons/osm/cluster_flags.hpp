// The Kubernetes cluster that a command works on.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "osm/kubernetes/cluster.hpp"
#include "osm/runtime/own_runtime.hpp"

namespace osm::cli {

struct ClusterFlags {
  std::string kubeconfig;  // empty: $KUBECONFIG, else ~/.kube/config, else the pod's cluster
  std::string context;     // empty: the kubeconfig's current one
};

void add_cluster(CLI::App& app, ClusterFlags& flags);

// True if a flag names the cluster / if there is a kubeconfig or a pod's cluster to use.
bool names_cluster(const ClusterFlags& flags);
bool finds_cluster(const ClusterFlags& flags);

// Failure: as kubernetes::connect. Lifetime: `runtime` outlives the cluster.
Result<std::unique_ptr<kubernetes::Cluster>> connect(const ClusterFlags& flags,
                                                     OwnRuntime& runtime);

}  // namespace osm::cli
