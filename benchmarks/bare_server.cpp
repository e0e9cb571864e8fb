// The floor: gRPC, mutual TLS and the bytes, nothing else.
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include "certificates.hpp"
#include "discovery.hpp"
#include "measured_server.hpp"

namespace osm::bench {
namespace {

using Recordings = std::array<grpc::ByteBuffer, 5>;  // by XdsType

// Answers the first request of each type; everything later is an acknowledgement.
class BareStream final : public grpc::ServerGenericBidiReactor {
 public:
  explicit BareStream(const Recordings& recordings) : recordings_(recordings) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    std::vector<grpc::Slice> slices;
    std::string bytes;
    if (request_.Dump(&slices).ok())
      for (const grpc::Slice& slice : slices)
        bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    const auto head = parse_request(bytes);
    request_.Clear();
    if (head && !answered_[static_cast<std::size_t>(head->type)]) {
      answered_[static_cast<std::size_t>(head->type)] = true;
      enqueue(head->type);
    }
    StartRead(&request_);
  }

  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mutex_);
    writing_ = false;
    if (ok) write_next();
  }

  void OnDone() override { delete this; }

 private:
  void enqueue(XdsType type) {
    std::lock_guard lock(mutex_);
    waiting_.push_back(type);
    write_next();
  }

  void write_next() {
    if (writing_ || waiting_.empty()) return;
    writing_ = true;
    const XdsType type = waiting_.front();
    waiting_.erase(waiting_.begin());
    StartWrite(&recordings_[static_cast<std::size_t>(type)]);
  }

  const Recordings& recordings_;
  grpc::ByteBuffer request_;
  std::array<bool, 5> answered_{};
  std::mutex mutex_;
  bool writing_ = false;
  std::vector<XdsType> waiting_;
};

class BareServer final : public MeasuredServer, private grpc::CallbackGenericService {
 public:
  explicit BareServer(Recordings recordings) : recordings_(std::move(recordings)) {}
  ~BareServer() override {
    if (server_) server_->Shutdown(std::chrono::system_clock::now());
  }

  Status start(const Credentials& credentials) {
    grpc::SslServerCredentialsOptions tls(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    tls.pem_root_certs = credentials.trust_bundle_pem;
    tls.pem_key_cert_pairs.push_back({credentials.key_pem, credentials.chain_pem});
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(tls), &port_);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
    if (!server_) return Error{ErrorCode::kUnavailable, "the bare gRPC server did not start"};
    return {};
  }

  std::string address() const override { return fmt::format("127.0.0.1:{}", port_); }
  Status apply(Change) override {
    return Error{ErrorCode::kInvalidArgument, "the bare server has no mesh to change"};
  }
  std::map<std::string, double> metrics() const override { return {}; }

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new BareStream(recordings_);
  }

  Recordings recordings_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

Result<std::unique_ptr<MeasuredServer>> start_bare_server(const std::string& ca_directory,
                                                          const std::string& recordings) {
  Recordings bytes;
  for (XdsType type : kXdsTypes) {
    const auto path = fmt::format("{}/{}", recordings, xds_type_text(type));
    std::ifstream file(path, std::ios::binary);
    if (!file) return Error{ErrorCode::kNotFound, path + ": no recording of this type"};
    std::stringstream content;
    content << file.rdbuf();
    grpc::Slice slice(content.str());
    bytes[static_cast<std::size_t>(type)] = grpc::ByteBuffer(&slice, 1);
  }
  OSM_TRY(auto authority, BenchAuthority::load(ca_directory));
  OSM_TRY(const Credentials credentials, authority->controller_credentials());
  auto server = std::make_unique<BareServer>(std::move(bytes));
  if (Status started = server->start(credentials); !started) return started.error();
  return std::unique_ptr<MeasuredServer>(std::move(server));
}

}  // namespace osm::bench
