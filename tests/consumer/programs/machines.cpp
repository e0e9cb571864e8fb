// The VM plugin and the net library, on an event loop of this program's own.
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "osm/net/http_server.hpp"
#include "osm/net/router.hpp"
#include "osm/runtime/asio_executor.hpp"
#include "osm/runtime/json_log.hpp"
#include "osm/runtime/prometheus_registry.hpp"
#include "osm/runtime/system.hpp"
#include "osm/runtime/threads.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "osm/spec/vm_provider.hpp"
#include "osm/testing/memory_object_store.hpp"

namespace {

void expect(bool truth, const std::string& what) {
  if (truth) return;
  std::fprintf(stderr, "machines: not so: %s\n", what.c_str());
  std::exit(1);
}

constexpr const char* kMesh = R"(
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {openservicemesh.io/monitored-by: osm}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: web, namespace: shop}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  clusterIP: 10.96.0.7
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: workload.openservicemesh.io/v1alpha1
kind: VirtualMachine
metadata: {name: web-1, namespace: shop, labels: {app: web}}
spec: {address: 192.0.2.7, serviceAccount: web}
)";

}  // namespace

int main() {
  boost::asio::io_context loop;
  osm::net::AsioExecutor executor(loop);
  bool ran = false;
  executor.post([&] { ran = true; });
  const auto timer = executor.post_after(std::chrono::milliseconds(1), [&] { loop.stop(); });
  loop.run();
  expect(ran, "the executor runs on this program's loop");

  osm::SystemClock clock;
  osm::net::JsonLog log(2, osm::LogLevel::kError, clock);
  osm::net::PrometheusRegistry metrics;
  osm::testing::MemoryObjectStore store;
  const auto put = store.put_yaml(kMesh);
  if (!put.ok()) expect(false, put.error().text());
  const auto spec = osm::spec::make_mesh_spec({.store = store, .log = log, .metrics = metrics});
  const auto provider = osm::vm::make_vm_provider({.store = store,
                                                   .mesh_spec = *spec,
                                                   .trust_domain = osm::TrustDomain("one.example"),
                                                   .log = log,
                                                   .metrics = metrics});
  for (const auto& problem : spec->list_problems()) expect(false, problem.text());
  for (const auto& problem : provider->list_problems()) expect(false, problem.text());
  const auto endpoints = provider->list_endpoints_for_service({"shop", "web"});
  expect(endpoints && endpoints->size() == 1, "the machine is an endpoint of the service");
  expect(endpoints->front().address == "192.0.2.7", "at its own address");

  constexpr osm::Counter kConsumer{"osm_consumer_total", "Calls of the consumer"};
  metrics.add(kConsumer, {}, 1);
  expect(metrics.expose().find("osm_consumer_total 1") != std::string::npos, "metrics are exposed");
  for (const char* help : {"# HELP osm_consumer_total Calls of the consumer\n",
                           "# HELP osm_spec_decoded_total Objects decoded, by kind\n"})
    expect(metrics.expose().find(help) != std::string::npos, "metrics have their help");
  std::puts("machines: ok");
}
