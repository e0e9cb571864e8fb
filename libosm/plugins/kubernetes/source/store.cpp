#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "base/catch_up.hpp"
#include "base/strand.hpp"
#include "kubernetes/client/informer.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/source/stored_statuses.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/notifier.hpp"

namespace osm::inline v1::kubernetes {
namespace {

using std::chrono::milliseconds;

constexpr auto kReportEvery = std::chrono::seconds(10);
constexpr std::string_view kProxyUuidLabel = "osm-proxy-uuid";

class KubernetesStore final : public ObjectStore, public StoredStatuses {
 public:
  explicit KubernetesStore(const StoreOptions& options)
      : options_(options), server_(options.cluster.server()), strand_(options.runtime.executor) {
    for (const spec::Kind& kind : options.kinds) {
      if (kind.name == kinds::kNamespace) {
        follow(kNamespaces, "", "openservicemesh.io/monitored-by=" + options.mesh_name);
      } else {
        follow(resource_of(kind),
               kind.scope == spec::Scope::kControlPlane ? options.osm_namespace : "", {},
               kind.status);
      }
    }
    if (options.workloads) {
      follow(kPods, "", kProxyUuidLabel);
      follow(kEndpointSlices);
    }
    strand_.post([this] {
      for (const auto& [kind, informer] : informers_) informer->start();
      report();
    });
  }

  ~KubernetesStore() override {
    report_timer_.reset();
    strand_.stop();
  }

  std::vector<std::shared_ptr<const Object>> list(const GroupKind& kind) const override {
    const auto at = informers_.find({kind.kind, kind.group});
    if (at == informers_.end()) return {};
    return at->second->objects().list();
  }

  std::shared_ptr<const Object> get(const ObjectKey& key) const override {
    const auto at = informers_.find({key.kind, key.group});
    return at == informers_.end() ? nullptr : at->second->objects().get(key.ns, key.name);
  }

  bool has_synced() const override {
    return std::all_of(informers_.begin(), informers_.end(),
                       [](const auto& entry) { return entry.second->has_synced(); });
  }

  // One GET says which version the watch must tell of. Nothing is listed.
  bool catch_up(const ObjectKey& key, milliseconds timeout) override {
    const auto at = informers_.find({key.kind, key.group});
    if (at == informers_.end()) return true;
    Informer& informer = *at->second;
    const auto wanted = informer.followed(key);
    if (!wanted) return true;
    const auto found = options_.cluster.api().get(informer.resource(), wanted->ns, wanted->name);
    if (!found.ok() && found.error().code != ErrorCode::kNotFound) return false;
    const Sighting sought = informer.sighting_of(*wanted, found.ok() ? &*found : nullptr);
    return wait_for_catch_up(strand_, timeout, [&informer, sought](const CatchUpCaller& caller) {
      informer.when_seen(sought, caller);
    });
  }

  std::vector<Problem> list_problems() const override {
    std::vector<Problem> problems;
    std::size_t unreadable = 0;
    for (const auto& [kind, informer] : informers_) {
      auto problem = informer->problem();
      if (!problem) continue;
      if (problem->code == ErrorCode::kUnreadableSource) ++unreadable;
      problems.push_back(*std::move(problem));
    }
    // If nothing can be read, the server is the cause, and one problem is enough.
    if (unreadable > 1 && unreadable == informers_.size()) {
      Problem all = problems.front();
      all.path = server_;
      return {std::move(all)};
    }
    std::sort(problems.begin(), problems.end());
    return problems;
  }

  Subscription subscribe(
      std::function<void(const std::vector<ObjectKey>& changed)> on_change) override {
    return notifier_.subscribe(std::move(on_change));
  }

  StoredStatus status_of(const ObjectKey& key) const override {
    const auto at = informers_.find({key.kind, key.group});
    if (at == informers_.end()) return {};
    VersionedObject known = at->second->objects().find(key.ns, key.name);
    return {std::move(known.status), std::move(known.version)};
  }

  Subscription subscribe_statuses(
      std::function<void(const std::vector<ObjectKey>& changed)> on_change) override {
    return status_notifier_.subscribe(std::move(on_change));
  }

 private:
  void follow(const Resource& resource, const std::string& ns = {},
              std::string_view label_selector = {}, bool with_status = false) {
    InformerOptions options{.api = options_.cluster.api(),
                            .executor = strand_,
                            .runtime = options_.runtime,
                            .server = server_,
                            .resource = resource,
                            .ns = ns,
                            .label_selector = std::string(label_selector),
                            .on_change = [this](const auto& keys) { notifier_.notify(keys); }};
    if (with_status)
      options.on_status = [this](const auto& keys) { status_notifier_.notify(keys); };
    informers_[{resource.kind, resource.group}] = std::make_unique<Informer>(std::move(options));
  }

  void report() {
    for (const auto& [kind, informer] : informers_) informer->report();
    report_timer_ = strand_.post_after(kReportEvery, [this] { report(); });
  }

  const StoreOptions options_;
  const std::string server_;
  Notifier<const std::vector<ObjectKey>&> notifier_;
  Notifier<const std::vector<ObjectKey>&> status_notifier_;
  Strand strand_;
  // By kind and group.
  std::map<std::pair<std::string_view, std::string_view>, std::unique_ptr<Informer>> informers_;
  Subscription report_timer_;
};

}  // namespace

std::unique_ptr<ObjectStore> make_store(const StoreOptions& options) {
  return std::make_unique<KubernetesStore>(options);
}

}  // namespace osm::inline v1::kubernetes
