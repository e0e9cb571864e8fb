// A controller whose endpoints come from an HTTP inventory service.
#include <signal.h>

#include <filesystem>
#include <iostream>

#include "inventory_provider.hpp"
#include "osm/certificate/directory_ca.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/control_plane.hpp"
#include "osm/mesh_cataloger.hpp"
#include "osm/net/http_server.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "osm/runtime/threads.hpp"
#include "osm/spec/directory_store.hpp"
#include "osm/spec/object_mesh_spec.hpp"

namespace {

int fail(const osm::Error& error) {
  std::cerr << "custom_endpoints_provider: " << error.text() << '\n';
  return 1;
}

// GET /?service=shop/books: what the mesh lists for it, a line for each endpoint.
osm::net::Response list(const osm::ControlPlane& mesh, const osm::net::Request& request) {
  const auto service = request.required("service");
  if (!service.ok()) return osm::net::error_response(service.error());
  const auto slash = service->find('/');
  if (slash == std::string::npos)
    return osm::net::text_response("NAMESPACE/SERVICE, please\n", 400);
  const auto endpoints = mesh.catalog().list_endpoints_for_service(
      {service->substr(0, slash), service->substr(slash + 1)});
  if (!endpoints.ok()) return osm::net::error_response(endpoints.error());
  std::string text;
  for (const osm::MergedEndpoint& one : *endpoints)
    text += one.endpoint.address + ':' + std::to_string(number(one.endpoint.port)) + ' ' +
            one.endpoint.identity.str() + '\n';
  return osm::net::text_response(text);
}

}  // namespace

int main(int argc, char** argv) {
  const auto inventory_address = osm::net::parse_address(argc == 5 ? argv[4] : "");
  if (!inventory_address.ok()) {
    std::cerr << "usage: custom_endpoints_provider ADS_ADDRESS MESH_DIR STATE_DIR INVENTORY\n"
                 "   eg: custom_endpoints_provider 0.0.0.0:15128 mesh state 10.0.0.1:8000\n";
    return 2;
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  osm::OwnRuntime runtime;
  osm::net::Threads polling_thread(1);

  const osm::TrustDomain domain("cluster.local");
  const auto store = osm::spec::make_directory_store({argv[2], runtime.asio(), runtime});
  if (!store.ok()) return fail(store.error());
  const auto spec =
      osm::spec::make_mesh_spec({.store = **store, .log = runtime.log, .metrics = runtime.metrics});
  vendor::InventoryProvider inventory(
      {.inventory = *inventory_address, .executor = polling_thread.executor(), .log = runtime.log});
  auto ca = osm::certificate::load_or_create_directory_ca(
      {std::filesystem::path(argv[3]) / "ca", domain, runtime.clock});
  if (!ca.ok()) return fail(ca.error());
  const auto certificates = osm::certificate::make_manager({*std::move(ca), runtime});
  const auto mesh = osm::ControlPlane::start({.spec = *spec,
                                              .providers = {{&inventory}},
                                              .workload_providers = {},
                                              .certificates = *certificates,
                                              .runtime = runtime,
                                              .trust_domain = domain,
                                              .ads_address = argv[1]});
  if (!mesh.ok()) return fail(mesh.error());
  const auto page = osm::net::HttpServer::start(
      {.listen = {.host = "127.0.0.1", .port = 0}}, runtime.asio(), runtime.executor,
      [&](const osm::net::Request& request) { return list(**mesh, request); }, runtime.log);
  if (!page.ok()) return fail(page.error());
  std::cout << "http://" << (*page)->address().str() << std::endl;

  int signal = 0;
  sigwait(&signals, &signal);
  (*page)->stop(std::chrono::seconds(1)).ok();
  return (*mesh)->shutdown(std::chrono::seconds(5)).ok() ? 0 : 1;
}
