#include "osm/kubernetes/upkeep.hpp"

#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "base/round.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/upkeep/crds.hpp"
#include "kubernetes/upkeep/gateway_keeper.hpp"
#include "kubernetes/upkeep/preset.hpp"
#include "kubernetes/upkeep/reconciler.hpp"
#include "kubernetes/upkeep/root_status_writer.hpp"
#include "kubernetes/upkeep/secret_keeper.hpp"
#include "kubernetes/upkeep/status_writer.hpp"
#include "kubernetes/upkeep/webhooks.hpp"

namespace osm::inline v1::kubernetes {
namespace {

constexpr std::chrono::minutes kLookAtPreset{5};
constexpr std::chrono::seconds kPresetRetry{3};

class ClusterUpkeep final : public Upkeep {
 public:
  explicit ClusterUpkeep(const UpkeepOptions& options)
      : options_(options),
        api_(options.cluster.api()),
        runtime_(options.runtime),
        reconciler_(api_, runtime_, options.replica, options.osm_namespace),
        preset_strand_(runtime_.blocking),
        preset_(preset_strand_, runtime_.rng,
                {.turn = [this] { return look_at_preset(); },
                 .may_run = [this] { return leads(); },
                 .ask_again = {.length = kLookAtPreset, .jitter = true}}) {
    if (options_.kinds_repair)
      for (auto& crd : crds()) reconciler_.want(kCrds, std::move(crd), *options_.kinds_repair);
    want_webhooks();
    for (const auto& webhook : {options_.mutating_webhook, options_.validating_webhook})
      if (webhook && webhook->manager)
        subscriptions_.push_back(webhook->manager->subscribe_ca([this] { want_webhooks(); }));
    if (needs_leader(options_)) start_writers();
  }

  ~ClusterUpkeep() override {
    subscriptions_.clear();
    begins_.reset();
    preset_strand_.stop();
    // Writing stops before another replica may begin: `stands_` dies last.
    if (gateway_) gateway_->stop();
    status_.reset();
    gateway_.reset();
    secrets_.reset();
    roots_.reset();
  }

  std::optional<std::size_t> stale_secrets() const override {
    return secrets_ ? secrets_->stale() : std::nullopt;
  }

  std::vector<Problem> problems() const override {
    std::vector<Problem> all = reconciler_.problems();
    if (secrets_)
      for (Problem& problem : secrets_->problems()) all.push_back(std::move(problem));
    return all;
  }

  static bool needs_leader(const UpkeepOptions& options) {
    return options.follow_preset || options.status || options.secrets || options.gateway ||
           options.roots;
  }

 private:
  bool leads() const { return started_ && options_.board->leads(); }

  void want_webhooks() {
    WebhookNames names{options_.mesh_name, options_.osm_namespace, {}, options_.beside_osm_v1};
    if (const auto& webhook = options_.mutating_webhook) {
      names.ca_bundle_pem = trusted_by(*webhook);
      reconciler_.want(kMutatingWebhooks, mutating_webhook(names), webhook->repair);
    }
    if (const auto& webhook = options_.validating_webhook) {
      names.ca_bundle_pem = trusted_by(*webhook);
      reconciler_.want(kValidatingWebhooks, validating_webhook(names, options_.kinds),
                       webhook->repair);
    }
  }

  static std::string trusted_by(const WebhookUpkeep& webhook) {
    return webhook.manager ? webhook.manager->trust_bundle_pem() : std::string();
  }

  void start_writers() {
    const auto may_write = [this] { return leads(); };
    if (options_.gateway)
      gateway_.emplace(options_, may_write, [this] {
        if (status_) status_->on_mesh();
      });
    if (options_.status) keep_status(may_write);
    if (options_.secrets) {
      secrets_.emplace(options_, may_write);
      follow(options_.secrets->store, [this](const auto& keys) { secrets_->on_objects(keys); });
    }
    if (options_.roots) roots_.emplace(options_, may_write);
    started_ = true;  // the parts call one another
    stands_ = options_.board->stand({});
    begins_ = options_.board->stand([this] { on_begin(); });
    if (options_.follow_preset) preset_.wake();
  }

  void keep_status(const std::function<bool()>& may_write) {
    const StatusUpkeep& status = *options_.status;
    // A host's own store has no statuses.
    auto* const stored = dynamic_cast<StoredStatuses*>(&status.store);
    status_.emplace(api_, runtime_,
                    StatusWriterOptions{.store = status.store,
                                        .stored = stored,
                                        .status_of = [this](const auto& key) { return ask(key); },
                                        .problems = [this] { return status_problems(); },
                                        .may_write = may_write,
                                        .replica = options_.replica,
                                        .mesh_name = options_.mesh_name,
                                        .osm_namespace = options_.osm_namespace,
                                        .kinds = options_.kinds});
    subscriptions_.push_back(status.control_plane.subscribe([this] { status_->on_mesh(); }));
    follow(status.store, [this](const auto& keys) { status_->on_objects(keys); });
    if (stored != nullptr)
      subscriptions_.push_back(
          stored->subscribe_statuses([this](const auto& keys) { status_->on_statuses(keys); }));
  }

  void follow(ObjectStore& store, std::function<void(const std::vector<ObjectKey>&)> on_change) {
    subscriptions_.push_back(store.subscribe(std::move(on_change)));
  }

  void on_begin() {
    if (status_) status_->on_mesh();
    if (gateway_) gateway_->on_acquired();
    if (secrets_) secrets_->on_acquired();
    if (options_.follow_preset) preset_.wake();
  }

  ObjectKey mesh_config() const {
    return {kinds::kMeshConfig, options_.osm_namespace, kMeshConfigName};
  }

  std::vector<Problem> status_problems() const {
    std::vector<Problem> all = options_.status->control_plane.status().problems;
    if (gateway_)
      for (Problem& problem : gateway_->problems()) all.push_back(std::move(problem));
    return all;
  }

  // A mesh has one MeshConfig; others get no status.
  Result<ObjectStatus> ask(const ObjectKey& key) const {
    if (key.is(kinds::kMeshConfig) && key != mesh_config())
      return Error{ErrorCode::kNotFound, key.str() + " is not the mesh's"};
    return options_.status->control_plane.object_status(key);
  }

  Pause look_at_preset() {
    const auto upgraded = upgrade_preset(api_, options_.osm_namespace);
    if (!upgraded.ok()) {
      runtime_.log.warning("the preset MeshConfig is not in effect yet",
                           {{"detail", upgraded.error().text()}});
      return {.length = kPresetRetry, .jitter = true};
    }
    if (*upgraded) runtime_.log.info("the MeshConfig follows its preset", {});
    return {.length = kLookAtPreset, .jitter = true};
  }

  const UpkeepOptions options_;
  Api& api_;
  const Runtime runtime_;
  std::atomic<bool> started_{false};  // all writers are there
  Subscription stands_;               // this replica may lead
  Reconciler reconciler_;
  std::optional<GatewayKeeper> gateway_;
  std::optional<StatusWriter> status_;
  std::optional<SecretKeeper> secrets_;
  std::optional<RootStatusWriter> roots_;
  Strand preset_strand_;
  Round preset_;
  std::vector<Subscription> subscriptions_;
  Subscription begins_;  // calls on_begin()
};

}  // namespace

Result<std::unique_ptr<Upkeep>> start_upkeep(const UpkeepOptions& options) {
  if (ClusterUpkeep::needs_leader(options) && options.replica.empty())
    return Error{ErrorCode::kInvalidArgument,
                 "UpkeepOptions.replica: required: the name that no other replica has"};
  if (ClusterUpkeep::needs_leader(options) && !options.board)
    return Error{ErrorCode::kInvalidArgument,
                 "UpkeepOptions.board: required: it chooses the one replica that writes"};
  return std::unique_ptr<Upkeep>(std::make_unique<ClusterUpkeep>(options));
}

}  // namespace osm::inline v1::kubernetes
