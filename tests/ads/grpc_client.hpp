// A small ADS client over real mutual TLS.
#pragma once

#include <doctest/doctest.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/support/sync_stream.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "envoy/service/discovery/v3/discovery.pb.h"
#include "osm/certificate/manager.hpp"
#include "osm/values/proxy.hpp"

namespace osm::ads_test {

using envoy::service::discovery::v3::DiscoveryRequest;
using envoy::service::discovery::v3::DiscoveryResponse;

inline constexpr const char* kStreamMethod =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";

// `certificate` null: none is presented. The server is verified by `roots`, not by name.
inline std::shared_ptr<grpc::Channel> channel(const std::string& address, const std::string& roots,
                                              const certificate::Certificate* certificate,
                                              grpc::ChannelArguments arguments = {}) {
  namespace tls = grpc::experimental;
  tls::TlsChannelCredentialsOptions options;
  std::vector<tls::IdentityKeyCertPair> pairs;
  if (certificate) pairs.push_back({certificate->private_key.pem(), certificate->chain_pem});
  options.set_certificate_provider(
      pairs.empty() ? std::make_shared<tls::StaticDataCertificateProvider>(roots)
                    : std::make_shared<tls::StaticDataCertificateProvider>(roots, pairs));
  options.watch_root_certs();
  if (certificate) options.watch_identity_key_cert_pairs();
  options.set_check_call_host(false);
  options.set_certificate_verifier(std::make_shared<tls::NoOpCertificateVerifier>());
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, tls::TlsCredentials(options), arguments);
}

template <class Request, class Response>
class BasicAdsClient {
 public:
  explicit BasicAdsClient(std::shared_ptr<grpc::Channel> channel,
                          const std::string& method = kStreamMethod)
      : channel_(std::move(channel)), method_(method) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    stream_.reset(grpc::internal::ClientReaderWriterFactory<Request, Response>::Create(
        channel_.get(),
        grpc::internal::RpcMethod(method_.c_str(), grpc::internal::RpcMethod::BIDI_STREAMING,
                                  channel_),
        &context_));
  }
  ~BasicAdsClient() {
    context_.TryCancel();
    if (stream_ && !finished_) static_cast<void>(finish());
  }

  bool send(const Request& request) { return stream_->Write(request); }
  bool ask(XdsType type, std::vector<std::string> names = {}, const std::string& version = "",
           const std::string& nonce = "") {
    Request request;
    request.set_type_url(std::string(xds_type_url(type)));
    request.set_version_info(version);
    request.set_response_nonce(nonce);
    for (std::string& name : names) request.add_resource_names(std::move(name));
    return stream_->Write(request);
  }
  std::optional<Response> read() {
    Response response;
    if (!stream_->Read(&response)) return std::nullopt;
    return response;
  }
  // The next response, which must be of this type, acknowledged with `names`.
  Response take(XdsType type, const std::vector<std::string>& names = {}) {
    auto response = read();
    REQUIRE_MESSAGE(response, "the stream ended: " << finish().error_message());
    REQUIRE(response->type_url() == xds_type_url(type));
    REQUIRE(ask(type, names, response->version_info(), response->nonce()));
    return *response;
  }
  // The certificate that the server of this stream's connection showed. After a response was read.
  std::string server_pem() const {
    const auto peer = context_.auth_context();  // owns what is found
    const auto found = peer->FindPropertyValues("x509_pem_cert");
    REQUIRE(found.size() == 1);
    return {found[0].data(), found[0].size()};
  }
  grpc::Status finish() {
    if (finished_) return status_;
    Response rest;
    while (stream_->Read(&rest)) continue;
    finished_ = true;
    return status_ = stream_->Finish();
  }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::string method_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<Request, Response>> stream_;
  bool finished_ = false;
  grpc::Status status_;
};

using AdsClient = BasicAdsClient<DiscoveryRequest, DiscoveryResponse>;
using DeltaClient = BasicAdsClient<envoy::service::discovery::v3::DeltaDiscoveryRequest,
                                   envoy::service::discovery::v3::DeltaDiscoveryResponse>;

}  // namespace osm::ads_test
