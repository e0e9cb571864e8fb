// Streams of gRPC libraries; members of Hub. A process has a stream for each channel and one for
// its server, all with the machine's certificate. The first is the proxy's as an Envoy's would be,
// the others are beside it (docs/adr/0065).
#include <utility>

#include "ads/hub.hpp"

namespace osm::inline v1::ads {
namespace {

constexpr std::string_view kLibraryAgent = "gRPC ";  // "gRPC Go", "gRPC C-core", "gRPC Java"

}  // namespace

// Needs no trust: it selects the form of what the certificate's own identity gets.
void Hub::note_kind(Stream& stream, const std::string& first_request) {
  const std::string_view agent = user_agent_name(stream.transport->variant(), first_request);
  const bool grpc = agent.starts_with(kLibraryAgent);
  if (grpc)
    libraries_.insert(stream.key());
  else
    libraries_.erase(stream.key());
  const bool counted_as_library = is_library(stream);
  stream.kind = grpc ? Kind::kLibrary : Kind::kEnvoy;
  if (grpc != counted_as_library) {
    stream.session->set_resources({});  // those of the other kind
    classify(stream);
  }
  if (!grpc) take_over(stream);
}

// An unheard stream counts as its proxy's last stream did when it was admitted.
bool Hub::is_library(const Stream& stream) const {
  if (stream.kind != Kind::kUnheard) return stream.kind == Kind::kLibrary;
  return stream.proxy_class ? stream.proxy_class->proxy_class().grpc
                            : libraries_.contains(stream.key());
}

// From another address the newer one supersedes them all, as an Envoy's would: a stolen key is not
// used beside its owner unnoticed.
bool Hub::stands_beside(const Stream& stream) const {
  const StreamId* const id = find_in(serving_, stream.key());
  if (id == nullptr) return false;
  const Stream& older = streams_.at(*id);
  return is_library(older) && peer_host(older.peer.address) == peer_host(stream.peer.address);
}

// An Envoy is alone with its certificate, as ever.
void Hub::take_over(Stream& stream) {
  const model::ProxyKey key = stream.key();
  if (serving_.at(key) == stream.id) return;
  remove_member(beside_, key, stream.id);
  supersede(stream);
  serving_[key] = stream.id;
  replica_streams_.opened(key, std::string(peer_host(stream.peer.address)));
  deps_.registry.register_proxy(view(stream).proxy);
  progressed_.notify(&key);
  note_serving();
}

// The stream in serving_ ended: another of the same certificate takes its place. Result: false if
// there is none.
bool Hub::promote(const model::ProxyKey& key) {
  const std::set<StreamId>* const others = find_in(beside_, key);
  if (others == nullptr || others->empty()) return false;
  const StreamId id = *others->begin();
  serving_[key] = id;
  remove_member(beside_, key, id);
  deps_.registry.unregister_proxy(key.id);
  deps_.registry.register_proxy(view(streams_.at(id)).proxy);
  progressed_.notify(&key);
  return true;
}

// The streams that are served with the certificate, that of serving_ first.
std::vector<StreamId> Hub::streams_of(const model::ProxyKey& key) const {
  std::vector<StreamId> ids;
  if (const StreamId* serving = find_in(serving_, key)) ids.push_back(*serving);
  if (const std::set<StreamId>* beside = find_in(beside_, key))
    ids.insert(ids.end(), beside->begin(), beside->end());
  return ids;
}

}  // namespace osm::inline v1::ads
