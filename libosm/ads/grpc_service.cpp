#include "ads/grpc_service.hpp"

#include <grpc/grpc_security_constants.h>

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace osm::inline v1::ads {
namespace {

// The xDS variant of a method; none: the method is not served.
std::optional<XdsVariant> variant_of(std::string_view method) {
  constexpr std::string_view kService = "/envoy.service.discovery.v3.AggregatedDiscoveryService/";
  if (!method.starts_with(kService)) return std::nullopt;
  method.remove_prefix(kService.size());
  if (method == "StreamAggregatedResources") return XdsVariant::kSotw;
  if (method == "DeltaAggregatedResources") return XdsVariant::kDelta;
  return std::nullopt;
}

// Refuses a call at its start.
class RefusedCall final : public grpc::ServerGenericBidiReactor {
 public:
  RefusedCall(grpc::StatusCode code, const std::string& text) { Finish(grpc::Status(code, text)); }
  void OnDone() override { delete this; }
};

std::string first(const std::vector<grpc::string_ref>& values) {
  return values.empty() ? std::string() : std::string(values.front().data(), values.front().size());
}

PeerCertificate certificate_of(const grpc::GenericCallbackServerContext& context) {
  const auto authenticated = context.auth_context();
  PeerCertificate certificate;
  for (const grpc::string_ref& uri : authenticated->FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME))
    certificate.uris.emplace_back(uri.data(), uri.size());
  certificate.common_name = first(authenticated->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME));
  certificate.pem = first(authenticated->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME));
  certificate.address = context.peer();
  return certificate;
}

}  // namespace

void GrpcService::leave(StreamId id) {
  Open last;  // destroyed after the lock is released
  std::lock_guard lock(mutex_);
  auto at = open_.find(id);
  if (at == open_.end()) return;
  last = std::move(at->second);
  if (auto held = held_.find(last.holder); --held->second == 0) held_.erase(held);
  open_.erase(at);
  stream_gone_.notify_all();
}

grpc::ServerGenericBidiReactor* GrpcService::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  // The handshake refuses peers without a certificate; this check is a second line of defence.
  if (!context->auth_context() || !context->auth_context()->IsPeerAuthenticated())
    return new RefusedCall(grpc::StatusCode::UNAUTHENTICATED, "a client certificate is required");
  const std::optional<XdsVariant> variant = variant_of(context->method());
  const bool unary = !unary_method_.empty() && context->method() == unary_method_;
  if (!variant && !unary)
    return new RefusedCall(grpc::StatusCode::UNIMPLEMENTED, context->method() + " is not served");
  PeerCertificate peer = certificate_of(*context);
  Open opened{.stream = {}, .call = {}, .holder = peer.uris.empty() ? "" : peer.uris.front()};
  StreamId id = 0;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return new RefusedCall(grpc::StatusCode::UNAVAILABLE, "shutting-down");
    if (auto held = held_.find(opened.holder);
        held != held_.end() && held->second >= kMaxStreamsPerCertificate)
      return new RefusedCall(grpc::StatusCode::RESOURCE_EXHAUSTED,
                             "too many streams of one certificate at once");
    ++held_[opened.holder];
    id = ++last_id_;
    if (unary)
      opened.call = std::make_shared<GrpcCall>(id, peer, host_, *this);
    else
      opened.stream = std::make_shared<GrpcStream>(id, *variant, *context, host_, *this);
    open_[id] = opened;
  }
  if (opened.call) {
    opened.call->start();
    return opened.call.get();
  }
  host_.open(id, std::move(peer), opened.stream);
  return opened.stream.get();
}

void GrpcService::close_all(CloseCode code, const std::string& text) {
  std::map<StreamId, Open> all;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    all = open_;
  }
  for (const auto& [id, open] : all) {
    if (open.stream) open.stream->close(code, text, false);
    if (open.call) open.call->finish(code, text, {});
  }
}

bool GrpcService::wait_until_empty(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return stream_gone_.wait_for(lock, timeout, [this] { return open_.empty(); });
}

}  // namespace osm::inline v1::ads
