#include "ads/grpc_stream.hpp"

#include <grpcpp/support/slice.h>

#include <utility>
#include <vector>

namespace osm::ads {
namespace {

// A slice over the resource's own bytes, which it keeps alive: nothing is copied per proxy.
grpc::Slice shared_slice(const EncodedPtr& resource) {
  return grpc::Slice(
      const_cast<char*>(resource->any.data()), resource->any.size(),
      [](void* holder) { delete static_cast<EncodedPtr*>(holder); }, new EncodedPtr(resource));
}

grpc::ByteBuffer to_buffer(const Response& response) {
  std::vector<grpc::Slice> slices;
  slices.reserve(1 + 2 * response.resources.size());
  slices.emplace_back(response_head(response));
  for (const EncodedPtr& resource : response.resources) {
    slices.emplace_back(resource_prefix(*resource));
    slices.push_back(shared_slice(resource));
  }
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
  if (!ok) return events_.on_closed(id_);
  events_.on_request(id_, to_string(std::exchange(incoming_, {})));
}

void GrpcStream::OnWriteDone(bool ok) {
  outgoing_.Clear();
  ok ? events_.on_write_done(id_) : events_.on_closed(id_);
}

}  // namespace osm::ads
