#include "ads/grpc_call.hpp"

#include <grpcpp/support/slice.h>

#include <utility>

#include "ads/grpc_service.hpp"

namespace osm::inline v1::ads {
namespace {

// A certificate request has at most 16 kB.
constexpr std::size_t kMaxRequest = 32 * 1024;

}  // namespace

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
