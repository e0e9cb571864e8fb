#include "inject/pod_bootstrap.hpp"

#include <fmt/format.h>

#include <utility>

#include "inject/pod_certificate.hpp"
#include "inject/pod_names.hpp"
#include "inject/refusal.hpp"

namespace osm::inline v1::inject {
namespace {

constexpr std::uint16_t kAdsPort = 15128;

}  // namespace

Result<std::vector<BootstrapFile>> pod_bootstrap(EnvoyBootstrap input,
                                                 const std::vector<Probe>& probes,
                                                 const std::string& osm_namespace) {
  if (input.certificate.private_key.empty()) return invalid("certificate", "has no private key");
  ProbeResources resources = probe_resources(probes);
  input.header = "# Envoy's bootstrap for one pod, written by osm-injector.\n";
  input.controller = {fmt::format("osm-controller.{}.svc.cluster.local", osm_namespace), kAdsPort};
  input.directory = kBootstrapDirectory;
  input.wait_for_mesh = true;
  input.clusters = std::move(resources.clusters);
  input.listeners = std::move(resources.listeners);
  OSM_TRY(auto files, proxy_files(input));
  files.insert(files.begin(), key_file(input.certificate));
  return files;
}

}  // namespace osm::inline v1::inject
