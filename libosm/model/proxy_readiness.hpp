// Readiness of proxies to serve: at which ports, and whom. The ADS server knows it, the catalog
// asks.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "model/mesh_snapshot.hpp"
#include "osm/subscription.hpp"
#include "osm/values/service.hpp"

namespace osm::inline v1::model {

// Duties of a proxy as a server.
struct Serving {
  std::vector<MeshService> ports;  // own ports of its workload
  std::uint64_t admits;            // MeshSnapshot::admits_of() its account

  Serving(std::vector<MeshService> own = {}, std::uint64_t callers = 0)
      : ports(std::move(own)), admits(callers) {}
  friend bool operator==(const Serving&, const Serving&) = default;
};

enum class Readiness {
  kUnknown,   // no replica says that the proxy is connected
  kNotReady,  // connected, and it has not acknowledged that it serves so
  kReady,     // it has acknowledged the configuration that does
};

class ProxyReadiness {
 public:
  virtual ~ProxyReadiness() = default;

  // Readiness for what the proxy is to do in the newest mesh.
  // Thread: any. Blocking: no.
  virtual Readiness readiness_of(const ProxyKey& proxy, const Serving& serving) const = 0;

  // Calls `on_ready` after some proxies became ready.
  // Thread: any, also several at once; must not block. Lifetime: until the handle dies.
  virtual Subscription subscribe(std::function<void()> on_ready) = 0;
};

}  // namespace osm::inline v1::model
