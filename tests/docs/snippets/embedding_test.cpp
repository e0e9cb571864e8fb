// Code that docs/embedding-guide.md and README.md quote, compiled and run. Quoted parts are whole
// lines.
#include <doctest/doctest.h>
#include <boost/asio/io_context.hpp>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/temporary_directory.hpp"
#include "osm/certificate/directory_ca.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/certificate/request.hpp"
#include "osm/control_plane.hpp"
#include "osm/mesh_cataloger.hpp"
#include "osm/notifier.hpp"
#include "osm/runtime/asio_executor.hpp"
#include "osm/runtime/system.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "osm/spec/vm_provider.hpp"
#include "osm/testing/ads_client.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/memory_object_store.hpp"
#include "osm/testing/thread_executor.hpp"
#include "osm/values/object_status.hpp"
#include "status_page.hpp"

using namespace std::chrono_literals;

namespace {

// A host's own parts: a logger, a loop with fire-and-forget timers.
struct HostLogger {
  std::vector<std::string> lines;
  void log(int severity, const std::string& text) {
    lines.push_back(std::to_string(severity) + ' ' + text);
  }
};

struct HostLoop {
  osm::testing::ThreadExecutor threads{1};
  std::vector<osm::Subscription> timers;
  void call_soon(std::function<void()> task) { threads.post(std::move(task)); }
  void call_after(std::chrono::nanoseconds delay, std::function<void()> task) {
    timers.push_back(threads.post_after(delay, std::move(task)));
  }
};

class HostLog final : public osm::LogSink {
 public:
  explicit HostLog(HostLogger& logger) : logger_(logger) {}

  bool enabled(osm::LogLevel level) const override { return level >= osm::LogLevel::kInfo; }
  void write(osm::LogLevel level, std::string_view message,
             std::span<const osm::LogField> fields) override {
    std::string line(message);
    for (const auto& [key, value] : fields) line.append(" ").append(key).append("=").append(value);
    logger_.log(static_cast<int>(level), line);
  }

 private:
  HostLogger& logger_;
};

class LoopExecutor final : public osm::Executor {
 public:
  explicit LoopExecutor(HostLoop& loop) : loop_(loop) {}

  void post(std::function<void()> task) override { loop_.call_soon(std::move(task)); }

  osm::Subscription post_after(std::chrono::nanoseconds delay,
                               std::function<void()> task) override {
    // A timer is a subscription to one event: Notifier's handle ends it as post_after() promises.
    auto due = std::make_shared<osm::Notifier<>>();
    osm::Subscription timer = due->subscribe(std::move(task));
    loop_.call_after(delay, [due] { due->notify(); });
    return timer;
  }

 private:
  HostLoop& loop_;
};

constexpr const char* kMesh = R"(
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {openservicemesh.io/monitored-by: osm}}
---
apiVersion: v1
kind: Service
metadata: {name: server, namespace: shop}
spec:
  clusterIP: 10.96.0.12
  selector: {app: server}
  ports: [{name: http, port: 14001}]
---
apiVersion: workload.openservicemesh.io/v1alpha1
kind: VirtualMachine
metadata: {name: server, namespace: shop, labels: {app: server}}
spec: {address: 10.200.0.12, serviceAccount: server}
---
apiVersion: workload.openservicemesh.io/v1alpha1
kind: VirtualMachine
metadata: {name: client, namespace: shop, labels: {app: client}}
spec: {address: 10.200.0.11, serviceAccount: client}
---
apiVersion: specs.smi-spec.io/v1alpha4
kind: HTTPRouteGroup
metadata: {name: reads, namespace: shop}
spec: {matches: [{name: get, pathRegex: ".*", methods: [GET]}]}
)";

constexpr const char* kClientToServer = R"(
apiVersion: access.smi-spec.io/v1alpha3
kind: TrafficTarget
metadata: {name: client-to-server, namespace: shop}
spec:
  destination: {kind: ServiceAccount, name: server, namespace: shop}
  sources: [{kind: ServiceAccount, name: client, namespace: shop}]
  rules: [{kind: HTTPRouteGroup, name: reads, matches: [get]}]
)";

struct Inventory {
  osm::testing::MemoryObjectStore& store;
  void allow(const std::string& client, const std::string& server) {
    REQUIRE((client == "client" && server == "server" && store.put_yaml(kClientToServer).ok()));
  }
};

// The parts that a control plane borrows, over a mesh in memory.
struct Host {
  osm::testing::TemporaryDirectory directory;
  osm::SystemClock clock;
  osm::RandomRng rng;
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  osm::testing::ThreadExecutor executor{2};
  osm::testing::ThreadExecutor blocking{1};
  osm::TrustDomain domain{"cluster.local"};
  osm::testing::MemoryObjectStore store;
  std::unique_ptr<osm::MeshSpec> spec;
  std::unique_ptr<osm::vm::VmProvider> machines;
  std::unique_ptr<osm::certificate::Manager> certificates;

  Host() {
    REQUIRE(store.put_yaml(kMesh).ok());
    spec = osm::spec::make_mesh_spec({.store = store, .log = log, .metrics = metrics});
    machines = osm::vm::make_vm_provider({store, *spec, domain, log, metrics});
    auto ca = osm::certificate::load_or_create_directory_ca(
        {.directory = directory.file("ca"), .trust_domain = domain, .clock = clock});
    REQUIRE(ca.ok());
    certificates =
        osm::certificate::make_manager({.issuer = std::move(ca).value(),
                                        .runtime = {executor, blocking, clock, rng, log, metrics}});
  }

  osm::ControlPlaneOptions options() {
    return {.spec = *spec,
            .providers = {{.provider = machines.get()}},
            .workload_providers = {machines.get()},
            .certificates = *certificates,
            .runtime = {executor, blocking, clock, rng, log, metrics},
            .trust_domain = domain,
            .ads_address = "127.0.0.1:0"};
  }
};

bool synced(osm::ControlPlane& mesh) {
  return osm::testing::wait_until([&] { return mesh.status().waiting_for.empty(); });
}

}  // namespace

TEST_SUITE("docs::embedding-guide") {
  TEST_CASE("a host's logger takes the library's lines with their fields") {
    HostLogger logger;
    HostLog sink(logger);
    osm::LogSink& log = sink;
    log.debug("not kept");
    log.warning("proxy left", {{"proxy", "shop/client"}});
    CHECK(logger.lines == std::vector<std::string>{"2 proxy left proxy=shop/client"});
  }

  TEST_CASE("a host's loop runs tasks and timers, and a timer that was dropped never") {
    HostLoop loop;
    LoopExecutor executor(loop);
    std::atomic<int> ran = 0;
    executor.post([&] { ++ran; });
    auto kept = executor.post_after(1ms, [&] { ran += 10; });
    auto dropped = executor.post_after(5ms, [&] { ran += 100; });
    dropped.reset();
    std::atomic<bool> later = false;
    auto last = executor.post_after(20ms, [&] { later = true; });
    REQUIRE(osm::testing::wait_until([&] { return later.load(); }));
    CHECK(ran == 11);
  }

  TEST_CASE("a mesh lives on one thread of the host's own event loop") {
    Host host;
    boost::asio::io_context loop;  // the host's own
    osm::net::AsioExecutor executor(loop);
    auto busy = boost::asio::make_work_guard(loop);
    std::thread thread([&] { loop.run(); });

    auto options = host.options();
    osm::ControlPlaneOptions on_loop{
        .spec = options.spec,
        .providers = options.providers,
        .workload_providers = options.workload_providers,
        .certificates = options.certificates,
        .runtime = {executor, options.runtime.blocking, options.runtime.clock, options.runtime.rng,
                    options.runtime.log, options.runtime.metrics},
        .ads_address = "127.0.0.1:0"};
    {
      auto mesh = osm::ControlPlane::start(on_loop);
      REQUIRE(mesh.ok());
      CHECK(synced(**mesh));
    }
    busy.reset();
    thread.join();
  }

  TEST_CASE("six lines run a mesh, change it, and know when the change is live") {
    Host host;
    const auto options = host.options();
    const osm::Workload machine = host.machines->list_workloads().front();
    const osm::ObjectKey permission{osm::kinds::kTrafficTarget, "shop", "client-to-server"};
    Inventory inventory{host.store};
    // clang-format off
    const auto mesh = osm::ControlPlane::start(options).value();            // Envoys may connect
    const auto agent = make_request(mesh->proxy_subject(machine)).value();  // where a new one runs
    const auto issued = mesh->issue_proxy_certificate(machine, agent.request_pem, 24h).value();
    inventory.allow("client", "server");                                    // your data changes ...
    const auto live = mesh->wait_until_applied(permission, 5s);             // ... in all their configurations
    const auto ended = mesh->shutdown(5s);                                  // they keep what they have
    // clang-format on
    CHECK(issued->subject.usage == osm::certificate::Usage::kProxy);
    CHECK(ended.ok());
    REQUIRE_MESSAGE(live.ok(), live.error().text());
    CHECK(live->phase == osm::ObjectPhase::kApplied);
    CHECK(live->not_connected.size() == 2);  // there are no Envoys here
  }

  TEST_CASE("problems of the mesh are listed with place and code") {
    Host host;
    const auto started = osm::ControlPlane::start(host.options());
    REQUIRE(started.ok());
    osm::ControlPlane& mesh = **started;
    std::atomic<int> told = 0;
    auto on_change = [&] { ++told; };
    const auto subscription = mesh.subscribe(on_change);
    REQUIRE(synced(mesh));
    const osm::ObjectKey broken{osm::kinds::kTrafficTarget, "shop", "broken"};
    REQUIRE(host.store
                .put_yaml(R"(
apiVersion: access.smi-spec.io/v1alpha3
kind: TrafficTarget
metadata: {name: broken, namespace: shop}
spec: {})")
                .ok());
    REQUIRE(osm::testing::wait_until([&] { return !mesh.status().problems.empty(); }));
    CHECK(mesh.status().problems.front().object == broken);
    CHECK(osm::testing::wait_until([&] { return told > 0; }));
  }

  TEST_CASE("a subscriber is told when proxies come and go") {
    Host host;
    const auto mesh = osm::ControlPlane::start(host.options()).value();
    REQUIRE(synced(*mesh));
    std::atomic<int> told = 0;
    const auto subscription = mesh->subscribe([&] { ++told; });
    const auto changes = [&](const auto& change) {
      const int before = told;
      change();
      return osm::testing::wait_until([&] { return told > before; });
    };
    const osm::Workload machine = host.machines->list_workloads().front();
    std::unique_ptr<osm::testing::AdsClient> proxy;
    CHECK(changes([&] {
      proxy = osm::testing::AdsClient::join(*mesh, *host.certificates, machine).value();
      REQUIRE(proxy->fetch(osm::XdsType::kListener).ok());
    }));
    CHECK(changes([&] { proxy.reset(); }));
  }

  TEST_CASE("a resource hook is tested without an Envoy") {
    Host host;
    const vendor::StatusPage status_page;
    auto options = host.options();
    options.resource_hook = &status_page;
    const auto mesh = osm::ControlPlane::start(options).value();
    const osm::Workload machine = host.machines->list_workloads().front();

    const auto proxy = osm::testing::AdsClient::join(*mesh, *host.certificates, machine).value();
    const auto listeners = proxy->fetch(osm::XdsType::kListener).value();
    const auto page = listeners.get<envoy::config::listener::v3::Listener>("vendor-status");
    CHECK(page->address().socket_address().port_value() == 16000);

    CHECK(listeners.get<envoy::config::listener::v3::Listener>("no-such") == std::nullopt);
    REQUIRE(host.store.put_yaml(kClientToServer).ok());
    const auto more = proxy->wait_for(osm::XdsType::kListener, [](const auto& response) {
      return response.resources.size() > 1;
    });
    REQUIRE_MESSAGE(more.ok(), more.error().text());
    CHECK(more->resources.contains("vendor-status"));
  }

  TEST_CASE("a proxy without Envoy can refuse what it is sent") {
    Host host;
    const auto mesh = osm::ControlPlane::start(host.options()).value();
    const osm::Workload machine = host.machines->list_workloads().front();
    const auto proxy = osm::testing::AdsClient::join(*mesh, *host.certificates, machine).value();
    REQUIRE(proxy->subscribe(osm::XdsType::kCluster).ok());
    const auto clusters = proxy->next(osm::XdsType::kCluster);
    REQUIRE_MESSAGE(clusters.ok(), clusters.error().text());
    REQUIRE(proxy->refuse(*clusters, "not to my taste").ok());
    const auto state = [&] {
      return mesh->list_proxies().front().types[static_cast<std::size_t>(osm::XdsType::kCluster)];
    };
    CHECK(osm::testing::wait_until([&] { return state().nack_detail == "not to my taste"; }));
    CHECK(state().state == osm::SyncState::kStale);
  }

  TEST_CASE("a proxy without Envoy says why it has no stream") {
    Host host;
    const auto mesh = osm::ControlPlane::start(host.options()).value();
    const auto stranger = osm::testing::AdsClient::connect(
        {.address = mesh->ads_address(), .chain_pem = "", .key_pem = "", .trust_bundle_pem = ""});
    const auto none = stranger->fetch(osm::XdsType::kCluster);
    REQUIRE_FALSE(none.ok());
    CHECK(none.error().code == osm::ErrorCode::kUnavailable);
  }
}
