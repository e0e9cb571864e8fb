#include "ads/grpc_service.hpp"
#include "ads/metrics.hpp"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/support/slice.h>

#include <atomic>
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
  certificate.chain_pem =
      first(authenticated->FindPropertyValues(GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME));
  certificate.address = context.peer();
  return certificate;
}

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

// Copies bytes between gRPC's threads and the strand, and takes no decisions. Only the strand
// starts operations (after Strand::stop(), only its caller), and gRPC calls OnDone() only after
// close(). So no operation can start on a destroyed stream.
class GrpcStream final : public grpc::ServerGenericBidiReactor, public ProxyStream {
 public:
  GrpcStream(StreamId id, XdsVariant variant, grpc::GenericCallbackServerContext& context,
             StreamHost& host, GrpcService& service)
      : ProxyStream(variant), id_(id), context_(context), host_(host), service_(service) {}

  void read_next() override { StartRead(&incoming_); }
  void write(const Response& response) override {
    outgoing_ = to_buffer(response);
    StartWrite(&outgoing_);
  }
  void close(CloseCode code, const std::string& text, bool cut) override {
    if (finished_.exchange(true)) return;
    if (cut) context_.TryCancel();  // Finish queues behind a write
    Finish(grpc::Status(static_cast<grpc::StatusCode>(code), text));
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return host_.on_closed(id_);
    host_.on_request(id_, to_string(std::exchange(incoming_, {})));
  }
  void OnWriteDone(bool ok) override {
    outgoing_.Clear();
    ok ? host_.on_write_done(id_) : host_.on_closed(id_);
  }
  void OnCancel() override { host_.on_closed(id_); }
  void OnDone() override { service_.leave(id_); }

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
  GrpcCall(StreamId id, std::string method, PeerCertificate peer, StreamHost& host,
           GrpcService& service)
      : id_(id),
        method_(std::move(method)),
        peer_(std::move(peer)),
        host_(host),
        service_(service) {}

  void start() { StartRead(&incoming_); }
  void finish(CloseCode code, const std::string& text, const std::string& bytes) override {
    if (finished_.exchange(true)) return;
    if (code != CloseCode::kOk) return Finish({static_cast<grpc::StatusCode>(code), text});
    const grpc::Slice slice(bytes);
    outgoing_ = grpc::ByteBuffer(&slice, 1);
    StartWriteAndFinish(&outgoing_, {}, grpc::Status::OK);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return finish(CloseCode::kInvalidArgument, "no request came", {});
    if (incoming_.Length() > kMaxRequest)
      return finish(CloseCode::kInvalidArgument,
                    "the request has more than " + std::to_string(kMaxRequest) + " bytes", {});
    host_.on_call(method_, std::move(peer_), to_string(std::exchange(incoming_, {})),
                  shared_from_this());
  }
  void OnCancel() override { finish(CloseCode::kCancelled, "the caller left", {}); }
  void OnDone() override { service_.leave(id_); }

  const StreamId id_;
  const std::string method_;
  PeerCertificate peer_;
  StreamHost& host_;
  GrpcService& service_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  std::atomic<bool> finished_ = false;
};

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

grpc::ServerGenericBidiReactor* GrpcService::refuse(grpc::StatusCode status, std::string_view code,
                                                    const std::string& text) {
  metrics_.add(kStreamsRefused, {{"code", code}}, 1);
  return new RefusedCall(status, text);
}

grpc::ServerGenericBidiReactor* GrpcService::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  // The handshake refuses peers without a certificate; this check is a second line of defence.
  if (!context->auth_context() || !context->auth_context()->IsPeerAuthenticated())
    return refuse(grpc::StatusCode::UNAUTHENTICATED, "no-certificate",
                  "a client certificate is required");
  const std::optional<XdsVariant> variant = variant_of(context->method());
  const bool unary = unary_methods_.contains(context->method());
  if (!variant && !unary)
    return refuse(grpc::StatusCode::UNIMPLEMENTED, "unknown-method",
                  context->method() + " is not served");
  PeerCertificate peer = certificate_of(*context);
  Open opened{.stream = {}, .call = {}, .holder = peer.uris.empty() ? "" : peer.uris.front()};
  StreamId id = 0;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return refuse(grpc::StatusCode::UNAVAILABLE, "shutting-down", "shutting-down");
    if (auto held = held_.find(opened.holder);
        held != held_.end() && held->second >= kMaxStreamsPerCertificate)
      return refuse(grpc::StatusCode::RESOURCE_EXHAUSTED, "too-many-streams",
                    "too many streams of one certificate at once");
    ++held_[opened.holder];
    id = ++last_id_;
    if (unary)
      opened.call = std::make_shared<GrpcCall>(id, context->method(), peer, host_, *this);
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
