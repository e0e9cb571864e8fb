// The classes of connected proxies, and the present resource sets of each class. A snapshot touches
// classes through an index from services to their readers, never by a scan. Touched classes are
// built on the executor's pool, a limited number at a time, always from the newest snapshot.
//
// Thread: everything on the strand, except the builds themselves.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ads/class_builder.hpp"
#include "ads/task_gate.hpp"
#include "base/digest.hpp"
#include "base/maps.hpp"
#include "model/secret_source.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::ads {

using StreamId = std::uint64_t;

// Seconds, the unit of time in metrics.
// Origin of an identity's certificate.
struct SecretFacts {
  std::string issuer_id;  // certificate::Certificate::issuer_id
  TrustDomain trust_domain;
};

// A version of the mesh, as ControlPlaneStatus has it. 0: none.
struct MeshVersion {
  std::uint64_t generation = 0;
  std::string hash{};
};

// A mesh that classes are built from.
struct ClassMesh {
  std::shared_ptr<const model::MeshSnapshot> snapshot;  // null: none yet
  // Resources that differ from this mesh are frozen (translate::EncodedResource); null: none is.
  std::shared_ptr<const model::MeshSnapshot> without;
  MeshVersion present;    // that `snapshot` is of, or stands for
  MeshVersion untouched;  // before the changes that touch classes now
};

class ProxyClassEntry;
using ProxyClassPtr = std::shared_ptr<ProxyClassEntry>;

// The services that some classes read, ordered, and those classes. In permissive mode all classes
// share one list.
using ReadList = std::pair<const std::vector<ServiceName>, std::set<ProxyClassPtr>>;

class ProxyClassEntry {
 public:
  const translate::ProxyClass& proxy_class() const { return class_; }
  // The class's sets: null until the first build; the secrets are null until they are issued.
  const ResourceSets& sets() const { return sets_; }
  bool ready() const { return built_; }
  const std::set<StreamId>& members() const { return members_; }
  // Time at which the change behind the newest sets was announced. max(): no change is behind them,
  // a proxy asked for them.
  SteadyTime changed_at() const { return changed_at_; }
  // The generation whose sets were replaced last; newer generations had not changed them.
  std::uint64_t superseded() const { return superseded_; }
  // True if its sets are those of the newest snapshot.
  bool current() const { return built_ && !touched_ && !building_ && touched_endpoints_.empty(); }
  // True if some of its resources may be frozen.
  bool may_freeze() const { return mesh_->without != nullptr; }

 private:
  friend class ClassTable;
  ProxyClassEntry(translate::ProxyClass proxy_class, std::shared_ptr<const ClassMesh> mesh)
      : class_(std::move(proxy_class)), mesh_(std::move(mesh)) {}

  translate::ProxyClass class_;
  std::shared_ptr<const ClassMesh> mesh_;  // never null
  ResourceSets sets_;
  bool built_ = false;
  std::set<StreamId> members_;
  ReadList* reads_ = nullptr;  // null: not built yet
  std::set<ServiceName> touched_endpoints_;
  // Services that changed while a build from an older snapshot runs. They matter if that build
  // turns out to read them.
  std::set<ServiceName> missed_services_;
  std::set<ServiceName> missed_endpoints_;
  bool touched_ = true;
  bool queued_ = false;
  bool building_ = false;
  MeshVersion held_;  // while not current(): the mesh of its sets
  std::uint64_t superseded_ = 0;
  // Times of the earliest change that waits for a build, that runs through one, and that was
  // missed.
  SteadyTime touched_at_ = SteadyTime::max();
  SteadyTime building_from_ = SteadyTime::max();
  SteadyTime missed_at_ = SteadyTime::max();
  SteadyTime queued_at_{};
  SteadyTime changed_at_ = SteadyTime::max();
  std::optional<SteadyTime> idle_since_;
  std::vector<std::string> faults_;  // of the last build
};
struct ClassTableDependencies {
  Runtime runtime;  // its executor encodes
  Executor& strand;
  model::SecretSource& secrets;
  const ResourceHook* hook;  // null: none
  // Called on the strand when the sets of a class changed, or exist for the first time.
  std::function<void(const ProxyClassPtr&)> on_changed;
  // Called on the strand when a build changed none of the sets.
  std::function<void(const ProxyClassPtr&)> on_unchanged;
};

class ClassTable {
 public:
  // Number of simultaneous builds.
  static constexpr std::size_t kParallelBuilds = 4;
  // Time for which a class without proxies is kept, with its keys, for proxies that reconnect.
  static constexpr std::chrono::seconds kIdle{60};
  // Time between attempts to build a class whose hook fails.
  static constexpr std::chrono::seconds kRetry{5};

  explicit ClassTable(ClassTableDependencies dependencies);
  ~ClassTable();
  ClassTable(const ClassTable&) = delete;

  // Takes a newer snapshot of the mesh of all proxies; `since`: as Hub::on_snapshot(). Result: the
  // members of every class whose services were touched (they may belong to another class now).
  std::set<StreamId> on_snapshot(std::shared_ptr<const model::MeshSnapshot> snapshot,
                                 const model::Changes& changes, SteadyTime since) {
    const MeshVersion version{snapshot->generation, snapshot->hash};
    return on_mesh(0, {std::move(snapshot), nullptr, version, {}}, changes, since);
  }
  // The same for the mesh of this number, as in ProxyClass::mesh. `newer.untouched` is ignored.
  std::set<StreamId> on_mesh(std::uint64_t number, ClassMesh newer, const model::Changes& changes,
                             SteadyTime since);
  // Forgets a mesh; a class of it without members ends in time.
  void drop_mesh(std::uint64_t number) { meshes_.erase(number); }
  // Null: there is no mesh of this number.
  const ClassMesh* mesh(std::uint64_t number) const {
    const auto* found = find_in(meshes_, number);
    return found ? found->get() : nullptr;
  }
  // Takes over the identity's new certificate; nullopt: the new trust bundle of all identities.
  void on_secrets(const std::optional<ServiceIdentity>& identity);
  // Builds every class again, because the hook would give other resources.
  void rebuild_all();

  // The newest mesh whose sets the class has. Generations that do not touch the class cost nothing.
  const MeshVersion& version_of(const ProxyClassEntry& entry) const {
    return entry.current() ? entry.mesh_->present : entry.held_;
  }
  std::uint64_t generation_of(const ProxyClassEntry& entry) const {
    return version_of(entry).generation;
  }

  // Origin of the identity's certificate; null until it is issued.
  const SecretFacts* secret_facts(const ServiceIdentity& identity) const;
  // Digest of the trust bundle that all secrets hold; nullopt: there are no secrets.
  const std::optional<Digest>& trust_bundle() const { return trust_bundle_; }

  // Precondition: the class's mesh is known.
  ProxyClassPtr join(const translate::ProxyClass& proxy_class, StreamId member);
  void leave(const ProxyClassPtr& entry, StreamId member);
  void drop_idle();
  void retry_failed();
  void stop_builds() { gate_.close(); }  // waits for running ones

  std::size_t size() const { return classes_.size(); }
  std::size_t waiting() const { return queue_.size(); }  // classes that wait for their build
  ResourceCache& cache() { return cache_; }

 private:
  struct Identity {
    EncodedPtr certificate;  // null: not issued yet
    ResourceSetPtr secrets;  // it and the roots
    SecretFacts facts;
    std::set<ProxyClassPtr> classes;
  };

  void touch(const ProxyClassPtr& entry, SteadyTime since);
  void note_touched(ProxyClassEntry& entry, SteadyTime since);
  void touch_services(const ClassMesh& mesh, const std::set<ServiceName>& services,
                      std::set<ProxyClassPtr>& touched);
  void enqueue(const ProxyClassPtr& entry);
  void pump();
  void report_faults(ProxyClassEntry& entry, std::vector<std::string> faults);
  void catch_up(const ProxyClassPtr& entry);
  static void forget_missed(ProxyClassEntry& entry);
  void finish(const ProxyClassPtr& entry, BuildResult result, const MeshVersion& version,
              bool everything);
  ResourceSetPtr shared(ResourceSetPtr set);
  void for_each_reader(const ServiceName& service,
                       const std::function<void(const ProxyClassPtr&)>& visit) const;
  void index(const ProxyClassPtr& entry, std::vector<ServiceName> reads);
  void unindex(const ProxyClassPtr& entry);
  bool refresh_roots();
  void refresh_certificate(const ServiceIdentity& identity, Identity& state);
  void join_secrets(Identity& state);
  void give_secrets(const Identity& state);
  void count_encoded();

  ClassTableDependencies deps_;
  ResourceCache cache_;
  std::map<std::uint64_t, std::shared_ptr<ClassMesh>> meshes_;
  std::map<translate::ProxyClass, ProxyClassPtr> classes_;
  std::map<std::vector<ServiceName>, std::set<ProxyClassPtr>> read_lists_;
  std::map<ServiceName, std::set<ReadList*>> readers_;
  std::unordered_map<std::string, std::weak_ptr<const ResourceSet>> sets_;  // by version
  std::map<ServiceIdentity, Identity> identities_;
  EncodedPtr roots_;  // one for all identities; null until the first certificate is there
  std::optional<Digest> trust_bundle_;
  std::deque<ProxyClassPtr> queue_;
  std::set<ProxyClassPtr> building_;
  std::set<ProxyClassPtr> failed_;
  SteadyTime retry_at_{};
  TaskGate gate_;  // last: closed before anything that a build uses is destroyed
};

}  // namespace osm::inline v1::ads
