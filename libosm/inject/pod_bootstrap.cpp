#include "inject/pod_bootstrap.hpp"

#include <fmt/format.h>

#include "inject/envoy_bootstrap.hpp"
#include "inject/pod_certificate.hpp"
#include "inject/pod_names.hpp"
#include "inject/refusal.hpp"
#include "osm/inject/interception.hpp"

namespace osm::inline v1::inject {
namespace {

constexpr std::uint16_t kAdsPort = 15128;

}  // namespace

Result<std::vector<BootstrapFile>> pod_bootstrap(const PodBootstrapInput& input) {
  if (input.certificate.private_key.empty()) return invalid("certificate", "has no private key");
  const ProbeResources probes = probe_resources(input.probes);
  OSM_TRY(auto files,
          proxy_files({.header = "# Envoy's bootstrap for one pod, written by osm-injector.\n",
                       .certificate = input.certificate,
                       .trust_bundle_pem = input.trust_bundle_pem,
                       .account = input.account,
                       .trust_domain = input.trust_domain,
                       .controller = {fmt::format("osm-controller.{}.svc.cluster.local",
                                                  input.osm_namespace),
                                      kAdsPort},
                       .directory = std::string(kBootstrapDirectory),
                       .tls = input.tls,
                       .xds = input.xds,
                       .wait_for_mesh = true,
                       .clusters = probes.clusters,
                       .listeners = probes.listeners}));
  files.insert(files.begin(), key_file(input.certificate));
  return files;
}

}  // namespace osm::inline v1::inject
