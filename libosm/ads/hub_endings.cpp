// The ends of streams; members of Hub.
#include <algorithm>
#include <utility>

#include "ads/hub.hpp"

namespace osm::inline v1::ads {
namespace {

// For a recall: longer than it takes 10,000 proxies to shake hands again.
constexpr std::chrono::seconds kRecallWindow{30};
// For a change that empties the configuration of many, as the end of the permissive mode does.
constexpr std::chrono::seconds kEmptiedWindow{5};
// For streams that go to another replica: less than StreamBalance::kRound, so that the next round
// counts them there.
constexpr std::chrono::seconds kRebalanceWindow{5};

}  // namespace

void Hub::on_closed(StreamId id) {
  if (streams_.find(id))
    return close(id, CloseCode::kCancelled, "hung-up: the proxy ended the stream");
  end(id);
}

void Hub::close(StreamId id, CloseCode code, const std::string& text, bool cut) {
  Stream* found = streams_.find(id);
  if (!found) return;
  Stream& stream = *found;
  report_end(stream, code, text);
  const std::shared_ptr<ProxyStream> transport = stream.transport;
  const bool after_write = stream.write_started && !cut;
  if (after_write)
    ending_[id] = {transport, code, text, *stream.write_started,
                   std::exchange(stream.write_bytes, 0)};
  forget(id);
  if (!after_write) transport->close(code, text, cut);
  pump();
}

// Called when the write before the status is done, or has taken too long.
void Hub::end(StreamId id, bool cut) {
  const auto node = ending_.extract(id);
  if (node.empty()) return;
  const Ending& ending = node.mapped();
  queue_.finished(ending.write_bytes);
  ending.transport->close(ending.code, ending.text, cut);
  pump();
}

void Hub::forget(StreamId id) {
  using Place = StreamTable::Removed::Place;
  const auto [place, stream, successor] = streams_.remove(id);
  const model::ProxyKey key = stream.key();
  pacer_.forget(stream.id);
  note_drained();
  forget_trial(stream.id);
  queue_.remove(stream.id);
  queue_.finished(stream.write_bytes);
  if (place == Place::kUnserved) return;
  memory_.left(key, stream.session->doubts(), deps_.runtime.clock.steady_now());
  classes_.leave(stream.proxy_class, stream.id);
  if (place == Place::kBeside) return;
  if (successor) return promote(*successor);
  replica_streams_.closed(key);
  note_disconnected(key);
  progressed_.notify(&key);
  deps_.registry.unregister_proxy(key.id);
  note_serving();
}

void Hub::stop_builds() {
  classes_.stop_builds();
  aside_.close();
}

void Hub::close_all(CloseCode code, const std::string& text) {
  while (!streams_.empty()) close(streams_.begin()->first, code, text);
  while (!ending_.empty()) end(ending_.begin()->first);  // the caller's wait has a deadline
}

// --- paced ends ---

void Hub::end_paced(StreamId id, const std::string& text) {
  const Stream* stream = streams_.find(id);
  if (stream && stream->session && stream->session->emptied())
    returning_[stream->key()] = deps_.runtime.clock.steady_now();
  close(id, CloseCode::kUnavailable, text);
}

void Hub::end_emptied(const Stream& stream) {
  pacer_.add(stream.id,
             "emptied: nothing of a kind is left for this proxy; reconnect to be told so",
             kEmptiedWindow);
}

void Hub::recall(const std::string& issuer_key_id) {
  std::vector<StreamId> served;
  for (const auto& [id, stream] : streams_)
    if (stream.session) served.push_back(id);
  for (const StreamId id : served)
    if (const Stream* stream = streams_.find(id);
        stream && stream->peer.issuer_key_id != issuer_key_id)
      pacer_.add(id,
                 "recalled: its proxy certificate is of a root that is being replaced; reconnect "
                 "with a newer one",
                 kRecallWindow);
}

// Begins at a random proxy, so that it is not always the same ones that reconnect.
void Hub::rebalance(SteadyTime now) {
  const bool takes_streams = !draining_ && admits().ok();
  std::size_t left =
      balance_.tick(now, takes_streams ? std::optional(streams_.serving().size()) : std::nullopt);
  if (left == 0) return;
  std::vector<StreamId> ids;
  for (const auto& [key, id] : streams_.serving()) ids.push_back(id);
  std::ranges::rotate(
      ids, ids.begin() + static_cast<std::ptrdiff_t>(deps_.runtime.rng.next() % ids.size()));
  for (const StreamId id : ids) {
    const Stream* stream = streams_.find(id);
    // A stream on trial is not settled. The streams of a gRPC library's process cannot go together.
    if (!stream || !stream->settled || streams_.is_library(*stream)) continue;
    pacer_.add(id, "rebalanced: other replicas have fewer proxies; reconnect", kRebalanceWindow);
    if (--left == 0) return;
  }
}

void Hub::drain(std::chrono::nanoseconds window, std::function<void()> done) {
  draining_ = true;
  drained_ = std::move(done);
  std::vector<StreamId> all;
  for (const auto& [id, stream] : streams_) all.push_back(id);
  for (StreamId id : all) pacer_.add(id, kShuttingDown, window);
  note_drained();
}

void Hub::note_drained() {
  if (streams_.empty() && drained_) std::exchange(drained_, nullptr)();
}

}  // namespace osm::inline v1::ads
