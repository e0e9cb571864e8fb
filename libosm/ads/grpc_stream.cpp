#include "ads/grpc_stream.hpp"

#include <grpcpp/support/slice.h>

#include <memory>
#include <utility>
#include <vector>

#include "ads/grpc_service.hpp"

namespace osm::inline v1::ads {
namespace {

// A certificate request has at most 16 kB.
constexpr std::size_t kMaxRequest = 32 * 1024;

// gRPC keeps room in a connection for as many slices as its largest message had (measured: 20 kB
// after one of 200 clusters). Below this size, copying is cheaper.
constexpr std::size_t kWorthSharing = 32 * 1024;

// A slice over bytes that `owner` keeps alive, without a copy.
template <class Owner>
grpc::Slice slice_of(const std::string& bytes, Owner owner) {
  return grpc::Slice(
      const_cast<char*>(bytes.data()), bytes.size(),
      [](void* holder) { delete static_cast<Owner*>(holder); }, new Owner(std::move(owner)));
}

grpc::Slice slice_of(std::string bytes) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  return slice_of(*owner, owner);
}

grpc::ByteBuffer to_buffer(const Response& response) {
  std::vector<grpc::Slice> slices;
  std::string copied = response_head(response);
  for (const EncodedPtr& resource : response.resources) {
    copied += resource_prefix(response.variant, *resource);
    if (resource->any.size() < kWorthSharing) {
      copied += resource->any;
      continue;
    }
    slices.push_back(slice_of(std::exchange(copied, {})));
    slices.push_back(slice_of(resource->any, resource));
  }
  if (!copied.empty()) slices.push_back(slice_of(std::move(copied)));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string to_string(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Dump(&slices).ok()) return bytes;
  bytes.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices)
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

}  // namespace

void GrpcStream::write(const Response& response) {
  outgoing_ = to_buffer(response);
  StartWrite(&outgoing_);
}

void GrpcStream::close(CloseCode code, const std::string& text, bool cut) {
  if (finished_.exchange(true)) return;
  if (cut) context_.TryCancel();  // Finish queues behind a write
  Finish(grpc::Status(static_cast<grpc::StatusCode>(code), text));
}

void GrpcStream::OnReadDone(bool ok) {
  if (!ok) return host_.on_closed(id_);
  host_.on_request(id_, to_string(std::exchange(incoming_, {})));
}

void GrpcStream::OnWriteDone(bool ok) {
  outgoing_.Clear();
  ok ? host_.on_write_done(id_) : host_.on_closed(id_);
}

void GrpcStream::OnDone() { service_.leave(id_); }

void GrpcCall::finish(CloseCode code, const std::string& text, const std::string& bytes) {
  if (finished_.exchange(true)) return;
  if (code != CloseCode::kOk) return Finish({static_cast<grpc::StatusCode>(code), text});
  const grpc::Slice slice(bytes);
  outgoing_ = grpc::ByteBuffer(&slice, 1);
  StartWriteAndFinish(&outgoing_, {}, grpc::Status::OK);
}

void GrpcCall::OnReadDone(bool ok) {
  if (!ok) return finish(CloseCode::kInvalidArgument, "no request came", {});
  if (incoming_.Length() > kMaxRequest)
    return finish(CloseCode::kInvalidArgument,
                  "the request has more than " + std::to_string(kMaxRequest) + " bytes", {});
  host_.on_call(std::move(peer_), to_string(std::exchange(incoming_, {})), shared_from_this());
}

void GrpcCall::OnDone() { service_.leave(id_); }

}  // namespace osm::inline v1::ads
