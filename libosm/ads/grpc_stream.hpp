// One gRPC stream: copies bytes between gRPC's threads and the strand. It takes no decisions.
//
// Only the strand starts operations (after Strand::stop(), only its caller), and gRPC calls
// OnDone() only after finish(). So no operation can start on a destroyed call.
#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "ads/class_table.hpp"
#include "ads/proxy_stream.hpp"

namespace osm::inline v1::ads {

// Called on gRPC's threads; the callbacks post to the strand.
struct GrpcStreamEvents {
  std::function<void(StreamId, std::string bytes)> on_request;
  std::function<void(StreamId)> on_write_done;
  std::function<void(StreamId)> on_closed;
  std::function<void(StreamId)> on_done;  // the last call: the stream no longer exists for gRPC
};

std::string to_string(const grpc::ByteBuffer& buffer);

class GrpcStream final : public grpc::ServerGenericBidiReactor, public ProxyStream {
 public:
  GrpcStream(StreamId id, XdsVariant variant, grpc::GenericCallbackServerContext& context,
             const GrpcStreamEvents& events)
      : ProxyStream(variant), id_(id), context_(context), events_(events) {}

  void read_next() override { StartRead(&incoming_); }
  void write(const Response& response) override;
  void close(CloseCode code, const std::string& text, bool cut) override;

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override { events_.on_closed(id_); }
  void OnDone() override { events_.on_done(id_); }

  const StreamId id_;
  grpc::GenericCallbackServerContext& context_;
  const GrpcStreamEvents& events_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  std::atomic<bool> finished_ = false;
};

}  // namespace osm::inline v1::ads
