// The metadata of the mesh's Secrets: from one watch of the cluster, or from a watch in each
// namespace, for an account that may read Secrets in some namespaces only.
//
// A namespace whose Secrets cannot be read does not delay the others. It is a problem, and counts
// in unreadable(), since nobody knows what is in there.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kubernetes/client/informer.hpp"
#include "osm/kubernetes/upkeep.hpp"

namespace osm::inline v1::kubernetes {

// The command that binds a ClusterRole of the chart, `role`-<mesh name>, to osm-controller in a
// namespace, by a RoleBinding `binding`.
std::string grant_command(const std::string& binding, const std::string& role,
                          const std::string& mesh_name, const std::string& osm_namespace,
                          const std::string& ns);

class MeshSecrets {
 public:
  // `watch.on_change` is called as an Informer's, without keys. With
  // `options.secrets_by_namespace` nothing is watched before set_namespaces().
  MeshSecrets(InformerOptions watch, const UpkeepOptions& options);

  // On the executor, and in no callback of this: the namespaces to watch from now on. Without
  // effect if one watch is for all.
  void set_namespaces(const std::set<std::string>& namespaces);

  // On the executor, as those of Informer.
  void start();
  void stop();
  bool has_synced() const;
  void refresh(const std::function<void(bool)>& done);
  std::vector<std::shared_ptr<const Object>> list() const;
  std::shared_ptr<const Object> get(const std::string& ns, const std::string& name) const;

  // Thread: any. Blocking: no.
  std::vector<Problem> problems() const;
  std::size_t unreadable() const { return problems().size(); }

 private:
  std::unique_ptr<Informer> make(const std::string& ns);
  void note_problems();

  InformerOptions watch_;
  const std::string mesh_name_, osm_namespace_;
  const bool by_namespace_;
  bool started_ = false;
  bool named_;                // the namespaces are known, or do not matter
  mutable std::mutex mutex_;  // guards `problems_`
  std::vector<Problem> problems_;
  std::map<std::string, std::unique_ptr<Informer>> watches_;  // by namespace; "": all
};

}  // namespace osm::inline v1::kubernetes
