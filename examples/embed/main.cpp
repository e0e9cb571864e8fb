// A vendor's control plane around libosm: its own inventory in, configured Envoys out.
#include <signal.h>

#include <filesystem>
#include <iostream>

#include "agent_files.hpp"
#include "inventory.hpp"
#include "osm/certificate/directory_ca.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/control_plane.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "osm/spec/vm_provider.hpp"
#include "status_page.hpp"

namespace {

// The host's business: the library installs no handlers.
sigset_t block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

int fail(const osm::Error& error) {
  std::cerr << "embed: " << error.text() << '\n';
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: embed ADS_ADDRESS DIRECTORY\n"
                 "   eg: embed 10.200.0.1:15128 /var/lib/embed\n";
    return 2;
  }
  const std::filesystem::path directory = std::filesystem::absolute(argv[2]);
  const sigset_t signals = block_signals();

  // A host with threads, a log or metrics of its own passes those.
  osm::OwnRuntime runtime;

  vendor::Inventory inventory("shop");
  inventory.add(vendor::Host{"client", "10.200.0.11"});
  inventory.add(vendor::Host{"server", "10.200.0.12"});
  inventory.add(vendor::App{"server", "10.96.0.12", 14001});
  inventory.allow("client", "server");

  const osm::TrustDomain domain("cluster.local");
  const auto spec = osm::spec::make_mesh_spec(
      {.store = inventory, .log = runtime.log, .metrics = runtime.metrics});
  const auto hosts =
      osm::vm::make_vm_provider({inventory, *spec, domain, runtime.log, runtime.metrics});
  auto ca =
      osm::certificate::load_or_create_directory_ca({directory / "ca", domain, runtime.clock});
  if (!ca.ok()) return fail(ca.error());
  const auto certificates = osm::certificate::make_manager({*std::move(ca), runtime});

  const vendor::StatusPage status_page;
  const auto mesh = osm::ControlPlane::start({.spec = *spec,
                                              .providers = {{hosts.get()}},
                                              .workload_providers = {hosts.get()},
                                              .certificates = *certificates,
                                              .runtime = runtime,
                                              .trust_domain = domain,
                                              .ads_address = argv[1],
                                              .resource_hook = &status_page});
  if (!mesh.ok()) return fail(mesh.error());
  for (const osm::Workload& host : hosts->list_workloads())
    if (auto done = vendor::write_agent_files(**mesh, *spec, *certificates, host,
                                              directory / host.name.name);
        !done.ok())
      return fail(done.error());
  std::cout << "ready" << std::endl;

  int signal = 0;
  sigwait(&signals, &signal);
  return (*mesh)->shutdown(std::chrono::seconds(5)).ok() ? 0 : 1;
}
