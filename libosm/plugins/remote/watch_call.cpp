#include "remote/watch_call.hpp"

#include <grpcpp/support/slice.h>

#include <utility>

namespace osm::inline v1::remote {
namespace {

constexpr const char* kMethod = "/openservicemesh.provider.v1.EndpointsProvider/Watch";

}  // namespace

std::shared_ptr<WatchCall> WatchCall::start(const std::shared_ptr<grpc::Channel>& channel,
                                            const std::string& request, WatchListener listener) {
  std::shared_ptr<WatchCall> call(new WatchCall(channel, std::move(listener)));
  const grpc::Slice slice(request);
  call->outgoing_ = grpc::ByteBuffer(&slice, 1);
  call->stub_.PrepareBidiStreamingCall(&call->context_, kMethod, {}, call.get());
  // Reads are started outside of gRPC's callbacks.
  call->AddHold();
  call->StartWriteLast(&call->outgoing_, grpc::WriteOptions());
  call->StartRead(&call->incoming_);
  call->StartCall();
  return call;
}

void WatchCall::read_next() {
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_ || !std::exchange(resting_, false)) return;
  }
  incoming_.Clear();
  StartRead(&incoming_);
}

void WatchCall::cancel() {
  bool release = false;
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    release = std::exchange(resting_, false);
  }
  context_.TryCancel();
  if (release) RemoveHold();
}

void WatchCall::wait_until_ended() {
  std::unique_lock lock(mutex_);
  ended_changed_.wait(lock, [this] { return ended_; });
}

void WatchCall::OnReadDone(bool ok) {
  {
    const std::lock_guard lock(mutex_);
    ok = ok && !cancelled_;
    resting_ = ok;
  }
  if (ok) return listener_.on_message(incoming_);
  RemoveHold();
}

void WatchCall::OnDone(const grpc::Status& status) {
  listener_.on_end(status);
  const std::lock_guard lock(mutex_);
  ended_ = true;
  ended_changed_.notify_all();
}

}  // namespace osm::inline v1::remote
