// The methods of the ADS server, as one generic service: authenticated streams of
// StreamAggregatedResources and DeltaAggregatedResources and calls of one unary method go to the
// strand, every other method is UNIMPLEMENTED.
#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "ads/grpc_call.hpp"
#include "ads/grpc_stream.hpp"
#include "ads/peer.hpp"

namespace osm::inline v1::ads {

// A proxy has one stream, and another while that ends. Streams and calls that are opened and reset
// faster than they are let go of (HTTP/2 rapid reset) count until then, which HTTP/2's own limit
// does not.
inline constexpr std::size_t kMaxStreamsPerCertificate = 16;

class GrpcService final : public grpc::CallbackGenericService {
 public:
  using OnOpen = std::function<void(StreamId, PeerCertificate, std::shared_ptr<ProxyStream>)>;

  // The one unary method; no path: there is none.
  struct UnaryMethod {
    std::string path;
    decltype(GrpcCallEvents::on_request) on_request;
  };

  // `on_open` and `on_request` are called on gRPC's threads; `events.on_done` is the service's own.
  GrpcService(OnOpen on_open, GrpcStreamEvents events, UnaryMethod unary);

  // Ends every stream and call, and refuses new ones. Only when nobody else uses the streams any
  // more.
  void close_all(CloseCode code, const std::string& text);
  // Waits until gRPC has let go of all of them. Result: false when `timeout` passed first.
  bool wait_until_empty(std::chrono::milliseconds timeout);

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

  struct Open {
    std::shared_ptr<GrpcStream> stream;  // or
    std::shared_ptr<GrpcCall> call;
    std::string holder;  // the certificate's identity
  };

  void leave(StreamId id);

  OnOpen on_open_;
  GrpcStreamEvents events_;
  const UnaryMethod unary_;
  std::mutex mutex_;
  std::condition_variable stream_gone_;
  bool closed_ = false;
  StreamId last_id_ = 0;
  std::map<StreamId, Open> open_;
  std::map<std::string, std::size_t> held_;  // how many of them by holder
};

}  // namespace osm::inline v1::ads
