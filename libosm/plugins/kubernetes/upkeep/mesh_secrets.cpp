#include "kubernetes/upkeep/mesh_secrets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace osm::inline v1::kubernetes {

std::string grant_command(const std::string& binding, const std::string& role,
                          const std::string& mesh_name, const std::string& osm_namespace,
                          const std::string& ns) {
  return fmt::format(
      "kubectl create rolebinding {} -n {} --clusterrole={}-{} --serviceaccount={}:osm-controller",
      binding, ns, role, mesh_name, osm_namespace);
}

MeshSecrets::MeshSecrets(InformerOptions watch, const UpkeepOptions& options)
    : watch_(std::move(watch)),
      mesh_name_(options.mesh_name),
      osm_namespace_(options.osm_namespace),
      by_namespace_(options.secrets_by_namespace),
      named_(!by_namespace_) {
  watch_.on_change = [this, tell = std::move(watch_.on_change)](const auto&) {
    note_problems();
    tell({});
  };
  if (!by_namespace_) watches_[""] = make("");
}

std::unique_ptr<Informer> MeshSecrets::make(const std::string& ns) {
  InformerOptions options = watch_;
  options.ns = ns;
  return std::make_unique<Informer>(std::move(options));
}

void MeshSecrets::set_namespaces(const std::set<std::string>& namespaces) {
  if (!by_namespace_) return;
  named_ = true;
  std::erase_if(watches_, [&](const auto& watch) { return !namespaces.contains(watch.first); });
  for (const std::string& ns : namespaces) {
    auto& watch = watches_[ns];
    if (watch) continue;
    watch = make(ns);
    if (started_) watch->start();
  }
  note_problems();
}

void MeshSecrets::start() {
  started_ = true;
  for (const auto& [ns, watch] : watches_) watch->start();
}

void MeshSecrets::stop() {
  started_ = false;
  for (const auto& [ns, watch] : watches_) watch->stop();
}

bool MeshSecrets::has_synced() const {
  return named_ && std::all_of(watches_.begin(), watches_.end(), [this](const auto& watch) {
           return watch.second->has_synced() || (by_namespace_ && watch.second->problem());
         });
}

void MeshSecrets::refresh(const std::function<void(bool)>& done) {
  struct Rest {
    std::size_t left;
    bool ok = true;
  };
  const auto rest = std::make_shared<Rest>(Rest{watches_.size()});
  if (watches_.empty()) return done(true);
  for (const auto& [ns, watch] : watches_)
    watch->refresh([this, watch = watch.get(), rest, done](bool ok) {
      rest->ok = rest->ok && (ok || (by_namespace_ && watch->problem()));
      if (--rest->left == 0) done(rest->ok);
    });
}

std::vector<std::shared_ptr<const Object>> MeshSecrets::list() const {
  std::vector<std::shared_ptr<const Object>> all;
  for (const auto& [ns, watch] : watches_)
    std::ranges::move(watch->objects().list(), std::back_inserter(all));
  return all;
}

std::shared_ptr<const Object> MeshSecrets::get(const std::string& ns,
                                               const std::string& name) const {
  const auto watch = watches_.find(by_namespace_ ? ns : "");
  return watch == watches_.end() ? nullptr : watch->second->objects().get(ns, name);
}

std::vector<Problem> MeshSecrets::problems() const {
  const std::lock_guard lock(mutex_);
  return problems_;
}

void MeshSecrets::note_problems() {
  std::vector<Problem> problems;
  for (const auto& [ns, watch] : watches_) {
    std::optional<Problem> problem = watch->problem();
    if (!problem) continue;
    problem->cause.resize(std::min(problem->cause.size(), problem->cause.find("; ")));
    if (by_namespace_)
      problem->cause += ": allow it by `" +
                        grant_command("osm-controller-secrets-" + mesh_name_,
                                      "osm-controller-secrets", mesh_name_, osm_namespace_, ns) +
                        "`, or take the namespace out of the mesh";
    problems.push_back(*std::move(problem));
  }
  const std::lock_guard lock(mutex_);
  problems_ = std::move(problems);
}

}  // namespace osm::inline v1::kubernetes
