#include "machine/renewal_client.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace osm::inline v1::machine {
namespace {

namespace tls = grpc::experimental;

constexpr const char* kService = "/openservicemesh.certificate.v1.ProxyCertificateService/";

// Names of a server that is not the controller; gRPC's threads write them.
struct Stranger {
  std::mutex mutex;
  std::string names;
};

// After the handshake, which has verified the chain: whose certificate it is.
class ControllerVerifier final : public tls::ExternalCertificateVerifier {
 public:
  ControllerVerifier(std::vector<std::string> ids, std::shared_ptr<Stranger> stranger)
      : ids_(std::move(ids)), stranger_(std::move(stranger)) {}

  bool Verify(tls::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* status) override {
    std::vector<std::string> uris;
    for (const grpc::string_ref& uri : request->uri_names())
      uris.emplace_back(uri.data(), uri.size());
    const bool known =
        uris.size() == 1 && std::find(ids_.begin(), ids_.end(), uris.front()) != ids_.end();
    *status = known ? grpc::Status::OK
                    : grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "not the controller");
    if (!known) {
      const std::lock_guard lock(stranger_->mutex);
      stranger_->names = uris.empty() ? "nobody" : fmt::format("{}", fmt::join(uris, ", "));
    }
    return true;
  }
  void Cancel(tls::TlsCustomVerificationCheckRequest*) override {}

 private:
  const std::vector<std::string> ids_;
  const std::shared_ptr<Stranger> stranger_;
};

std::shared_ptr<grpc::Channel> connect(const ProxyFiles& files,
                                       const std::shared_ptr<Stranger>& stranger) {
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::make_shared<tls::StaticDataCertificateProvider>(
      files.trust_bundle_pem,
      std::vector<tls::IdentityKeyCertPair>{{files.key.pem(), files.chain_pem}}));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(true);
  // Names are the verifier's: the controller's certificate has no host's.
  options.set_check_call_host(false);
  options.set_certificate_verifier(
      tls::ExternalCertificateVerifier::Create<ControllerVerifier>(files.controller_ids, stranger));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(files.controller, tls::TlsCredentials(options), arguments);
}

// `unknown`: consequence and remedy if the controller does not know the method.
Error explain(const ProxyFiles& files, const grpc::Status& status, const std::string& stranger,
              const char* unknown) {
  const std::string who = "the controller at " + files.controller;
  if (!stranger.empty())
    return {ErrorCode::kInvalidCertificate,
            fmt::format("{} shows a certificate of {}, not of {}: it was told nothing. Check "
                        "--controller; if it is right, run `osm vm bootstrap` again",
                        files.controller, stranger, fmt::join(files.controller_ids, " or "))};
  const std::string& detail = status.error_message();
  // The controller answers UNAVAILABLE, so that an Envoy asks again: the machine may come back.
  if (detail.starts_with(error_code_text(ErrorCode::kUnknownProxy)))
    return {ErrorCode::kUnknownProxy, fmt::format("{}: {}", who, detail)};
  if (detail.starts_with(error_code_text(ErrorCode::kNotFound)))
    return {ErrorCode::kNotFound, fmt::format("{}: {}", who, detail)};
  switch (status.error_code()) {
    case grpc::StatusCode::UNIMPLEMENTED:
      return {ErrorCode::kUnavailable, who + unknown};
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return {ErrorCode::kDeadlineExceeded,
              who + " did not answer in time: is it reachable from here, or --timeout too short?"};
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return {ErrorCode::kUnavailable,
              fmt::format("{}: {}. This may pass; if the mesh's root was replaced meanwhile, run "
                          "`osm vm bootstrap` for this machine again",
                          who, detail)};
    default:
      return {ErrorCode::kPermissionDenied, fmt::format("{}: {}", who, detail)};
  }
}

template <class Response, class Request>
Result<Response> call(const ProxyFiles& files, const char* method, const Request& request,
                      std::chrono::milliseconds timeout, const char* unknown) {
  const auto stranger = std::make_shared<Stranger>();
  grpc::TemplatedGenericStub<Request, Response> stub(connect(files, stranger));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  Response response;
  std::promise<grpc::Status> ended;
  stub.UnaryCall(&context, std::string(kService) + method, {}, &request, &response,
                 [&](grpc::Status status) { ended.set_value(std::move(status)); });
  const grpc::Status status = ended.get_future().get();
  const std::lock_guard lock(stranger->mutex);
  if (!status.ok()) return explain(files, status, stranger->names, unknown);
  return response;
}

}  // namespace

bool GrpcScope::is_unused() { return grpc_is_initialized() == 0; }

GrpcScope::GrpcScope(bool alone) : alone_(alone) { grpc_init(); }

GrpcScope::~GrpcScope() {
  grpc_shutdown();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (alone_ && !is_unused() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

Result<RenewalResponse> ask_controller(const ProxyFiles& files, const RenewalRequest& request,
                                       std::chrono::milliseconds timeout) {
  return call<RenewalResponse>(
      files, "RenewCertificate", request, timeout,
      " renews no certificates: it is of an older version. Update it, or run `osm vm bootstrap` "
      "again before the certificate ends");
}

Result<certificate::KeyParameters> key_parameters(const RenewalResponse& response) {
  switch (response.key_type()) {
    case openservicemesh::certificate::v1::KEY_TYPE_ECDSA_P256:
      return certificate::KeyParameters{KeyType::kEcdsaP256};
    case openservicemesh::certificate::v1::KEY_TYPE_ED25519:
      return certificate::KeyParameters{KeyType::kEd25519};
    case openservicemesh::certificate::v1::KEY_TYPE_RSA:
      return certificate::KeyParameters{KeyType::kRsa, static_cast<int>(response.rsa_key_bits())};
    default:
      return Error{ErrorCode::kUnavailable,
                   "the controller asks for a kind of key that this version does not know: update "
                   "this command"};
  }
}

Result<DrainResponse> ask_to_drain(const ProxyFiles& files, std::chrono::milliseconds timeout) {
  return call<DrainResponse>(
      files, "DrainMachine", openservicemesh::certificate::v1::DrainMachineRequest(), timeout,
      " drains no machines: it is of an older version. Update it, or run `osm vm leave --force`");
}

}  // namespace osm::inline v1::machine
