// An API server of a synthetic cluster in a process of its own, so that its CPU and memory are its
// own: HTTPS on the loopback, lists in pages, watches that say what changed since a version.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <memory>
#include <string>

#include "osm/result.hpp"
#include "synthetic_cluster.hpp"

namespace osm::bench {

// Events of objects, one each.
enum class Happening {
  kHeartbeat,   // a kubelet writes a pod's status again: only times differ
  kLabel,       // a pod's label changes that no Service asks for
  kPodReady,    // a pod becomes ready, or ceases to be
  kSliceReady,  // a slice says so of one endpoint
  kPodMoved     // a pod's label changes by which its Service selects it: it leaves, or is back
};

class ApiServerProcess {
 public:
  // Forks: the caller has one thread still. Files for clients go to `directory`.
  static Result<std::unique_ptr<ApiServerProcess>> start(const ClusterSize& size,
                                                         const std::string& directory);
  ~ApiServerProcess();  // ends it and waits

  // Path of a kubeconfig for it.
  const std::string& kubeconfig() const { return kubeconfig_; }

  // To the first `count` objects, one after another.
  Status happen(Happening what, int count);

  // Tells all watches that their version is gone (410), and ends them, once `watches` are open.
  Status expire(std::size_t watches);

  // The peer: the bytes of all lists, parsed page by page by boost::json and thrown away.
  struct Parsing {
    double cpu_seconds = 0;
    double bytes = 0;
    double pod_bytes = 0;  // of those, of pods
  };
  Result<Parsing> parse_everything();

 private:
  ApiServerProcess() = default;
  Result<std::string> ask(const std::string& command);

  pid_t pid_ = -1;
  std::FILE* commands_ = nullptr;
  std::FILE* answers_ = nullptr;
  std::string kubeconfig_;
};

}  // namespace osm::bench
