// Ports that the hub's proxies keep for clients that may not know yet that they left; members of
// Hub.
#include <algorithm>

#include "ads/hub.hpp"

namespace osm::inline v1::ads {

bool Hub::refuses(const Stream& stream) const {
  if (own_meshes_.contains(stream.key())) return true;
  if (stream.settled) return false;
  return trials_.has(stream) || std::any_of(kXdsTypes.begin(), kXdsTypes.end(), [&](XdsType type) {
           return stream.session->state(type).state == SyncState::kStale;
         });
}

// The stream is in its class by `before`, and has these ports now. A proxy that refuses something
// keeps nothing: the port may be what it refuses, and left for that reason.
void Hub::note_leaving(const Stream& stream, const model::MeshSnapshot& before,
                       const std::vector<MeshService>& own_ports) {
  if (refuses(stream)) return leaving_.forget(stream.key());
  leaving_.note(stream.key(),
                translate::served_ports(before, stream.proxy_class->proxy_class().own_ports),
                translate::served_ports(*snapshot_, own_ports), deps_.runtime.clock.steady_now());
}

// The stream is new, and has these ports.
void Hub::recall_leaving(const Stream& stream, const std::vector<MeshService>& own_ports) {
  if (refuses(stream)) return leaving_.forget(stream.key());
  leaving_.recall(stream.key(), translate::served_ports(*snapshot_, own_ports),
                  admission_.memory().left_at(stream.key()), deps_.runtime.clock.steady_now());
}

// The generation that all proxies of the mesh have acknowledged; 0: some are not connected here.
// They may be another replica's, and they may send requests without any controller.
std::uint64_t Hub::acknowledged_by_all() const {
  if (streams_.serving().size() < snapshot_->workloads.size()) return 0;
  std::uint64_t oldest = snapshot_->generation;
  for (const auto& [id, stream] : streams_)
    if (stream.session) oldest = std::min(oldest, applied(stream));
  return oldest;
}

void Hub::tick_leaving(SteadyTime now) {
  leaving_.forget_meshes(now);
  if (leaving_.empty()) return;
  for (const model::ProxyKey& proxy : leaving_.tick(now, *snapshot_, acknowledged_by_all()))
    for (const StreamId id : streams_.served(proxy)) classify(streams_.at(id));
}

}  // namespace osm::inline v1::ads
