#include "osm/testing/ads_client.hpp"

#include <google/protobuf/wrappers.pb.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/support/sync_stream.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "envoy/service/discovery/v3/discovery.pb.h"
#include "osm/certificate/request.hpp"
#include "osm/control_plane.hpp"

namespace osm::inline v1::testing {
namespace {

using envoy::service::discovery::v3::DiscoveryRequest;
using envoy::service::discovery::v3::DiscoveryResponse;

constexpr const char* kMethod =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
constexpr std::chrono::hours kValidity{24};

// The server is verified by its chain: its name is a SPIFFE id, which no host name matches.
std::shared_ptr<grpc::Channel> open_channel(const AdsClientOptions& options) {
  namespace tls = grpc::experimental;
  tls::TlsChannelCredentialsOptions credentials;
  credentials.set_certificate_provider(std::make_shared<tls::StaticDataCertificateProvider>(
      options.trust_bundle_pem,
      std::vector<tls::IdentityKeyCertPair>{{options.key_pem, options.chain_pem}}));
  credentials.watch_root_certs();
  credentials.watch_identity_key_cert_pairs();
  credentials.set_check_call_host(false);
  credentials.set_certificate_verifier(std::make_shared<tls::NoOpCertificateVerifier>());
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(options.address, tls::TlsCredentials(credentials), arguments);
}

// Result: empty if it is no protobuf message. Every resource of Envoy has its name in field 1, as a
// StringValue has its text.
std::string resource_name(const std::string& bytes) {
  google::protobuf::StringValue named;
  return named.ParseFromString(bytes) ? named.value() : std::string();
}

class GrpcAdsClient final : public AdsClient {
 public:
  explicit GrpcAdsClient(const AdsClientOptions& options) : channel_(open_channel(options)) {
    stream_.reset(
        grpc::internal::ClientReaderWriterFactory<DiscoveryRequest, DiscoveryResponse>::Create(
            channel_.get(),
            grpc::internal::RpcMethod(kMethod, grpc::internal::RpcMethod::BIDI_STREAMING, channel_),
            &context_));
    reader_ = std::thread([this] { read_all(); });
  }

  ~GrpcAdsClient() override {
    context_.TryCancel();
    reader_.join();
  }

  Status subscribe(XdsType type, const std::vector<std::string>& names) override {
    State& state = states_[static_cast<std::size_t>(type)];
    state.names = names;
    return send(type, state.nonce, nullptr);
  }

  Result<AdsResponse> next(XdsType type, std::chrono::milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    auto& queue = received_[static_cast<std::size_t>(type)];
    const bool decided = changed_.wait_for(lock, timeout, [&] { return !queue.empty() || ended_; });
    if (!queue.empty()) {
      AdsResponse response = std::move(queue.front());
      queue.pop_front();
      return response;
    }
    if (decided) return *ended_;
    return Error{ErrorCode::kDeadlineExceeded,
                 std::string(xds_type_text(type)) + ": no response in time"};
  }

  Status accept(const AdsResponse& response) override {
    states_[static_cast<std::size_t>(response.type)].version = response.version;
    return send(response.type, response.nonce, nullptr);
  }

  Status refuse(const AdsResponse& response, const std::string& detail) override {
    return send(response.type, response.nonce, &detail);
  }

 private:
  // State of one type.
  struct State {
    std::vector<std::string> names;
    std::string version;  // the last that was accepted
    std::string nonce;    // the last that was answered
  };

  Status send(XdsType type, const std::string& nonce, const std::string* refusal) {
    State& state = states_[static_cast<std::size_t>(type)];
    state.nonce = nonce;
    DiscoveryRequest request;
    request.set_type_url(std::string(xds_type_url(type)));
    request.set_version_info(state.version);
    request.set_response_nonce(nonce);
    for (const std::string& name : state.names) request.add_resource_names(name);
    if (refusal) {
      request.mutable_error_detail()->set_code(grpc::StatusCode::INVALID_ARGUMENT);
      request.mutable_error_detail()->set_message(*refusal);
    }
    if (stream_->Write(request)) return {};
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_.has_value(); });  // a failed write ends the stream
    return *ended_;
  }

  void read_all() {
    DiscoveryResponse message;
    while (stream_->Read(&message)) {
      const auto type = xds_type_of(message.type_url());
      if (!type) continue;
      AdsResponse response{*type, message.version_info(), message.nonce(), {}};
      for (const auto& resource : message.resources())
        response.resources[resource_name(resource.value())] = resource.value();
      const std::lock_guard lock(mutex_);
      received_[static_cast<std::size_t>(*type)].push_back(std::move(response));
      changed_.notify_all();
    }
    const grpc::Status status = stream_->Finish();
    const std::lock_guard lock(mutex_);
    ended_ = Error{ErrorCode::kUnavailable, "the stream ended with gRPC's code " +
                                                std::to_string(status.error_code()) + ": " +
                                                status.error_message()};
    changed_.notify_all();
  }

  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<DiscoveryRequest, DiscoveryResponse>> stream_;
  std::array<State, kXdsTypes.size()> states_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<std::deque<AdsResponse>, kXdsTypes.size()> received_;  // guarded by mutex_
  std::optional<Error> ended_;                                      // guarded by mutex_
  std::thread reader_;
};

}  // namespace

std::unique_ptr<AdsClient> AdsClient::connect(const AdsClientOptions& options) {
  return std::make_unique<GrpcAdsClient>(options);
}

Result<std::unique_ptr<AdsClient>> AdsClient::join(ControlPlane& mesh,
                                                   const certificate::Manager& certificates,
                                                   const Workload& workload) {
  OSM_TRY(const auto own, certificate::make_request(mesh.proxy_subject(workload)));
  OSM_TRY(const auto issued, mesh.issue_proxy_certificate(workload, own.request_pem, kValidity));
  return connect({.address = mesh.ads_address(),
                  .chain_pem = issued->chain_pem,
                  .key_pem = own.key.pem(),
                  .trust_bundle_pem = certificates.trust_bundle_pem()});
}

Result<AdsResponse> AdsClient::fetch(XdsType type, const std::vector<std::string>& names) {
  OSM_TRY(subscribe(type, names));
  OSM_TRY(AdsResponse response, next(type));
  OSM_TRY(accept(response));
  return response;
}

Result<AdsResponse> AdsClient::wait_for(XdsType type,
                                        const std::function<bool(const AdsResponse&)>& condition,
                                        std::chrono::milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    OSM_TRY(AdsResponse response, next(type, std::max(left, std::chrono::milliseconds(0))));
    OSM_TRY(accept(response));
    if (condition(response)) return response;
  }
}

}  // namespace osm::inline v1::testing
