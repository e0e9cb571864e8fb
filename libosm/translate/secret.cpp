#include "envoy/extensions/transport_sockets/tls/v3/secret.pb.h"
#include "osm/certificate/secret_bytes.hpp"
#include "translate/pack_any.hpp"
#include "translate/translate.hpp"

namespace osm::inline v1::translate {
namespace {

namespace tls = envoy::extensions::transport_sockets::tls::v3;

EncodedResource encoded(const tls::Secret& secret) {
  google::protobuf::Any packed = pack_any(secret);
  const EraseOnExit erased(*packed.mutable_value());
  std::string any = deterministic_bytes(packed);
  const Digest hash = digest_of(any);
  return {XdsType::kSecret, secret.name(), std::move(any), hash, {}};
}

}  // namespace

EncodedResource encode_service_cert(const certificate::Certificate& certificate) {
  tls::Secret own;
  own.set_name(kServiceCertSecret);
  auto& pair = *own.mutable_tls_certificate();
  pair.mutable_certificate_chain()->set_inline_string(certificate.chain_pem);
  std::string& key = *pair.mutable_private_key()->mutable_inline_string();
  key = certificate.private_key.pem();
  const EraseOnExit erased(key);  // protobuf frees its strings as they are
  return encoded(own);
}

EncodedResource encode_root_cert(const std::string& trust_bundle_pem) {
  tls::Secret roots;
  roots.set_name(kRootCertSecret);
  roots.mutable_validation_context()->mutable_trusted_ca()->set_inline_string(trust_bundle_pem);
  return encoded(roots);
}

}  // namespace osm::inline v1::translate
