#include "ads/stream_table.hpp"

#include <utility>

#include "base/check.hpp"

namespace osm::inline v1::ads {

Stream& StreamTable::add(StreamId id, Peer peer, std::shared_ptr<ProxyStream> transport) {
  Stream& stream = streams_[id];
  stream.id = id;
  stream.peer = std::move(peer);
  stream.transport = std::move(transport);
  return stream;
}

StreamTable::Removed StreamTable::remove(StreamId id) {
  Removed removed{.stream = std::move(streams_.extract(id).mapped())};
  const model::ProxyKey key = removed.stream.key();
  remove_member(waiting_, key, id);
  if (!removed.stream.workload) return removed;
  set_workload(removed.stream, nullptr);
  if (serving_.at(key) != id) {
    removed.place = Removed::Place::kBeside;
    remove_member(beside_, key, id);
    return removed;
  }
  removed.place = Removed::Place::kServing;
  const std::set<StreamId>* const others = find_in(beside_, key);
  if (!others) {
    serving_.erase(key);
    return removed;
  }
  const StreamId next = *others->begin();
  serving_[key] = next;
  remove_member(beside_, key, next);
  removed.successor = &streams_.at(next);
  return removed;
}

std::set<StreamId> StreamTable::wait(const Stream& stream) {
  std::set<StreamId> older = waiting(stream.key());
  waiting_[stream.key()].insert(stream.id);
  return older;
}

std::set<StreamId> StreamTable::waiting(const model::ProxyKey& key) const {
  const std::set<StreamId>* const ids = find_in(waiting_, key);
  return ids ? *ids : std::set<StreamId>();
}

std::vector<StreamId> StreamTable::supersede(const Stream& newer) {
  if (stands_beside(newer)) return {};
  remove_member(beside_, newer.key(), newer.id);
  return served(newer.key());
}

bool StreamTable::serve(const Stream& stream) {
  const model::ProxyKey key = stream.key();
  remove_member(waiting_, key, stream.id);
  if (stands_beside(stream)) {
    beside_[key].insert(stream.id);
    return false;
  }
  OSM_CHECK(serving_.emplace(key, stream.id).second);
  return true;
}

// An Envoy is alone with its certificate. From another address the newer stream supersedes them
// all, as an Envoy's would: a stolen key is not used beside its owner unnoticed.
bool StreamTable::stands_beside(const Stream& stream) const {
  const Stream* const older = serving(stream.key());
  return older && stream.kind != Stream::Kind::kEnvoy && is_library(*older) &&
         peer_host(older->peer.address) == peer_host(stream.peer.address);
}

Stream* StreamTable::serving(const model::ProxyKey& key) {
  const StreamId* const id = find_in(serving_, key);
  return id ? &streams_.at(*id) : nullptr;
}

const Stream* StreamTable::serving(const model::ProxyKey& key) const {
  const StreamId* const id = find_in(serving_, key);
  return id ? &streams_.at(*id) : nullptr;
}

std::vector<StreamId> StreamTable::served(const model::ProxyKey& key) const {
  std::vector<StreamId> ids;
  if (const StreamId* serving = find_in(serving_, key)) ids.push_back(*serving);
  if (const std::set<StreamId>* beside = find_in(beside_, key))
    ids.insert(ids.end(), beside->begin(), beside->end());
  return ids;
}

std::set<model::ProxyKey> StreamTable::proxies() const {
  std::set<model::ProxyKey> keys;
  for (const auto& [key, id] : serving_) keys.insert(key);
  for (const auto& [key, ids] : waiting_) keys.insert(key);
  return keys;
}

void StreamTable::set_workload(Stream& stream,
                               std::shared_ptr<const model::WorkloadEntry> workload) {
  if (stream.workload)
    for (const ServiceName& service : stream.workload->workload.services)
      remove_member(selected_by_, service, stream.id);
  stream.workload = std::move(workload);
  if (stream.workload)
    for (const ServiceName& service : stream.workload->workload.services)
      selected_by_[service].insert(stream.id);
}

void StreamTable::set_kind(Stream& stream, Stream::Kind kind) {
  stream.kind = kind;
  if (kind == Stream::Kind::kLibrary)
    libraries_.insert(stream.key());
  else
    libraries_.erase(stream.key());
}

bool StreamTable::is_library(const Stream& stream) const {
  if (stream.kind != Stream::Kind::kUnheard) return stream.kind == Stream::Kind::kLibrary;
  return stream.proxy_class ? stream.proxy_class->proxy_class().grpc
                            : libraries_.contains(stream.key());
}

}  // namespace osm::inline v1::ads
