// The typed hook: an embedder adds Envoy resources to those of the mesh, or changes them, before
// they are hashed and sent. The one public header that speaks Envoy's protos; link osm::envoy_api.
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

// Proxies that are configured alike: all of one identity that serve the same ports.
struct ProxyGroup {
  ServiceIdentity identity;
  std::vector<MeshService> services;  // the ports they serve, ordered
};

// Endpoints and secrets are not the hook's: those follow their own, quicker ways. A cluster of type
// EDS over ADS may name the endpoints of a service of the mesh; others carry theirs inline.
struct EnvoyResources {
  std::vector<envoy::config::cluster::v3::Cluster> clusters;
  std::vector<envoy::config::listener::v3::Listener> listeners;
  std::vector<envoy::config::route::v3::RouteConfiguration> routes;
};

class OSM_API ResourceHook {
 public:
  virtual ~ResourceHook() = default;

  // Changes what `group` is about to be sent. Equal arguments must give equal resources until
  // ControlPlane::refresh_resources() is called: replicas have to agree, and proxies are sent what
  // differs. Of two with one name the first is kept; a cluster whose endpoints, or a listener whose
  // routes do not exist is left out; both are logged. Clusters that listeners and routes name are
  // not looked for, since a bootstrap may have its own. What Envoy refuses is no object's fault:
  // its proxies keep what they have, and it is logged.
  // The mesh's own clusters pin the identities they expect; that care is the hook's for its own.
  // Failure (an exception counts as one): logged; proxies of the group keep what they have.
  // Thread: of the executor, concurrently. Blocking: no, it would hold the whole mesh up.
  virtual Status apply(const ProxyGroup& group, EnvoyResources& resources) const = 0;
};

}  // namespace osm::inline v1
