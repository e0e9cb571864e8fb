#include "native_sidecars.hpp"

#include <algorithm>
#include <utility>

namespace osm::injector {
namespace {

constexpr int kSince = 29;

Result<int> read_version(kubernetes::Cluster& cluster) {
  auto minor = kubernetes::server_minor_version(cluster);
  if (minor.ok()) return minor;
  return Error{minor.error().code,
               minor.error().message + "; --native-sidecars on or off goes without it"};
}

}  // namespace

Result<std::unique_ptr<NativeSidecars>> NativeSidecars::start(const Options& options,
                                                              kubernetes::Cluster& cluster,
                                                              const Runtime& runtime,
                                                              host::Start& startup) {
  auto started = std::make_unique<NativeSidecars>();
  started->decided_ = options.native_sidecars;
  if (started->decided_) return started;
  OSM_TRY(started->server_minor_,
          startup.wait_for("version of the API server", [&] { return read_version(cluster); }));
  started->kubelets_ = kubernetes::follow_kubelet_versions(cluster, runtime);
  return started;
}

// An API server or a kubelet that is older runs Envoy as an init container that never ends. Which
// node a pod will run on is not known at its injection.
bool NativeSidecars::wanted() const {
  if (decided_) return *decided_;
  return std::min(server_minor_, kubelets_->oldest().value_or(0)) >= kSince;
}

std::optional<Problem> NativeSidecars::problem() const {
  auto problem = kubelets_ ? kubelets_->problem() : std::nullopt;
  if (problem)
    problem->cause +=
        "; without the kubelets' versions new sidecars are ordinary containers: run `osm upgrade`, "
        "or set --native-sidecars to on or off";
  return problem;
}

}  // namespace osm::injector
