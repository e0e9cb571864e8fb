// Readiness of proxies for the ports of their workloads. The ADS server knows it, the catalog asks.
#pragma once

#include <functional>
#include <vector>

#include "model/mesh_snapshot.hpp"
#include "osm/subscription.hpp"
#include "osm/values/service.hpp"

namespace osm::inline v1::model {

enum class Readiness {
  kUnknown,   // no replica says that the proxy is connected
  kNotReady,  // connected, and it has not acknowledged these ports
  kReady,     // it has acknowledged the configuration that serves them
};

class ProxyReadiness {
 public:
  virtual ~ProxyReadiness() = default;

  // Readiness for `ports`, the own ports of the proxy's workload in the newest mesh.
  // Thread: any. Blocking: no.
  virtual Readiness readiness_of(const ProxyKey& proxy,
                                 const std::vector<MeshService>& ports) const = 0;

  // Calls `on_ready` after some proxies became ready.
  // Thread: any, also several at once; must not block. Lifetime: until the handle dies.
  virtual Subscription subscribe(std::function<void()> on_ready) = 0;
};

}  // namespace osm::inline v1::model
