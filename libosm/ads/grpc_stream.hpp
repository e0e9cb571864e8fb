// One gRPC stream: copies bytes between gRPC's threads and the strand. It takes no decisions.
//
// Only the strand starts operations (after Strand::stop(), only its caller), and gRPC calls
// OnDone() only after finish(). So no operation can start on a destroyed call.
#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include <atomic>
#include <string>

#include "ads/stream_host.hpp"

namespace osm::inline v1::ads {

class GrpcService;

std::string to_string(const grpc::ByteBuffer& buffer);

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

}  // namespace osm::inline v1::ads
