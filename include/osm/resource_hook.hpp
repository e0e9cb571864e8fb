// The resource hook: an embedder adds Envoy resources to those of the mesh, or changes them, before
// the mesh hashes and sends them. This is the only public header that includes Envoy's protos; link
// osm::envoy_api.
#pragma once

#include <envoy/config/cluster/v3/cluster.pb.h>
#include <envoy/config/listener/v3/listener.pb.h>
#include <envoy/config/route/v3/route.pb.h>

#include <vector>

#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"
#include "osm/values/service.hpp"

namespace osm::inline v1 {

// Proxies with equal configuration: all of one identity that serve the same ports.
struct ProxyGroup {
  ServiceIdentity identity;
  std::vector<MeshService> services;  // the ports they serve, ordered
};

// The hook does not see endpoints and secrets: they reach proxies on quicker paths. A cluster of
// type EDS over ADS may name the endpoints of a service of the mesh; other clusters contain their
// endpoints.
struct EnvoyResources {
  std::vector<envoy::config::cluster::v3::Cluster> clusters;
  std::vector<envoy::config::listener::v3::Listener> listeners;
  std::vector<envoy::config::route::v3::RouteConfiguration> routes;
};

class OSM_API ResourceHook {
 public:
  virtual ~ResourceHook() = default;

  // Changes the resources that `group` is about to be sent.
  //
  // Equal arguments must give equal resources until ControlPlane::refresh_resources() is called:
  // replicas must agree, and proxies are sent what differs. If two resources have one name, the
  // mesh keeps the first. It leaves out a cluster whose endpoints do not exist, and a listener
  // whose routes do not exist. It logs both. It does not check clusters that listeners and routes
  // name, since a bootstrap may define its own. If Envoy refuses a resource of the hook, no object
  // is blamed: the proxies keep what they have, and the mesh logs it. The mesh's own clusters pin
  // the identities that they expect; the hook must do so for its clusters.
  //
  // Failure: logged; proxies of the group keep what they have, and the hook is called again within
  // seconds. An exception counts as a failure.
  // Thread: of the executor, concurrently. Blocking: no; a blocking hook delays the whole mesh.
  virtual Status apply(const ProxyGroup& group, EnvoyResources& resources) const = 0;
};

}  // namespace osm::inline v1
