// The objects that proxies of this replica refuse, with the proxies' words. A verdict ends when its
// object changes, or when its proxy stays away.
// Thread: any.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/mesh_snapshot.hpp"
#include "nack_provenance/own_meshes.hpp"
#include "osm/notifier.hpp"
#include "osm/values/proxy.hpp"

namespace osm::inline v1::nack_provenance {

struct Verdict {
  WorkloadName workload;
  XdsType type{};
  std::string detail;  // the proxy's words
  bool frozen =
      false;  // the proxy keeps its last good content; else it is served without the object
};

class Verdicts {
 public:
  // A problem names as many proxies, each with so many bytes of its words.
  static constexpr std::size_t kNamed = 3;
  static constexpr std::size_t kDetailBytes = 1024;

  // `concerned`: number of the mesh's proxies that the object concerns; called under a lock.
  Verdicts(std::string osm_namespace, std::function<std::size_t(const ObjectKey&)> concerned)
      : osm_namespace_(std::move(osm_namespace)), concerned_(std::move(concerned)) {}

  // One for each refused object, ordered, without its source.
  std::vector<Problem> problems() const;
  // The proxies that refuse the object, with their words.
  std::map<model::ProxyKey, std::string> refusing(const ObjectKey& object) const;
  // Calls `on_change` after each change. Lifetime: until the handle dies.
  Subscription subscribe(std::function<void()> on_change) {
    return changed_.subscribe(std::move(on_change));
  }

  // Adds or replaces one. `objects`: those of the mesh that the proxy refused.
  void add(const model::ProxyKey& proxy, const ObjectKey& object, Verdict verdict,
           const model::SpecObjects& objects);
  // Tells that the proxy has no mesh of its own, so that it keeps its last good content.
  void set_keeping(const model::ProxyKey& proxy, bool keeping);
  // Ends verdicts on objects that have another value in `objects`. Result: their proxies.
  std::set<model::ProxyKey> lift(const model::SpecObjects& objects);
  void forget(const model::ProxyKey& proxy);

  RefusedObjects of(const model::ProxyKey& proxy) const;
  std::set<model::ProxyKey> proxies() const;
  std::set<ObjectKey> objects() const;

  // The name of the object; a mesh has one MeshConfig.
  ObjectKey named(const ObjectKey& object) const {
    return object == model::mesh_config_key()
               ? ObjectKey{kinds::kMeshConfig, osm_namespace_, "osm-mesh-config"}
               : object;
  }

 private:
  struct Refused {
    model::SpecObjects value;  // of the one object
    std::map<model::ProxyKey, Verdict> by;
  };

  std::string cause_of(const ObjectKey& object, const Refused& refused) const;

  const std::string osm_namespace_;
  const std::function<std::size_t(const ObjectKey&)> concerned_;
  mutable std::mutex mutex_;
  std::map<ObjectKey, Refused> refused_;
  std::set<model::ProxyKey> keeping_;  // proxies without a mesh of their own
  Notifier<> changed_;
};

}  // namespace osm::inline v1::nack_provenance
