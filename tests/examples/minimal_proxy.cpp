// A proxy of the mesh that examples/minimal serves: prints what it is configured with, and exits.
// Its certificate comes from the CA directory that both share.
#include <cstdlib>
#include <iostream>

#include "osm/certificate/directory_ca.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/certificate/request.hpp"
#include "osm/control_plane.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "osm/spec/directory_store.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "osm/spec/vm_provider.hpp"
#include "osm/testing/ads_client.hpp"
#include "osm/testing/thread_executor.hpp"

namespace {

// Named values end the program, with the error, when there are none.
template <class T>
T expect(osm::Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::cerr << "minimal_proxy: " << result.error().text() << '\n';
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: minimal_proxy ADS_ADDRESS MESH_DIR CA_DIR WORKLOAD\n";
    return 2;
  }
  osm::OwnRuntime run({.least = osm::LogLevel::kError});
  const osm::TrustDomain domain("cluster.local");
  const auto store = expect(osm::spec::make_directory_store({argv[2], run.asio(), run}));
  const auto spec =
      osm::spec::make_mesh_spec({.store = *store, .log = run.log, .metrics = run.metrics});
  const auto hosts = osm::vm::make_vm_provider({*store, *spec, domain, run.log, run.metrics});
  auto ca = expect(osm::certificate::load_or_create_directory_ca({argv[3], domain, run.clock}));
  const auto certificates = osm::certificate::make_manager({std::move(ca), run});
  // It listens nowhere: it only knows who the proxy is.
  const auto mesh = expect(osm::ControlPlane::start({.spec = *spec,
                                                     .providers = {{hosts.get()}},
                                                     .workload_providers = {hosts.get()},
                                                     .certificates = *certificates,
                                                     .runtime = run,
                                                     .ads_address = ""}));
  osm::testing::wait_until([&] { return mesh->status().waiting_for.empty(); });
  const auto workload = hosts->find_workload({"shop", argv[4]});
  if (!workload) {
    std::cerr << "minimal_proxy: there is no workload shop/" << argv[4] << '\n';
    return 1;
  }
  const auto own = expect(osm::certificate::make_request(mesh->proxy_subject(*workload)));
  const auto issued =
      expect(mesh->issue_proxy_certificate(*workload, own.request_pem, std::chrono::hours(1)));
  const auto proxy =
      osm::testing::AdsClient::connect({.address = argv[1],
                                        .chain_pem = issued->chain_pem,
                                        .key_pem = own.key.pem(),
                                        .trust_bundle_pem = certificates->trust_bundle_pem()});
  for (const osm::XdsType type : {osm::XdsType::kCluster, osm::XdsType::kListener})
    for (const auto& [name, bytes] : expect(proxy->fetch(type)).resources)
      std::cout << osm::xds_type_text(type) << ' ' << name << '\n';
  return 0;
}
