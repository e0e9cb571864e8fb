// Declared order of endpoints providers for one Service. Without a ServiceProvider, the order is
// that in which the host lists its providers. docs/mesh-objects.md has the fields and the effects.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "osm/ids.hpp"
#include "osm/object.hpp"

namespace osm::inline v1 {

namespace kinds {
inline constexpr GroupKind kServiceProvider{"workload.openservicemesh.io", "ServiceProvider"};
}  // namespace kinds

struct ServiceProvider {
  // One provider and its share.
  struct Provider {
    std::string id;  // EndpointsProvider::id()
    // Factor for the weights of its endpoints, which count 1 unless the provider gives them one. 0:
    // its endpoints are listed, but get no traffic.
    std::optional<std::uint32_t> weight;

    friend bool operator==(const Provider&, const Provider&) = default;
  };

  ServiceName service;
  std::vector<Provider> providers;  // in order of precedence, each once; never empty
  // True: endpoints of other providers are left out. False: they follow, in the host's order.
  bool excludes_others = false;

  friend bool operator==(const ServiceProvider&, const ServiceProvider&) = default;
};

}  // namespace osm::inline v1
