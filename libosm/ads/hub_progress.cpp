// The hub's part of progress: the generation of which each stream holds everything.
//
// A settled stream holds everything that its class holds, so it is as far as its class, and a
// generation that does not touch the class costs nothing. When the class gets other content, the
// stream records how far it was.
#include <algorithm>

#include "ads/hub.hpp"

namespace osm::inline v1::ads {
namespace {

constexpr std::chrono::seconds kBehind{10};
// Time to wait for a proxy that was told to reconnect: Envoy tries every two seconds at most.
constexpr std::chrono::seconds kReturnBound{10};

}  // namespace

std::uint64_t Hub::applied(const Stream& stream) const {
  if (!stream.settled) return stream.applied;
  return std::max(stream.applied, classes_.generation_of(*stream.proxy_class));
}

// The stream is about to get other content; its present content was current until `generation`.
void Hub::unsettle(Stream& stream, std::uint64_t generation) {
  if (!std::exchange(stream.settled, false)) return;
  stream.applied = std::max(stream.applied, generation);
}

// The stream is as far as its class without a new response.
void Hub::on_class_unchanged(const ProxyClassPtr& entry) {
  for (StreamId id : entry->members())
    if (const Stream* stream = find_in(streams_, id); stream && stream->settled) {
      const model::ProxyKey key = stream->key();
      progressed_.notify(&key);
    }
  release_trials();
}

// No response is due for the stream.
void Hub::note_settled(Stream& stream) {
  if (!stream.session->settled()) return;
  if (!stream.settled && !on_trial(stream) && stream.proxy_class->ready() && is_whole(stream)) {
    stream.settled = true;
    const model::ProxyKey key = stream.key();
    progressed_.notify(&key);
  }
  if (!stream.unsettled_since) return;
  deps_.runtime.metrics.observe(
      "osm_propagation_seconds", {},
      seconds(deps_.runtime.clock.steady_now() - *stream.unsettled_since));
  stream.unsettled_since.reset();
}

// A proxy asks for listeners when its clusters are warm, and for routes when it has listeners. So a
// proxy that answered everything may not have asked for everything yet. The check is repeated only
// after other clusters or listeners were sent.
bool Hub::is_whole(Stream& stream) {
  const ResourceSetPtr clusters = stream.session->acknowledged(XdsType::kCluster);
  const ResourceSetPtr listeners = stream.session->acknowledged(XdsType::kListener);
  if (!clusters || !listeners) return false;
  if (clusters == stream.whole_clusters && listeners == stream.whole_listeners) return true;
  if (!holds_what_it_names(*stream.session)) return false;
  stream.whole_clusters = clusters;
  stream.whole_listeners = listeners;
  return true;
}

std::vector<ProxyProgress> Hub::progress(const std::vector<model::ProxyKey>& proxies) const {
  std::vector<ProxyProgress> out;
  for (const model::ProxyKey& key : proxies) {
    const StreamId* serving = find_in(serving_, key);
    if (!serving) {
      // It still has resources that it will be told to remove.
      if (returning_.contains(key)) out.push_back({key, 0, false, {}});
      continue;
    }
    const Stream& stream = streams_.at(*serving);
    ProxyProgress& one = out.emplace_back();
    one.proxy = key;
    one.generation = applied(stream);
    if (stream.settled) continue;
    for (XdsType type : kXdsTypes) {
      ProxyTypeState state = stream.session->state(type);
      if (state.state != SyncState::kStale) continue;
      one.refused = true;
      one.detail = std::move(state.nack_detail);
    }
  }
  return out;
}

void Hub::forget_returning(SteadyTime now) {
  if (std::erase_if(returning_,
                    [&](const auto& entry) { return now - entry.second >= kReturnBound; }) > 0)
    progressed_.notify(nullptr);
}

void Hub::report_behind(SteadyTime now) {
  std::size_t behind = 0;
  for (const auto& [id, stream] : streams_) {
    if (!stream.session || stream.settled) continue;
    behind += std::any_of(kXdsTypes.begin(), kXdsTypes.end(), [&](XdsType type) {
      const std::optional<SteadyTime> sent = stream.session->state(type).sent_at;
      return sent.has_value() && now - *sent > kBehind;
    });
  }
  deps_.runtime.metrics.set("osm_proxies_behind", {}, static_cast<double>(behind));
}

}  // namespace osm::inline v1::ads
