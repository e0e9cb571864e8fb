// The providers' suite over real API servers: prints the report, ends with 0 when every clause
// holds. "merge" is about two platforms: two clusters, each with an API server of its own.
// Services, pods and slices are written through the API; no scheduler, kubelet or controller is
// needed, nor in the way. For tests/e2e/kubernetes.
//
//   kubernetes_conformance KUBECONFIG OTHER-KUBECONFIG [CLAUSE]
#include "conformance/kubernetes_platform.hpp"

#include <atomic>
#include <iostream>
#include <mutex>
#include <stdexcept>

#include "kubernetes/client/api.hpp"
#include "kubernetes/client/resources.hpp"
#include "osm/notifier.hpp"
#include "osm/runtime/system.hpp"
#include "osm/runtime/threads.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/provider_conformance.hpp"

namespace json = boost::json;

namespace {

using namespace osm;
using kubernetes::Api;
using kubernetes::Resource;

const Error kAway{ErrorCode::kUnavailable, "the API server is away"};

// Answers informers by `inner` unless the line is cut.
class CuttableApi final : public Api {
 public:
  CuttableApi(Api& inner, Executor& io) : inner_(inner), io_(io) {}

  void set_cut(bool cut) {
    if (cut_.exchange(cut) == cut || !cut) return;
    io_.post([this] { cut_now_->notify(); });
  }

  Result<json::object> get(const Resource& resource, const std::string& ns, const std::string& name,
                           const std::string& not_older_than) override {
    return inner_.get(resource, ns, name, not_older_than);
  }
  Result<json::object> create(const Resource& resource, const json::object& object) override {
    return inner_.create(resource, object);
  }
  Result<json::object> update(const Resource& resource, const json::object& object,
                              const std::string& subresource) override {
    return inner_.update(resource, object, subresource);
  }
  Result<json::object> patch(const Resource& resource, const std::string& ns,
                             const std::string& name, const kubernetes::Patch& patch) override {
    return inner_.patch(resource, ns, name, patch);
  }
  Status remove(const Resource& resource, const std::string& ns, const std::string& name,
                const kubernetes::DeleteOptions& options) override {
    return inner_.remove(resource, ns, name, options);
  }

  Subscription list(const kubernetes::ListRequest& request,
                    std::function<void(Result<kubernetes::ListPage>)> done) override {
    if (!cut_) return inner_.list(request, std::move(done));
    return later([done = std::move(done)] { done(kAway); });
  }
  Subscription watch(const kubernetes::WatchRequest& request,
                     kubernetes::WatchHandler handler) override {
    if (cut_) return later([on_end = std::move(handler.on_end)] { on_end(kAway); });
    Subscription cut = cut_now_->subscribe([on_end = handler.on_end] { on_end(kAway); });
    auto both = std::make_shared<std::pair<Subscription, Subscription>>(
        inner_.watch(request, std::move(handler)), std::move(cut));
    return Subscription(std::move(both));
  }

 private:
  // Calls `what` on the event loop, unless the handle is gone by then.
  Subscription later(std::function<void()> what) {
    const auto once = std::make_shared<Notifier<>>();
    Subscription handle = once->subscribe(std::move(what));
    io_.post([once] { once->notify(); });
    return handle;
  }

  Api& inner_;
  Executor& io_;
  std::atomic<bool> cut_ = false;
  const std::unique_ptr<Notifier<>> cut_now_ = std::make_unique<Notifier<>>();
};

class CuttableCluster final : public kubernetes::Cluster {
 public:
  CuttableCluster(kubernetes::Cluster& inner, Executor& io)
      : inner_(inner), api_(inner.api(), io) {}

  std::string server() const override { return inner_.server(); }
  CuttableApi& api() override { return api_; }

 private:
  kubernetes::Cluster& inner_;
  CuttableApi api_;
};

// Shared by all platforms of a run.
struct Surroundings {
  explicit Surroundings(const char* kubeconfig) {
    auto connected = kubernetes::connect(
        {.kubeconfig = kubeconfig,
         .io = io.executor(),
         .runtime = {io.executor(), blocking.executor(), clock, rng, log, metrics}});
    if (!connected.ok()) throw std::runtime_error(connected.error().text());
    real = *std::move(connected);
  }

  SystemClock clock;
  RandomRng rng;
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  net::Threads io{1};
  net::Threads blocking{1};
  std::unique_ptr<kubernetes::Cluster> real;
};

const Resource& resource_of(const std::string& kind) {
  for (const Resource* resource : {&kubernetes::kServices, &kubernetes::kPods,
                                   &kubernetes::kEndpointSlices, &kubernetes::kServiceAccounts})
    if (resource->kind == kind) return *resource;
  throw std::logic_error("no resource of kind " + kind);
}

// The store and what reads it, in the real time of its informers: no API server turns a clock back.
class FollowingProvider final : public EndpointsProvider {
 public:
  FollowingProvider(kubernetes::Cluster& cluster, Surroundings& shared, const Runtime& around)
      : store_(kubernetes::make_store(
            {.cluster = cluster,
             .runtime = {thread_.executor(), thread_.executor(), shared.clock, shared.rng,
                         around.log, around.metrics}})),
        pods_(*store_, around.log, around.metrics) {}

  std::string id() const override { return pods_.id(); }
  bool has_synced() const override { return pods_.has_synced(); }
  bool healthy() const override { return pods_.healthy(); }
  std::optional<std::vector<Endpoint>> list_endpoints_for_service(
      const ServiceName& service) const override {
    return pods_.list_endpoints_for_service(service);
  }
  Subscription subscribe(std::function<void(const std::vector<ServiceName>&)> on_change) override {
    return pods_.subscribe(std::move(on_change));
  }

 private:
  net::Threads thread_{1};
  std::unique_ptr<ObjectStore> store_;
  osm::testing::PodsWithSpec pods_;
};

class ApiPlatform final : public osm::testing::ProviderPlatform {
 public:
  explicit ApiPlatform(Surroundings& shared)
      : shared_(shared), cluster_(*shared.real, shared.io.executor()) {
    allowed(api().create(kubernetes::kNamespaces,
                         osm::testing::ClusterObjects::monitored_namespace("shop")));
  }
  ~ApiPlatform() override {
    for (const auto& [service, keys] : shown_)
      for (const ObjectKey& key : keys)
        static_cast<void>(api().remove(resource_of(key.kind), key.ns, key.name));
  }

  osm::testing::PlatformTraits traits() const override { return {.weights = false}; }

  std::unique_ptr<EndpointsProvider> start(const Runtime& around) override {
    return std::make_unique<FollowingProvider>(cluster_, shared_, around);
  }
  void set_endpoints(const ServiceName& service, const std::vector<Endpoint>& endpoints) override {
    if (!is_dns_label(service.ns)) return;  // no path of the API leads there
    std::vector<Endpoint> possible;
    for (const Endpoint& endpoint : endpoints) {
      // A server knows no pod without an account: it writes "default" there.
      if (!is_dns_label(endpoint.identity.ns) || endpoint.identity.name.empty()) continue;
      make_account(endpoint.identity);
      possible.push_back(endpoint);
    }
    show(service, osm::testing::ClusterObjects::of(service, possible));
  }
  void remove_service(const ServiceName& service) override { show(service, {}); }
  void set_reachable(bool reachable) override { cluster_.api().set_cut(!reachable); }

 private:
  Api& api() { return shared_.real->api(); }

  // A server's refusal of strange names and foreign namespaces is the platform's way to say no.
  template <class T>
  static bool allowed(const Result<T>& result) {
    if (result.ok() || result.error().code == ErrorCode::kAlreadyExists) return true;
    for (const ErrorCode code : {ErrorCode::kInvalidField, ErrorCode::kNotFound,
                                 ErrorCode::kInvalidArgument, ErrorCode::kPermissionDenied})
      if (result.error().code == code) {
        std::cerr << "the API server refuses: " << result.error().text() << '\n';
        return false;
      }
    throw std::runtime_error(result.error().text());
  }

  // A pod is admitted only if its account exists.
  void make_account(const ServiceIdentity& identity) {
    if (!accounts_.insert(identity).second) return;
    allowed(api().create(kubernetes::kServiceAccounts,
                         {{"apiVersion", "v1"},
                          {"kind", "ServiceAccount"},
                          {"metadata", {{"name", identity.name}, {"namespace", identity.ns}}}}));
  }

  void show(const ServiceName& service, const osm::testing::ClusterObjects::Map& objects) {
    std::set<ObjectKey> shown;
    // Pods first: a slice that names one who is not there yet would be reported.
    for (const GroupKind& kind :
         {kinds::kPod, kinds::kService, kubernetes::kEndpointSlices.group_kind()})
      for (const auto& [key, object] : objects)
        if (key.is(kind) && put(key, object)) shown.insert(key);
    for (const ObjectKey& key : shown_[service])
      if (!shown.contains(key))
        static_cast<void>(api().remove(resource_of(key.kind), key.ns, key.name));
    shown_[service] = std::move(shown);
  }

  bool put(const ObjectKey& key, const json::object& object) {
    const Resource& resource = resource_of(key.kind);
    const auto created = api().create(resource, object);
    if (!allowed(created)) return false;
    if (key.kind == "Pod")  // a kubelet's part; the rest of a pod never changes
      return allowed(
          api().patch(resource, key.ns, key.name,
                      {.body = json::serialize(json::object{{"status", object.at("status")}}),
                       .subresource = "status"}));
    if (created.ok()) return true;
    return allowed(api().patch(resource, key.ns, key.name, {.body = json::serialize(object)}));
  }

  Surroundings& shared_;
  CuttableCluster cluster_;
  std::set<ServiceIdentity> accounts_;
  std::map<ServiceName, std::set<ObjectKey>> shown_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::cerr << "usage: kubernetes_conformance KUBECONFIG OTHER-KUBECONFIG [CLAUSE]\n";
    return 2;
  }
  // Every change is some calls of a server that shares two cores with this.
  osm::testing::ConformanceOptions options;
  options.deadline = std::chrono::seconds(20);
  options.clause_deadline = std::chrono::minutes(5);
  options.stop_rounds = 50;
  try {
    Surroundings first(argv[1]);
    Surroundings second(argv[2]);
    osm::testing::ConformanceReport report;
    for (const auto& clause : osm::testing::conformance_clauses()) {
      if (argc == 4 && clause.id != argv[3]) continue;
      // A clause that asks for another platform beside its first gets the other cluster.
      int made = 0;
      const osm::testing::PlatformFactory platform = [&]() {
        const bool other = clause.id == "merge" && made++ == 1;
        return std::make_unique<ApiPlatform>(other ? second : first);
      };
      report.results.push_back(osm::testing::check_provider_clause(clause.id, platform, options));
    }
    std::cout << report.text();
    return report.passed() && !report.results.empty() ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
