// The flags of osm-injector, checked.
#pragma once

#include <optional>
#include <string>

#include "daemons/version.hpp"
#include "mesh_options.hpp"
#include "osm/inject/injector.hpp"
#include "osm/net/address.hpp"

namespace osm::injector {

struct Options : daemon::MeshOptions {
  // Exactly one of these says which cluster.
  std::string kubeconfig;
  bool in_cluster = false;
  net::Address listen;        // the webhook
  std::string client_ca_pem;  // of those who may ask the webhook; empty: whoever reaches it
  std::string envoy_image = "envoyproxy/envoy:distroless-v1.40.0";
  std::string init_container_image = std::string("osm-init:") + kVersion;
  std::string image_pull_policy = "IfNotPresent";
  inject::InjectionLimits limits;
  bool cni = false;                     // a CNI plugin installs the interception
  std::optional<bool> native_sidecars;  // absent: as the versions of API server and kubelets say
  XdsVariant xds = XdsVariant::kDelta;
};

// Result: the exit code to leave with when there is nothing to run (--help, wrong usage; what is to
// be said has been printed), else -1 and `options` filled.
int parse_options(int argc, char** argv, Options& options);

// The command that lets osm-injector create Secrets in a namespace, by a ClusterRole of the chart.
std::string grant_command(const Options& options, const std::string& ns);

}  // namespace osm::injector
