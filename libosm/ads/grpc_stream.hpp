// gRPC's reactors for one stream and for one unary call: they copy bytes between gRPC's threads and
// the strand, and take no decisions.
#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "ads/stream_host.hpp"

namespace osm::inline v1::ads {

class GrpcService;

// Only the strand starts operations (after Strand::stop(), only its caller), and gRPC calls
// OnDone() only after close(). So no operation can start on a destroyed stream.
class GrpcStream final : public grpc::ServerGenericBidiReactor, public ProxyStream {
 public:
  GrpcStream(StreamId id, XdsVariant variant, grpc::GenericCallbackServerContext& context,
             StreamHost& host, GrpcService& service)
      : ProxyStream(variant), id_(id), context_(context), host_(host), service_(service) {}

  void read_next() override { StartRead(&incoming_); }
  void write(const Response& response) override;
  void close(CloseCode code, const std::string& text, bool cut) override;

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override { host_.on_closed(id_); }
  void OnDone() override;

  const StreamId id_;
  grpc::GenericCallbackServerContext& context_;
  StreamHost& host_;
  GrpcService& service_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  std::atomic<bool> finished_ = false;
};

// One unary call: reads one request and sends one answer.
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
