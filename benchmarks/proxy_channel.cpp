#include "proxy_channel.hpp"

#include <vector>

#include <grpcpp/create_channel.h>
#include <grpcpp/security/tls_credentials_options.h>

namespace osm::bench {
namespace {

// Verifies the server's chain, not its name: like Envoy, which pins a SPIFFE id instead.
std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const Credentials& credentials) {
  namespace tls = grpc::experimental;
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::make_shared<tls::StaticDataCertificateProvider>(
      credentials.trust_bundle_pem,
      std::vector<tls::IdentityKeyCertPair>{{credentials.key_pem, credentials.chain_pem}}));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_check_call_host(false);
  options.set_certificate_verifier(std::make_shared<tls::NoOpCertificateVerifier>());
  return tls::TlsCredentials(options);
}

}  // namespace

std::shared_ptr<grpc::Channel> channel_to(const std::string& address,
                                          const Credentials& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(address, channel_credentials(credentials), arguments);
}

std::string flatten(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  bytes.reserve(buffer.Length());
  if (buffer.Dump(&slices).ok())
    for (const grpc::Slice& slice : slices)
      bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

}  // namespace osm::bench
