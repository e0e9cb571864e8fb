// Tells which proxies serve what they are to serve, so that clients know of an endpoint, or of a
// permission, when its servers do (ADR 0071); members of Hub.
#include <algorithm>
#include <utility>

#include "ads/hub.hpp"
#include "translate/inbound.hpp"

namespace osm::inline v1::ads {
namespace {

// True if the proxy has acknowledged the resource as its class has it now.
bool holds(const Session& session, const ResourceSets& sets, XdsType type, std::string_view name) {
  const ResourceSetPtr acknowledged = session.acknowledged(type);
  const ResourceSetPtr& wanted = sets[index_of(type)];
  const EncodedPtr held = acknowledged ? acknowledged->find(name) : nullptr;
  const EncodedPtr newest = wanted ? wanted->find(name) : nullptr;
  return held && newest && held->hash == newest->hash;
}

bool holds_any(const Session& session, XdsType type, std::string_view name) {
  const ResourceSetPtr acknowledged = session.acknowledged(type);
  return acknowledged && acknowledged->find(name);
}

// The listener of a proxy without own ports is missing, and nothing is to be acknowledged.
bool serves_own_ports(const Session& session, const ResourceSets& sets) {
  const ResourceSetPtr& listeners = sets[index_of(XdsType::kListener)];
  const EncodedPtr listener = listeners ? listeners->find(translate::kInboundListener) : nullptr;
  if (!listener) return true;
  if (!holds(session, sets, XdsType::kListener, listener->name)) return false;
  // Envoy acknowledges the listener before its routes and secrets are there.
  return std::all_of(listener->references.begin(), listener->references.end(),
                     [&](const EncodedResource::Reference& needed) {
                       return needed.type == XdsType::kRoute
                                  ? holds(session, sets, needed.type, needed.name)
                                  : holds_any(session, needed.type, needed.name);
                     });
}

}  // namespace

// The stream is new, or its class is about to have other own ports.
void Hub::await_ports(Stream& stream) {
  stream.serves = false;
  if (!deps_.readiness) return;
  deps_.readiness->awaited(stream.key());
  settle_readiness();
}

// The stream is about to be of this class.
void Hub::await_admissions(Stream& stream, const translate::ProxyClass& next) {
  const std::uint64_t admits = mesh_of(stream).admits_of(next.identity);
  if (std::exchange(stream.admits, admits) == admits) return;
  stream.serves_from = classes_.mesh(next.mesh)->present.generation;
  await_ports(stream);  // its account may come back to what the proxy acknowledged before
}

// The proxy acknowledged something, or has nothing to acknowledge.
void Hub::note_ready(Stream& stream) {
  if (!deps_.readiness || stream.serves) return;
  if (classes_.generation_of(*stream.proxy_class) < stream.serves_from) return;
  // A gRPC library has listeners of other names.
  const bool ready = streams_.is_library(stream)
                         ? stream.whole && stream.session->settled()
                         : serves_own_ports(*stream.session, stream.proxy_class->sets());
  if (!ready) return;
  stream.serves = true;
  const std::vector<StreamId> ids = streams_.served(stream.key());
  if (!std::all_of(ids.begin(), ids.end(), [&](StreamId id) { return streams_.at(id).serves; }))
    return;
  deps_.readiness->acknowledged(stream.key(),
                                {stream.proxy_class->proxy_class().own_ports, stream.admits});
  settle_readiness();
}

void Hub::note_disconnected(const model::ProxyKey& key) {
  if (deps_.readiness) deps_.readiness->disconnected(key);
}

void Hub::settle_readiness() {
  if (readiness_settles_) return;
  readiness_settles_ = deps_.strand.post_after(ReadinessTable::kSettle, [this] {
    readiness_settles_.reset();
    if (deps_.readiness->settle()) settle_readiness();
  });
}

}  // namespace osm::inline v1::ads
