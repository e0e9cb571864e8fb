#include "ads/grpc_credentials.hpp"

#include <grpc/grpc_security.h>

#include <mutex>
#include <string>

namespace osm::inline v1::ads {
namespace {

class MutualTls final : public grpc::ServerCredentials {
 public:
  MutualTls(std::function<certificate::CertificatePtr()> certificate,
            std::function<std::string()> trust_bundle)
      : certificate_(std::move(certificate)), trust_bundle_(std::move(trust_bundle)) {}

  // Not supported: mutual TLS is the only authentication.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    grpc_ssl_server_credentials_options* options =
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, &MutualTls::fetch, this);
    grpc_server_credentials* credentials = grpc_ssl_server_credentials_create_with_options(options);
    const int port = grpc_server_add_http2_port(server, address.c_str(), credentials);
    grpc_server_credentials_release(credentials);
    return port;
  }

  static grpc_ssl_certificate_config_reload_status fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    return static_cast<MutualTls*>(self)->reload(config);
  }

  grpc_ssl_certificate_config_reload_status reload(grpc_ssl_server_certificate_config** config) {
    const certificate::CertificatePtr certificate = certificate_();
    if (!certificate) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL;
    std::string bundle = trust_bundle_();
    std::lock_guard lock(mutex_);
    if (certificate == loaded_ && bundle == loaded_bundle_)
      return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair{certificate->private_key.pem().c_str(),
                                          certificate->chain_pem.c_str()};
    *config = grpc_ssl_server_certificate_config_create(bundle.c_str(), &pair, 1);
    loaded_ = certificate;
    loaded_bundle_ = std::move(bundle);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const std::function<certificate::CertificatePtr()> certificate_;
  const std::function<std::string()> trust_bundle_;
  std::mutex mutex_;  // over the next two
  certificate::CertificatePtr loaded_;
  std::string loaded_bundle_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> mutual_tls(
    std::function<certificate::CertificatePtr()> server_certificate,
    std::function<std::string()> trust_bundle_pem) {
  return std::make_shared<MutualTls>(std::move(server_certificate), std::move(trust_bundle_pem));
}

}  // namespace osm::inline v1::ads
