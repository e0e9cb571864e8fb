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
  const bool counted_as_library = streams_.is_library(stream);
  streams_.set_kind(stream, grpc ? Stream::Kind::kLibrary : Stream::Kind::kEnvoy);
  if (grpc != counted_as_library) {
    stream.session->set_resources({});  // those of the other kind
    classify(stream);
  }
  if (!grpc) take_over(stream);
}

// An Envoy is alone with its certificate, as ever.
void Hub::take_over(Stream& stream) {
  const model::ProxyKey key = stream.key();
  if (streams_.serving(key) == &stream) return;
  admission_.supersede(stream);
  streams_.serve(stream);
  replica_streams_.opened(key, std::string(peer_host(stream.peer.address)));
  deps_.registry.register_proxy(view(stream).proxy);
  progressed_.notify(&key);
  admission_.note_serving();
}

// The stream took the place of another of the same certificate, which ended.
void Hub::promote(const Stream& stream) {
  const model::ProxyKey key = stream.key();
  deps_.registry.unregister_proxy(key.id);
  deps_.registry.register_proxy(view(stream).proxy);
  progressed_.notify(&key);
}

}  // namespace osm::inline v1::ads
