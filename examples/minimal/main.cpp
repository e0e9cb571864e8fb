// A control plane in one function: a mesh from a directory of YAML, served to its proxies.
#include <csignal>
#include <iostream>

#include "osm/certificate/directory_ca.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/control_plane.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "osm/spec/directory_store.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "osm/spec/vm_provider.hpp"

int main(int argc, char** argv) {
  if (argc != 4) return std::cerr << "usage: minimal ADS_ADDRESS MESH_DIR CA_DIR\n", 2;
  const auto fail = [](const auto& error) { return std::cerr << error.text() << '\n', 1; };
  sigset_t signals;  // Ctrl-C and SIGTERM end it; the library handles no signals
  for (sigemptyset(&signals); const int s : {SIGINT, SIGTERM}) sigaddset(&signals, s);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  osm::OwnRuntime run;
  const osm::TrustDomain domain("cluster.local");
  const auto store = osm::spec::make_directory_store({argv[2], run.asio(), run});
  if (!store.ok()) return fail(store.error());
  const auto spec =
      osm::spec::make_mesh_spec({.store = **store, .log = run.log, .metrics = run.metrics});
  const auto hosts = osm::vm::make_vm_provider({**store, *spec, domain, run.log, run.metrics});
  auto ca = osm::certificate::load_or_create_directory_ca({argv[3], domain, run.clock});
  if (!ca.ok()) return fail(ca.error());
  const auto certificates = osm::certificate::make_manager({*std::move(ca), run});
  const auto mesh = osm::ControlPlane::start({.spec = *spec,
                                              .providers = {{hosts.get()}},
                                              .workload_providers = {hosts.get()},
                                              .certificates = *certificates,
                                              .runtime = run,
                                              .ads_address = argv[1]});
  if (!mesh.ok()) return fail(mesh.error());
  std::cout << (*mesh)->ads_address() << std::endl;
  sigwaitinfo(&signals, nullptr);
  return (*mesh)->shutdown(std::chrono::seconds(5)).ok() ? 0 : 1;
}
