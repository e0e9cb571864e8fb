#include "catalog/spec_view.hpp"

#include <map>
#include <utility>

namespace osm::catalog {
namespace {

template <class T>
using NameOf = std::decay_t<decltype(std::declval<const T&>().name)>;

// The names whose value differs between two lists. Unchanged objects usually keep their pointer,
// which makes this cheap.
template <class T>
std::set<NameOf<T>> differing(const SharedList<T>& before, const SharedList<T>& after) {
  std::map<NameOf<T>, std::shared_ptr<const T>> old;
  for (const auto& object : before) old.emplace(object->name, object);
  std::set<NameOf<T>> out;
  for (const auto& object : after) {
    const auto at = old.find(object->name);
    if (at == old.end()) {
      out.insert(object->name);
      continue;
    }
    if (at->second != object && !(*at->second == *object)) out.insert(object->name);
    old.erase(at);
  }
  for (const auto& [name, object] : old) out.insert(name);
  return out;
}

template <class T>
std::set<NameOf<T>> replace(SharedList<T>& held, SharedList<T> fresh) {
  auto changed = differing(held, fresh);
  held = std::move(fresh);
  return changed;
}

}  // namespace

void SpecView::invalidate(const std::vector<ObjectKey>& changed) {
  for (const ObjectKey& key : changed) {
    kinds_.insert(key.kind);
    // A namespace that joins or leaves the mesh brings or takes its objects, unannounced.
    everything_ |= key.kind == "Namespace";
  }
}

SpecChanges SpecView::refresh() {
  SpecChanges changes;
  const auto asked = [&](const char* kind) { return everything_ || kinds_.contains(kind); };
  if (asked("MeshConfig")) {
    const MeshConfig fresh = spec_.get_mesh_config();
    changes.config = !(fresh == std::exchange(config_, fresh));
  }
  if (asked("Namespace")) {
    const std::vector<std::string> list = spec_.list_namespaces();
    std::set<std::string> fresh(list.begin(), list.end());
    changes.namespaces = fresh != namespaces_;
    namespaces_ = std::move(fresh);
  }
  if (asked("Service")) changes.services = replace(services_, spec_.list_services());
  if (asked("TrafficSplit"))
    changes.splits = !replace(splits_, spec_.list_traffic_splits()).empty();
  if (asked("HTTPRouteGroup"))
    changes.routes |= !replace(http_routes_, spec_.list_http_traffic_specs()).empty();
  if (asked("TCPRoute"))
    changes.routes |= !replace(tcp_routes_, spec_.list_tcp_traffic_specs()).empty();
  if (asked("TrafficTarget")) changes.targets = replace(targets_, spec_.list_traffic_targets());
  everything_ = false;
  kinds_.clear();
  return changes;
}

}  // namespace osm::catalog
