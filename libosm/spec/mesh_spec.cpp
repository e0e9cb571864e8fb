#include "osm/spec/object_mesh_spec.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "base/snapshot_cell.hpp"
#include "model/names.hpp"
#include "model/spec_tables.hpp"
#include "osm/notifier.hpp"
#include "spec/decode.hpp"
#include "spec/decoder.hpp"
#include "spec/kept_config.hpp"
#include "spec/resolve.hpp"

namespace osm::inline v1::spec {
namespace {

constexpr Counter kSpecDecoded{"osm_spec_decoded_total", "Objects decoded, by kind", {"kind"}};

std::shared_ptr<const MeshConfig> default_config(const std::string& cluster_domain) {
  MeshConfig config;
  config.proxy.cluster_domain = cluster_domain;
  return std::make_shared<const MeshConfig>(std::move(config));
}

class StoreMeshSpec final : public MeshSpec {
 public:
  explicit StoreMeshSpec(const MeshSpecOptions& options)
      : store_(options.store),
        mesh_name_(options.mesh_name),
        config_key_{kinds::kMeshConfig, options.osm_namespace, kMeshConfigName},
        default_config_(default_config(options.cluster_domain)),
        kinds_(options.kinds),
        log_(options.log),
        metrics_(options.metrics),
        addresses_(options.service_network),
        kept_(config_key_, options.cluster_domain, options.kept_config) {
    SpecSnapshot first;
    first.config_key = config_key_;
    view_.publish(std::make_shared<const SpecSnapshot>(std::move(first)));
    problems_.publish(std::make_shared<const std::vector<Problem>>());
    // Subscribe before listing: changes meanwhile are notified and wait for the mutex.
    std::lock_guard lock(update_mutex_);
    subscription_ = store_.subscribe(
        [this](const std::vector<ObjectKey>& changed) { on_store_change(changed); });
    store_synced_ = store_.has_synced();
    for (const auto& object : store_.list(kinds::kNamespace)) read_namespace(object->key);
    read_all(nullptr);
    for (const Kind& kind : kinds_)
      if (kind.scope == Scope::kControlPlane)
        for (const auto& object : store_.list(kind.name)) read_declared(object->key);
    read_config();
    publish();
    kept_.start([this] { on_kept_change(); });
  }

  ~StoreMeshSpec() override {
    subscription_.reset();
    kept_.stop();
  }

  std::shared_ptr<const SpecSnapshot> snapshot() const override { return view_.load(); }

  std::vector<Problem> list_problems() const override {
    std::vector<Problem> problems = store_.list_problems();
    const auto now = problems_.load();
    for (Problem problem : *now) {
      // Lines move without a change of the object; the store knows the present place.
      if (const auto object = store_.get(problem.object)) problem.locate(object->source);
      problems.push_back(std::move(problem));
    }
    std::sort(problems.begin(), problems.end());
    problems.erase(std::unique(problems.begin(), problems.end()), problems.end());
    return problems;
  }

  std::optional<ObjectSource> source_of(const ObjectKey& key) const override {
    const auto object = store_.get(key);
    return object ? std::optional(object->source) : std::nullopt;
  }

  Subscription subscribe(std::function<void(const SpecChange& change)> on_change) override {
    return notifier_.subscribe(std::move(on_change));
  }

 private:
  // A decoder that reads host names of Services.
  template <class Result>
  auto in_cluster(Result (*decode)(const Object&, const std::string&)) const {
    return [this, decode](const Object& object) {
      return decode(object, default_config_->proxy.cluster_domain);
    };
  }

  void on_store_change(const std::vector<ObjectKey>& keys) {
    std::optional<SpecChange> change;
    {
      std::lock_guard lock(update_mutex_);
      store_synced_ = store_.has_synced();
      std::set<std::string> turned;  // namespaces that entered or left the mesh
      for (const ObjectKey& key : keys)
        if (key.is(kinds::kNamespace) && read_namespace(key)) turned.insert(key.name);
      if (!turned.empty()) read_all(&turned);
      for (const ObjectKey& key : keys) {
        read_declared(key);
        const Kind* kind = find_kind(kinds_, key.group_kind());
        if (kind != nullptr) read_object(*kind, key);
      }
      // The store's own problems may differ with any change.
      change = publish();
      if (!change && keys.empty()) change = SpecChange{snapshot(), {}, true};
      if (change) change->problems = true;
    }
    if (change) notify(*change);
  }

  void on_kept_change() {
    std::optional<SpecChange> change;
    {
      std::lock_guard lock(update_mutex_);
      read_config();
      change = publish();
    }
    if (change) notify(*change);
  }

  // The store and the kept MeshConfig change in two threads, and subscribers are called one at a
  // time. They must not block, so the wait is short; their own changes of the store notify inside.
  void notify(const SpecChange& change) {
    std::lock_guard lock(notify_mutex_);
    notifier_.notify(change);
  }

  // True if the namespace entered or left the mesh.
  bool read_namespace(const ObjectKey& key) {
    namespace_problems_.erase(key);
    foreign_namespaces_.erase(key.name);
    const auto object = store_.get(key);
    bool ours = false;
    if (object) {
      const auto label = object->labels.find(kMonitoredByLabel);
      ours = label != object->labels.end() && label->second == mesh_name_;
      if (label != object->labels.end() && !ours) foreign_namespaces_.insert(key.name);
      if (ours && !is_dns_label(key.name)) {
        namespace_problems_[key] = {ErrorCode::kInvalidField, key,       "", 0,
                                    "metadata.name",          kNotALabel};
        ours = false;
      }
    }
    return ours ? namespaces_.insert(key.name).second : namespaces_.erase(key.name) > 0;
  }

  // Every object of the mesh's namespaces, or those in `namespaces`.
  void read_all(const std::set<std::string>* namespaces) {
    for (const Kind& kind : kinds_) {
      for (const auto& object : store_.list(kind.name))
        if (namespaces == nullptr || namespaces->contains(object->key.ns))
          read_object(kind, object->key);
    }
  }

  void read_object(const Kind& kind, const ObjectKey& key) {
    if (!counts_in_mesh(kind.scope)) return;
    const bool own = counts_in_control_plane(kind.scope) && key.ns == config_key_.ns;
    if (kind.name == kinds::kService)
      return read(key, objects_.services,
                  addresses_.allocates() ? decode_unaddressed_service : decode_service);
    if (kind.name == kinds::kServiceAccount)
      return read(key, objects_.accounts, decode_service_account);
    if (kind.name == kinds::kHttpRouteGroup)
      return read(key, objects_.route_groups, decode_http_route_group);
    if (kind.name == kinds::kTcpRoute) return read(key, objects_.tcp_routes, decode_tcp_route);
    if (kind.name == kinds::kTrafficTarget)
      return read(key, objects_.targets, decode_traffic_target);
    if (kind.name == kinds::kTrafficSplit)
      return read(key, objects_.splits, in_cluster(decode_traffic_split));
    if (kind.decode != nullptr) return read(key, objects_.policies, in_cluster(kind.decode), own);
  }

  // `decode` returns a Decoded<T> or a DecodedPolicy. `counts`: also outside of the mesh.
  template <class T, class Decode>
  void read(const ObjectKey& key, DecodedKind<T>& kind, Decode decode, bool counts = false) {
    const auto object = store_.get(key);
    const bool monitored = counts || namespaces_.contains(key.ns);
    const bool policy = !key.is(kinds::kService) && !key.is(kinds::kServiceAccount);
    if (object && policy && !monitored) {
      ignored_[key.ns].insert(key);
    } else if (const auto at = ignored_.find(key.ns); at != ignored_.end()) {
      at->second.erase(key);
      if (at->second.empty()) ignored_.erase(at);
    }
    if (!object || !monitored) {
      kind.entries.erase(key);
      return;
    }
    auto& entry = kind.entries[key];
    if (!read_entry(object, entry, decode)) entry.value = nullptr;
  }

  // False: the object is invalid. The entry then has its problems, and still its previous value.
  template <class Entry, class Decode>
  bool read_entry(const std::shared_ptr<const Object>& object, Entry& entry, Decode decode) {
    if (entry.object == object) return true;
    auto decoded = decode(*object);
    metrics_.add(kSpecDecoded, {{"kind", object->key.kind}}, 1);
    entry.object = object;
    entry.problems = std::move(decoded.problems);
    if (decoded.value && !(entry.value && *entry.value == *decoded.value))
      entry.value = std::make_shared<const std::decay_t<decltype(*decoded.value)>>(*decoded.value);
    return static_cast<bool>(decoded.value);
  }

  // An object of the control plane. An invalid one keeps its last valid value: a typing error must
  // neither make the mesh less strict nor change the signer.
  template <class T, class Decode>
  void read_declared(const ObjectKey& key, bool ours, DecodedKind<T>& kind, Decode decode) {
    const auto object = store_.get(key);
    if (object && ours) {
      read_entry(object, kind.entries[key], decode);
    } else {
      kind.entries.erase(key);
    }
    if (object && !ours) {
      idle_.insert(key);
    } else {
      idle_.erase(key);
    }
  }
  void read_declared(const ObjectKey& key) {
    if (key == config_key_) return read_config();
    if (key.is(kinds::kMeshConfig))
      read_declared(key, false, objects_.configs, in_cluster(decode_mesh_config));
    if (key.is(kinds::kMeshRootCertificate))
      read_declared(key, key.ns == config_key_.ns, objects_.roots, decode_root_certificate);
    const Kind* kind = find_kind(kinds_, key.group_kind());
    if (kind != nullptr && kind->scope == Scope::kControlPlane && kind->decode != nullptr)
      read_declared(key, key.ns == config_key_.ns, objects_.policies, in_cluster(kind->decode));
  }

  // Without a valid MeshConfig the last valid one stays, also of a former process: a deletion must
  // not make a mesh more strict, nor less.
  void read_config() {
    const auto object = store_.get(config_key_);
    auto& entry = objects_.configs.entries[config_key_];
    if (!object) {
      entry.object = nullptr;
      entry.problems.clear();
      config_valid_ = false;
      kept_.follow();
    } else if (entry.object != object) {
      config_valid_ = read_entry(object, entry, in_cluster(decode_mesh_config));
      if (config_valid_) kept_.keep(*object, entry.value);
    }
    if (const auto last = config_valid_ ? nullptr : kept_.last())
      if (!entry.value || !(*entry.value == *last->value)) entry.value = last->value;
    if (!object && !entry.value) objects_.configs.entries.erase(config_key_);
  }

  void report_config(std::vector<Problem>& problems) const {
    const auto at = objects_.configs.entries.find(config_key_);
    if (at != objects_.configs.entries.end() && !at->second.object)
      problems.push_back(kept_.gone());
    for (Problem& problem : kept_.problems()) problems.push_back(std::move(problem));
  }

  // True if every object of the control plane has had a valid value.
  template <class T>
  bool are_read(const DecodedKind<T>& kind) const {
    return std::all_of(kind.entries.begin(), kind.entries.end(), [&](const auto& entry) {
      const Kind* row = find_kind(kinds_, entry.first.group_kind());
      return entry.second.value != nullptr || row == nullptr || row->scope != Scope::kControlPlane;
    });
  }

  void report_ignored(std::vector<Problem>& problems) const {
    for (const auto& [ns, keys] : ignored_) {
      if (foreign_namespaces_.contains(ns)) continue;  // another mesh's
      problems.push_back({ErrorCode::kDanglingReference, *keys.begin(), "", 0, "metadata.namespace",
                          "namespace " + ns + " is not in the mesh, so its " +
                              std::to_string(keys.size()) +
                              " policies are ignored; label a Namespace object with " +
                              kMonitoredByLabel + ": " + mesh_name_});
    }
    for (const ObjectKey& key : idle_) {
      const bool config = key.is(kinds::kMeshConfig);
      problems.push_back({ErrorCode::kUnusedField, key, "", 0, config ? "" : "metadata.namespace",
                          config ? "has no effect: the mesh reads " + config_key_.str()
                                 : "has no effect: objects of kind " + key.kind +
                                       " are read in namespace " + config_key_.ns});
    }
    for (const auto& [key, problem] : namespace_problems_) problems.push_back(problem);
  }

  // Result: nullopt if nothing changed.
  std::optional<SpecChange> publish() {
    const auto before = snapshot();
    auto next = std::make_shared<SpecSnapshot>(*before);
    next->config = default_config_;  // if there is no MeshConfig
    next->namespaces = {namespaces_.begin(), namespaces_.end()};
    // Until the first valid state nothing is published if the MeshConfig is invalid, since its
    // defaults might be less strict than intended; nor if a CA is invalid, since another one would
    // sign in its place; nor if a Denylist cannot be read, since it may deny a stolen identity; nor
    // if there is no MeshConfig and the record of the last one is not read. Later the last valid
    // ones stay.
    const bool config_known = !objects_.configs.entries.empty() || kept_.is_read();
    settled_ = settled_ || (store_synced_ && config_known && are_read(objects_.configs) &&
                            are_read(objects_.roots) && are_read(objects_.policies));
    next->synced = store_synced_ && settled_;
    std::vector<Problem> problems;
    report_ignored(problems);
    if (store_synced_) report_config(problems);
    const auto moves = resolve(objects_, addresses_, *next, problems);

    if (before->synced)
      for (const VirtualAddresses::Move& move : moves)
        log_.warning("service address moved",
                     {{"service", move.service.str()}, {"from", move.from}, {"to", move.to}});
    SpecChange change{next, model::differing(*before, *next), *problems_.load() != problems};
    if (next->synced && !before->synced)
      log_.info("mesh specification read",
                {{"namespaces", std::to_string(next->namespaces.size())},
                 {"services", std::to_string(next->services.size())},
                 {"traffic_targets", std::to_string(next->targets.size())}});
    if (change.keys.empty() && !change.problems && before->synced == next->synced)
      return std::nullopt;
    // First: who sees a state finds its problems at least as new.
    problems_.publish(std::make_shared<const std::vector<Problem>>(std::move(problems)));
    view_.publish(std::move(next));
    return change;
  }

  ObjectStore& store_;
  const std::string mesh_name_;
  const ObjectKey config_key_;
  const std::shared_ptr<const MeshConfig> default_config_;  // in effect without a MeshConfig
  const Kinds kinds_;
  LogSink& log_;
  MetricsSink& metrics_;

  std::mutex update_mutex_;  // guards everything down to view_
  DecodedObjects objects_;
  std::set<std::string> namespaces_;
  std::set<std::string> foreign_namespaces_;  // namespaces of other meshes
  std::map<ObjectKey, Problem> namespace_problems_;
  std::map<std::string, std::set<ObjectKey>> ignored_;  // policies of namespaces outside the mesh
  std::set<ObjectKey> idle_;   // objects of the control plane in other places
  bool store_synced_ = false;  // before its objects were read
  bool config_valid_ = false;  // the store's MeshConfig
  bool settled_ = false;
  VirtualAddresses addresses_;

  SnapshotCell<SpecSnapshot> view_;
  SnapshotCell<std::vector<Problem>> problems_;  // without path and line
  std::recursive_mutex notify_mutex_;            // taken after update_mutex_ is released
  Notifier<const SpecChange&> notifier_;
  KeptConfig kept_;
  Subscription subscription_;
};

}  // namespace

std::unique_ptr<MeshSpec> make_mesh_spec(const MeshSpecOptions& options) {
  return std::make_unique<StoreMeshSpec>(options);
}

}  // namespace osm::inline v1::spec
