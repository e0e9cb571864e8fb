// One unary gRPC call: reads one request and sends one answer.
#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "ads/peer.hpp"
#include "ads/unary_call.hpp"

namespace osm::inline v1::ads {

// Called on gRPC's threads; must not block.
struct GrpcCallEvents {
  std::function<void(PeerCertificate, std::string bytes, std::shared_ptr<UnaryCall>)> on_request;
  std::function<void()> on_done;  // the last call: gRPC has released the call object
};

class GrpcCall final : public grpc::ServerGenericBidiReactor,
                       public UnaryCall,
                       public std::enable_shared_from_this<GrpcCall> {
 public:
  GrpcCall(PeerCertificate peer, GrpcCallEvents events)
      : peer_(std::move(peer)), events_(std::move(events)) {}

  void start() { StartRead(&incoming_); }
  void finish(CloseCode code, const std::string& text, const std::string& bytes) override;

 private:
  void OnReadDone(bool ok) override;
  void OnCancel() override { finish(CloseCode::kCancelled, "the caller left", {}); }
  void OnDone() override {
    const auto self = shared_from_this();  // the callback may release the last other reference
    events_.on_done();
  }

  PeerCertificate peer_;
  const GrpcCallEvents events_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  std::atomic<bool> finished_ = false;
};

}  // namespace osm::inline v1::ads
