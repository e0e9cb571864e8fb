// A controller whose services and policies come from a vendor's own table.
#include <signal.h>

#include <filesystem>
#include <iostream>

#include "osm/certificate/directory_ca.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/control_plane.hpp"
#include "osm/mesh_cataloger.hpp"
#include "osm/net/http_server.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "table_spec.hpp"

namespace {

constexpr const char* kNamespace = "shop";

int fail(const osm::Error& error) {
  std::cerr << "custom_mesh_spec: " << error.text() << '\n';
  return 1;
}

// GET /?from=web&to=books: whether the mesh lets the account call.
osm::net::Response decide(const osm::ControlPlane& mesh, const osm::net::Request& request) {
  const auto from = request.required("from");
  if (!from.ok()) return osm::net::error_response(from.error());
  const auto to = request.required("to");
  if (!to.ok()) return osm::net::error_response(to.error());
  const auto decision = mesh.catalog().check_policy({kNamespace, *from}, {kNamespace, *to});
  if (!decision.ok()) return osm::net::error_response(decision.error());
  return osm::net::text_response(decision->allowed ? "allowed\n" : "denied\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: custom_mesh_spec ADS_ADDRESS TABLE STATE_DIR\n"
                 "   eg: custom_mesh_spec 0.0.0.0:15128 services.csv state\n";
    return 2;
  }
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  osm::OwnRuntime runtime;

  const osm::TrustDomain domain("cluster.local");
  vendor::TableSpec spec(kNamespace);
  if (const auto loaded = spec.load(argv[2]); !loaded.ok()) return fail(loaded.error());
  auto ca = osm::certificate::load_or_create_directory_ca(
      {std::filesystem::path(argv[3]) / "ca", domain, runtime.clock});
  if (!ca.ok()) return fail(ca.error());
  const auto certificates = osm::certificate::make_manager({*std::move(ca), runtime});
  const auto mesh = osm::ControlPlane::start({.spec = spec,
                                              .providers = {},  // see custom_endpoints_provider
                                              .workload_providers = {},
                                              .certificates = *certificates,
                                              .runtime = runtime,
                                              .trust_domain = domain,
                                              .ads_address = argv[1]});
  if (!mesh.ok()) return fail(mesh.error());
  const auto page = osm::net::HttpServer::start(
      {.listen = {.host = "127.0.0.1", .port = 0}}, runtime.asio(), runtime.executor,
      [&](const osm::net::Request& request) { return decide(**mesh, request); }, runtime.log);
  if (!page.ok()) return fail(page.error());
  std::cout << "http://" << (*page)->address().str() << std::endl;

  int signal = 0;
  while (sigwait(&signals, &signal) == 0 && signal == SIGHUP)
    if (const auto loaded = spec.load(argv[2]); !loaded.ok())
      runtime.log.warning("the table keeps its last content", {{"cause", loaded.error().text()}});
  (*page)->stop(std::chrono::seconds(1)).ok();
  return (*mesh)->shutdown(std::chrono::seconds(5)).ok() ? 0 : 1;
}
