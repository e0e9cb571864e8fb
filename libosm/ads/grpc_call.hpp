// One unary gRPC call: reads one request and sends one answer.
#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "ads/stream_host.hpp"

namespace osm::inline v1::ads {

class GrpcService;

class GrpcCall final : public grpc::ServerGenericBidiReactor,
                       public UnaryCall,
                       public std::enable_shared_from_this<GrpcCall> {
 public:
  GrpcCall(StreamId id, PeerCertificate peer, StreamHost& host, GrpcService& service)
      : id_(id), peer_(std::move(peer)), host_(host), service_(service) {}

  void start() { StartRead(&incoming_); }
  void finish(CloseCode code, const std::string& text, const std::string& bytes) override;

 private:
  void OnReadDone(bool ok) override;
  void OnCancel() override { finish(CloseCode::kCancelled, "the caller left", {}); }
  void OnDone() override;

  const StreamId id_;
  PeerCertificate peer_;
  StreamHost& host_;
  GrpcService& service_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  std::atomic<bool> finished_ = false;
};

}  // namespace osm::inline v1::ads
