// One call of Watch: moves bytes between gRPC's threads and its listener, and takes no decisions.
// One message is on its way at a time: the next is read when the listener asks for it, so that a
// fast provider fills no memory here.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/client_callback.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace osm::inline v1::remote {

// Called on gRPC's threads, one at a time; `on_end` last. They must not block.
struct WatchListener {
  std::function<void(const grpc::ByteBuffer& message)> on_message;
  std::function<void(const grpc::Status& status)> on_end;
};

class WatchCall final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // Starts the call. Lifetime: the caller keeps it until wait_until_ended() has returned. It must
  // not be destroyed on one of gRPC's threads: with it goes the channel, and with the last channel
  // the completion queue that such a thread waits on. Thread: any. Blocking: no.
  static std::shared_ptr<WatchCall> start(const std::shared_ptr<grpc::Channel>& channel,
                                          const std::string& request, WatchListener listener);

  // Reads the next message. Precondition: the last one has been taken. Thread: any. Blocking: no.
  void read_next();
  // Ends the call: on_end follows soon. Thread: any. Blocking: no.
  void cancel();
  // Waits until on_end() has returned and gRPC uses the call no more. Precondition: cancel(), or
  // on_end() has been called.
  void wait_until_ended();

 private:
  WatchCall(const std::shared_ptr<grpc::Channel>& channel, WatchListener listener)
      : stub_(channel), listener_(std::move(listener)) {}

  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  grpc::GenericStub stub_;
  const WatchListener listener_;
  grpc::ClientContext context_;
  grpc::ByteBuffer outgoing_;
  grpc::ByteBuffer incoming_;

  std::mutex mutex_;  // over the rest
  std::condition_variable ended_changed_;
  bool resting_ = false;    // no read runs: a hold keeps the call alive
  bool cancelled_ = false;  // reads no more
  bool ended_ = false;
};

}  // namespace osm::inline v1::remote
