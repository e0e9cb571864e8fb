#include "osm/kubernetes/upkeep.hpp"

#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "kubernetes/client/resources.hpp"
#include "kubernetes/upkeep/crds.hpp"
#include "kubernetes/upkeep/gateway_keeper.hpp"
#include "kubernetes/upkeep/lease.hpp"
#include "kubernetes/upkeep/preset.hpp"
#include "kubernetes/upkeep/reconciler.hpp"
#include "kubernetes/upkeep/root_status_writer.hpp"
#include "kubernetes/upkeep/secret_keeper.hpp"
#include "kubernetes/upkeep/status_writer.hpp"
#include "kubernetes/upkeep/webhooks.hpp"

namespace osm::inline v1::kubernetes {
namespace {

constexpr std::chrono::minutes kLookAtPreset{1};
constexpr std::chrono::seconds kPresetRetry{3};
constexpr const char* kMeshConfigName = "osm-mesh-config";

Surroundings surroundings_of(const UpkeepOptions& options) {
  return {options.cluster.api(), options.blocking, options.clock,
          options.rng,           options.log,      options.metrics};
}

UpkeepOptions with_domains(UpkeepOptions options) {
  if (!options.trust_domains)
    options.trust_domains = [only = options.trust_domain] { return TrustDomains(only); };
  return options;
}

class ClusterUpkeep final : public Upkeep {
 public:
  explicit ClusterUpkeep(const UpkeepOptions& options)
      : options_(with_domains(options)),
        with_(surroundings_of(options)),
        reconciler_(with_),
        preset_strand_(with_.blocking) {
    if (options_.install_kinds) want_kinds();
    want_webhooks();
    for (certificate::Manager* manager : {options_.mutating_webhook, options_.validating_webhook})
      if (manager != nullptr)
        trust_.push_back(manager->subscribe([this](const auto&) { want_webhooks(); }));
    if (!needs_lease(options_)) return;
    const auto may_write = [this] { return leads(); };
    if (options_.gateway != nullptr) keep_gateway(may_write);
    if (options_.status_of != nullptr) {
      status_.emplace(
          with_, StatusWriterOptions{.store = *options_.store,
                                     .status_of = [this](const ObjectKey& key) { return ask(key); },
                                     .problems = [this] { return problems(); },
                                     .may_write = may_write,
                                     .replica = options_.replica,
                                     .mesh_name = options_.mesh_name,
                                     .board = options_.board});
      mesh_ = options_.status_of->subscribe([this] { status_->on_mesh(); });
      if (options_.board != nullptr)
        replicas_ = options_.board->subscribe([this] { status_->on_replicas(); });
    }
    if (options_.keep_secrets)
      secrets_.emplace(with_, SecretKeeperOptions{.store = *options_.store,
                                                  .may_write = may_write,
                                                  .mesh_name = options_.mesh_name,
                                                  .certificates = options_.proxy_certificates,
                                                  .trust_domains = options_.trust_domains});
    if (options_.roots)
      roots_.emplace(with_,
                     RootStatusWriterOptions{options_.roots, may_write, options_.osm_namespace});
    if (options_.store != nullptr)
      objects_ = options_.store->subscribe(
          [this](const std::vector<ObjectKey>& keys) { on_objects(keys); });
    lease_.emplace(with_,
                   LeaseOptions{.ns = options_.osm_namespace,
                                .name = "osm-controller-" + options_.mesh_name,
                                .identity = options_.replica},
                   [this] { on_acquired(); });
    started_lease_ = &*lease_;
    if (options_.follow_preset) preset_strand_.post([this] { look_at_preset(); });
  }

  ~ClusterUpkeep() override {
    objects_.reset();
    mesh_.reset();
    replicas_.reset();
    trust_.clear();
    if (lease_) lease_->stop();
    preset_strand_.stop();
    preset_timer_.reset();
    // Whoever writes stops before somebody else may begin.
    if (gateway_) gateway_->stop();
    status_.reset();
    gateway_.reset();
    secrets_.reset();
    roots_.reset();
    started_lease_ = nullptr;
    lease_.reset();
  }

  bool leads() const override {
    const Lease* lease = started_lease_;
    return lease != nullptr && lease->held();
  }

  std::optional<std::size_t> stale_secrets() const override {
    return secrets_ ? secrets_->stale() : std::nullopt;
  }

  static bool needs_lease(const UpkeepOptions& options) {
    return options.follow_preset || options.status_of != nullptr || options.keep_secrets ||
           options.gateway != nullptr || options.roots != nullptr;
  }

 private:
  void want_kinds() {
    for (auto& crd : crds()) reconciler_.want(kCrds, std::move(crd));
  }

  void want_webhooks() {
    WebhookNames names{options_.mesh_name, options_.osm_namespace, {}};
    if (options_.mutating_webhook != nullptr) {
      names.ca_bundle_pem = options_.mutating_webhook->trust_bundle_pem();
      reconciler_.want(kMutatingWebhooks, mutating_webhook(names));
    }
    if (options_.validating_webhook != nullptr) {
      names.ca_bundle_pem = options_.validating_webhook->trust_bundle_pem();
      reconciler_.want(kValidatingWebhooks, validating_webhook(names));
    }
  }

  void keep_gateway(const std::function<bool()>& may_write) {
    gateway_.emplace(with_, GatewayKeeperOptions{.manager = *options_.gateway,
                                                 .spec = *options_.mesh_spec,
                                                 .trust_domains = options_.trust_domains,
                                                 .may_write = may_write,
                                                 .on_problems =
                                                     [this] {
                                                       if (status_) status_->on_mesh();
                                                     },
                                                 .mesh_name = options_.mesh_name,
                                                 .mesh_config = mesh_config()});
  }

  void on_objects(const std::vector<ObjectKey>& keys) {
    if (status_) status_->on_objects(keys);
    if (secrets_) secrets_->on_objects(keys);
    if (roots_) roots_->on_objects(keys);
  }

  void on_acquired() {
    if (status_) status_->on_mesh();
    if (gateway_) gateway_->on_acquired();
    if (secrets_) secrets_->on_acquired();
    if (options_.follow_preset) preset_strand_.post([this] { look_at_preset(); });
  }

  ObjectKey mesh_config() const {
    return {std::string(kMeshConfigs.kind), options_.osm_namespace, kMeshConfigName};
  }

  std::vector<Problem> problems() const {
    std::vector<Problem> all = options_.status_of->status().problems;
    if (gateway_)
      for (Problem& problem : gateway_->problems()) all.push_back(std::move(problem));
    return all;
  }

  // A mesh has one MeshConfig; of the others there is nothing to say but that.
  Result<ObjectStatus> ask(const ObjectKey& key) const {
    if (key.kind == kMeshConfigs.kind && key != mesh_config())
      return Error{ErrorCode::kNotFound, key.str() + " is not the mesh's"};
    return options_.status_of->object_status(key);
  }

  void look_at_preset() {
    std::chrono::nanoseconds next = kLookAtPreset;
    if (leads()) {
      const auto upgraded = upgrade_preset(with_.api, options_.osm_namespace);
      if (!upgraded.ok()) {
        with_.log.warning("the preset MeshConfig is not in effect yet",
                          {{"detail", upgraded.error().text()}});
        next = kPresetRetry;
      } else if (*upgraded) {
        with_.log.info("the MeshConfig follows its preset", {});
      }
    }
    preset_timer_ =
        preset_strand_.post_after(jittered(with_.rng, next), [this] { look_at_preset(); });
  }

  const UpkeepOptions options_;
  const Surroundings with_;
  Reconciler reconciler_;
  std::optional<GatewayKeeper> gateway_;
  std::optional<StatusWriter> status_;
  std::optional<SecretKeeper> secrets_;
  std::optional<RootStatusWriter> roots_;
  std::optional<Lease> lease_;
  std::atomic<const Lease*> started_lease_{nullptr};
  Strand preset_strand_;
  Subscription preset_timer_;
  std::vector<Subscription> trust_;
  Subscription mesh_;
  Subscription replicas_;
  Subscription objects_;
};

}  // namespace

Result<std::unique_ptr<Upkeep>> start_upkeep(const UpkeepOptions& options) {
  if (ClusterUpkeep::needs_lease(options) && options.replica.empty())
    return Error{ErrorCode::kInvalidArgument,
                 "UpkeepOptions.replica: required: the name that no other replica has"};
  if ((options.status_of != nullptr || options.keep_secrets) && options.store == nullptr)
    return Error{ErrorCode::kInvalidArgument,
                 "UpkeepOptions.store: required: statuses and Secrets belong to its objects"};
  if (options.proxy_certificates != nullptr &&
      (!options.keep_secrets || options.trust_domain.str().empty()))
    return Error{
        ErrorCode::kInvalidArgument,
        "UpkeepOptions.keep_secrets, trust_domain: required: proxy certificates are renewed "
        "in bootstrap Secrets"};
  if (options.gateway != nullptr &&
      (options.mesh_spec == nullptr || options.trust_domain.str().empty()))
    return Error{ErrorCode::kInvalidArgument,
                 "UpkeepOptions.mesh_spec, trust_domain: required: a gateway's certificate follows "
                 "them"};
  return std::unique_ptr<Upkeep>(std::make_unique<ClusterUpkeep>(options));
}

}  // namespace osm::inline v1::kubernetes
