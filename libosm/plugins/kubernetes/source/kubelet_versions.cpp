#include <algorithm>
#include <atomic>
#include <climits>
#include <memory>
#include <optional>
#include <string>

#include "base/json.hpp"
#include "base/strand.hpp"
#include "kubernetes/client/informer.hpp"
#include "kubernetes/client/minor_version.hpp"
#include "kubernetes/client/resources.hpp"
#include "osm/kubernetes/cluster.hpp"

namespace osm::inline v1::kubernetes {
namespace {

constexpr int kUnknown = -1;

class NodeInformer final : public KubeletVersions {
 public:
  NodeInformer(Cluster& cluster, const Runtime& runtime)
      : strand_(runtime.executor),
        nodes_({.api = cluster.api(),
                .executor = strand_,
                .runtime = runtime,
                .server = cluster.server(),
                .resource = kNodes,
                .on_change = [this](const auto&) { oldest_ = read(); }}) {
    strand_.post([this] { nodes_.start(); });
  }

  ~NodeInformer() override { strand_.stop(); }

  std::optional<int> oldest() const override {
    const int oldest = oldest_;
    return oldest == kUnknown ? std::nullopt : std::optional(oldest);
  }
  bool has_synced() const override { return nodes_.has_synced() || nodes_.problem(); }
  std::optional<Problem> problem() const override { return nodes_.problem(); }

 private:
  int read() const {
    int oldest = INT_MAX;
    for (const auto& node : nodes_.objects().list()) {
      const auto& info = map_at(map_at(*node->document, "status"), "nodeInfo");
      oldest = std::min(oldest, minor_of(text_at(info, "kubeletVersion")).value_or(kUnknown));
    }
    return oldest == INT_MAX ? kUnknown : oldest;
  }

  std::atomic<int> oldest_{kUnknown};
  Strand strand_;
  Informer nodes_;
};

}  // namespace

std::unique_ptr<KubeletVersions> follow_kubelet_versions(Cluster& cluster, const Runtime& runtime) {
  return std::make_unique<NodeInformer>(cluster, runtime);
}

}  // namespace osm::inline v1::kubernetes
