#include "remote_clusters.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "osm/ids.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/object_store.hpp"
#include "osm/runtime/labelled_metrics.hpp"
#include "osm/spec/kinds.hpp"
#include "osm/spec/object_mesh_spec.hpp"

namespace osm::controller {
namespace {

// "kubernetes-<name>" is a DNS label.
constexpr std::size_t kLongestName = 63 - std::string_view("kubernetes-").size();

Problem problem_of(ErrorCode code, std::string path, std::string cause) {
  return {
      .code = code, .object = {}, .path = std::move(path), .field = {}, .cause = std::move(cause)};
}

}  // namespace

struct RemoteClusters::Remote {
  Remote(std::string file, const std::string& name, OwnRuntime& own, Executor& blocking)
      : path(std::move(file)),
        metrics(own.metrics, {{"remote_cluster", name}}),
        runtime{own.executor, blocking, own.clock, own.rng, own.log, metrics} {}

  std::string path;
  LabelledMetrics metrics;  // the own cluster's informers have the same names
  Runtime runtime;
  std::unique_ptr<kubernetes::Cluster> cluster;
  std::unique_ptr<ObjectStore> store;
  std::unique_ptr<MeshSpec> spec;
  std::unique_ptr<kubernetes::Provider> pods;
};

RemoteClusters::RemoteClusters(const std::string& directory, const std::string& own_name,
                               const daemon::MeshOptions& options, OwnRuntime& runtime)
    : blocking_(runtime.lanes(), {.name = "remote clusters", .bound = 4}) {
  if (directory.empty()) return;
  std::error_code fault;
  std::map<std::string, std::string> files;
  for (std::filesystem::directory_iterator at(directory, fault), end; !fault && at != end;
       at.increment(fault)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with('.')) files.emplace(name, at->path().string());
  }
  if (fault)
    left_out_.push_back(problem_of(ErrorCode::kUnreadableSource, directory,
                                   "cannot be read (" + fault.message() +
                                       "); its clusters are left out: correct "
                                       "--remote-clusters and restart"));
  for (const auto& [name, path] : files) {
    if (!is_dns_label(name) || name.size() > kLongestName || name == own_name) {
      left_out_.push_back(problem_of(
          ErrorCode::kInvalidField, path,
          name == own_name
              ? "has the name of this controller's own cluster (--cluster-name) and is left out"
              : "the file's name is the cluster's, and must be a DNS label of at most " +
                    std::to_string(kLongestName) +
                    " bytes; the cluster is left out: rename the file and restart"));
      continue;
    }
    auto remote = std::make_unique<Remote>(path, name, runtime, blocking_);
    auto cluster = kubernetes::connect({.kubeconfig = path,
                                        .foreign = true,  // the other cluster's administrator's
                                        .io = runtime.asio(),
                                        .runtime = remote->runtime});
    if (!cluster.ok()) {
      left_out_.push_back(problem_of(
          cluster.error().code, path,
          cluster.error().message + "; the cluster is left out: correct it and restart"));
      continue;
    }
    remote->cluster = *std::move(cluster);
    remote->store =
        kubernetes::make_store({.cluster = *remote->cluster,
                                .runtime = remote->runtime,
                                .mesh_name = options.mesh_name,
                                .osm_namespace = options.osm_namespace,
                                .kinds = spec::mesh_kinds({kinds::kNamespace, kinds::kService})});
    remote->spec = spec::make_mesh_spec({.store = *remote->store,
                                         .mesh_name = options.mesh_name,
                                         .osm_namespace = options.osm_namespace,
                                         .log = remote->runtime.log,
                                         .metrics = remote->metrics});
    remote->pods = kubernetes::make_provider({.store = *remote->store,
                                              .mesh_spec = *remote->spec,
                                              .log = remote->runtime.log,
                                              .metrics = remote->metrics,
                                              .cluster_name = name});
    clusters_.push_back(std::move(remote));
  }
}

RemoteClusters::~RemoteClusters() = default;

std::vector<ProviderEntry> RemoteClusters::providers() const {
  std::vector<ProviderEntry> out;
  for (const auto& remote : clusters_)
    out.push_back({.provider = remote->pods.get(), .required = false});
  return out;
}

std::vector<Problem> RemoteClusters::problems() const {
  std::vector<Problem> out = left_out_;
  for (const auto& remote : clusters_)
    for (Problem& problem : remote->store->list_problems()) {
      problem.path = remote->path + (problem.path.empty() ? "" : ": " + problem.path);
      out.push_back(std::move(problem));
    }
  return out;
}

}  // namespace osm::controller
