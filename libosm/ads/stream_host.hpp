// Receives the streams and calls of a transport: gRPC in production, memory in tests.
#pragma once

#include <memory>
#include <string>

#include "ads/class_table.hpp"
#include "ads/peer.hpp"
#include "ads/proxy_stream.hpp"

namespace osm::inline v1::ads {

// The transport chooses ids and never uses one twice. Thread: any. Blocking: no.
class StreamHost {
 public:
  virtual ~StreamHost() = default;

  // Opens a stream of an authenticated peer. `stream` is then used on the host's strand only.
  virtual void open(StreamId id, PeerCertificate peer, std::shared_ptr<ProxyStream> stream) = 0;
  virtual void on_request(StreamId id, std::string bytes) = 0;
  virtual void on_write_done(StreamId id) = 0;
  virtual void on_closed(StreamId id) = 0;  // the peer is gone

  // A call of `method`, which the host serves, by an authenticated peer, with its request.
  virtual void on_call(const std::string& method, PeerCertificate peer, std::string bytes,
                       std::shared_ptr<UnaryCall> call) = 0;
};

}  // namespace osm::inline v1::ads
