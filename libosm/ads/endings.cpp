#include "ads/endings.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace osm::inline v1::ads {
namespace {

constexpr Counter kStreamsStalled{"osm_streams_stalled_total",
                                  "Streams cut because the proxy did not read"};

constexpr std::chrono::seconds kStalledWrite{30};  // a longer write cuts its stream
// Time to wait for a proxy that was told to reconnect: Envoy tries every two seconds at most.
constexpr std::chrono::seconds kReturnBound{10};

// For a recall: longer than it takes 10,000 proxies to shake hands again.
constexpr std::chrono::seconds kRecallWindow{30};
// For a change that empties the configuration of many, as the end of the permissive mode does.
constexpr std::chrono::seconds kEmptiedWindow{5};
// For streams that go to another replica: less than StreamBalance::kRound, so that the next round
// counts them there.
constexpr std::chrono::seconds kRebalanceWindow{5};

}  // namespace

void Endings::close(StreamId id, CloseCode code, const std::string& text, bool cut) {
  Stream* found = deps_.streams.find(id);
  if (!found) return;
  Stream& stream = *found;
  deps_.report(stream, code, text);
  const std::shared_ptr<ProxyStream> transport = stream.transport;
  const bool after_write = stream.write_started && !cut;
  if (after_write)
    ending_[id] = {transport, code, text, *stream.write_started,
                   std::exchange(stream.write_bytes, 0)};
  deps_.forget(id);
  pacer_.forget(id);
  note_drained();
  if (!after_write) transport->close(code, text, cut);
  deps_.pump();
}

// Called when the write before the status is done, or has taken too long.
void Endings::end(StreamId id, bool cut) {
  const auto node = ending_.extract(id);
  if (node.empty()) return;
  const Ending& ending = node.mapped();
  deps_.queue.finished(ending.write_bytes);
  ending.transport->close(ending.code, ending.text, cut);
  deps_.pump();
}

void Endings::close_all(CloseCode code, const std::string& text) {
  while (!deps_.streams.empty()) close(deps_.streams.begin()->first, code, text);
  while (!ending_.empty()) end(ending_.begin()->first, false);  // the caller's wait has a deadline
}

void Endings::cut_stalled(SteadyTime now) {
  const SteadyTime limit = now - kStalledWrite;
  std::vector<StreamId> open;
  std::vector<StreamId> ending;
  for (const auto& [id, stream] : deps_.streams)
    if (stream.write_started && *stream.write_started <= limit) open.push_back(id);
  for (const auto& [id, stream] : ending_)
    if (stream.write_started <= limit) ending.push_back(id);
  deps_.runtime.metrics.add(kStreamsStalled, {}, open.size() + ending.size());
  for (StreamId id : open)
    close(id, CloseCode::kUnavailable, "stalled: the proxy does not read what it is sent", true);
  for (StreamId id : ending) end(id, true);
}

// --- paced ends ---

void Endings::end_paced(StreamId id, const std::string& text) {
  const Stream* stream = deps_.streams.find(id);
  if (stream && stream->session && stream->session->emptied())
    returning_[stream->key()] = deps_.runtime.clock.steady_now();
  close(id, CloseCode::kUnavailable, text);
}

void Endings::end_emptied(const Stream& stream) {
  pacer_.add(stream.id,
             "emptied: nothing of a kind is left for this proxy; reconnect to be told so",
             kEmptiedWindow);
}

void Endings::recall(const std::string& issuer_key_id) {
  std::vector<StreamId> served;
  for (const auto& [id, stream] : deps_.streams)
    if (stream.session) served.push_back(id);
  for (const StreamId id : served)
    if (const Stream* stream = deps_.streams.find(id);
        stream && stream->peer.issuer_key_id != issuer_key_id)
      pacer_.add(id,
                 "recalled: its proxy certificate is of a root that is being replaced; reconnect "
                 "with a newer one",
                 kRecallWindow);
}

// Begins at a random proxy, so that it is not always the same ones that reconnect.
void Endings::rebalance(SteadyTime now) {
  const bool takes_streams = !draining_ && deps_.admits().ok();
  std::size_t left = balance_.tick(
      now, takes_streams ? std::optional(deps_.streams.serving().size()) : std::nullopt);
  if (left == 0) return;
  std::vector<StreamId> ids;
  for (const auto& [key, id] : deps_.streams.serving()) ids.push_back(id);
  std::ranges::rotate(
      ids, ids.begin() + static_cast<std::ptrdiff_t>(deps_.runtime.rng.next() % ids.size()));
  for (const StreamId id : ids) {
    const Stream* stream = deps_.streams.find(id);
    // A stream on trial is not settled. The streams of a gRPC library's process cannot go together.
    if (!stream || !stream->settled || deps_.streams.is_library(*stream)) continue;
    pacer_.add(id, "rebalanced: other replicas have fewer proxies; reconnect", kRebalanceWindow);
    if (--left == 0) return;
  }
}

void Endings::drain(std::chrono::nanoseconds window, std::function<void()> done) {
  draining_ = true;
  drained_ = std::move(done);
  std::vector<StreamId> all;
  for (const auto& [id, stream] : deps_.streams) all.push_back(id);
  for (StreamId id : all) pacer_.add(id, kShuttingDown, window);
  note_drained();
}

void Endings::note_drained() {
  if (deps_.streams.empty() && drained_) std::exchange(drained_, nullptr)();
}

bool Endings::forget_returning(SteadyTime now) {
  return std::erase_if(returning_,
                       [&](const auto& entry) { return now - entry.second >= kReturnBound; }) > 0;
}

}  // namespace osm::inline v1::ads
