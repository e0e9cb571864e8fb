#include "ads/grpc_service.hpp"

#include <grpc/grpc_security_constants.h>

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace osm::inline v1::ads {
namespace {

// Which variant of xDS a method speaks; none: it is not served.
std::optional<XdsVariant> variant_of(std::string_view method) {
  constexpr std::string_view kService = "/envoy.service.discovery.v3.AggregatedDiscoveryService/";
  if (!method.starts_with(kService)) return std::nullopt;
  method.remove_prefix(kService.size());
  if (method == "StreamAggregatedResources") return XdsVariant::kSotw;
  if (method == "DeltaAggregatedResources") return XdsVariant::kDelta;
  return std::nullopt;
}

// A call that is over before it began.
class Refusal final : public grpc::ServerGenericBidiReactor {
 public:
  Refusal(grpc::StatusCode code, const std::string& text) { Finish(grpc::Status(code, text)); }
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

GrpcService::GrpcService(OnOpen on_open, GrpcStreamEvents events)
    : on_open_(std::move(on_open)), events_(std::move(events)) {
  events_.on_done = [this](StreamId id) {
    std::shared_ptr<GrpcStream> last;  // destroyed after the lock is released
    std::lock_guard lock(mutex_);
    if (auto at = streams_.find(id); at != streams_.end()) {
      last = std::move(at->second.stream);
      if (auto held = held_.find(at->second.holder); --held->second == 0) held_.erase(held);
      streams_.erase(at);
      stream_gone_.notify_all();
    }
  };
}

grpc::ServerGenericBidiReactor* GrpcService::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  // The handshake refuses peers without a certificate; this holds if it ever does not.
  if (!context->auth_context() || !context->auth_context()->IsPeerAuthenticated())
    return new Refusal(grpc::StatusCode::UNAUTHENTICATED, "a client certificate is required");
  const std::optional<XdsVariant> variant = variant_of(context->method());
  if (!variant)
    return new Refusal(grpc::StatusCode::UNIMPLEMENTED, context->method() + " is not served");
  PeerCertificate peer = certificate_of(*context);
  const std::string holder = peer.uris.empty() ? "" : peer.uris.front();
  std::shared_ptr<GrpcStream> stream;
  StreamId id = 0;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return new Refusal(grpc::StatusCode::UNAVAILABLE, "shutting-down");
    if (auto held = held_.find(holder);
        held != held_.end() && held->second >= kMaxStreamsPerCertificate)
      return new Refusal(grpc::StatusCode::RESOURCE_EXHAUSTED,
                         "too many streams of one certificate at once");
    ++held_[holder];
    id = ++last_id_;
    stream = std::make_shared<GrpcStream>(id, *variant, *context, events_);
    streams_[id] = {stream, holder};
  }
  on_open_(id, std::move(peer), stream);
  return stream.get();
}

void GrpcService::close_all(CloseCode code, const std::string& text) {
  std::map<StreamId, Open> streams;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    streams = streams_;
  }
  for (const auto& [id, open] : streams) open.stream->close(code, text, false);
}

bool GrpcService::wait_until_empty(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return stream_gone_.wait_for(lock, timeout, [this] { return streams_.empty(); });
}

}  // namespace osm::inline v1::ads
