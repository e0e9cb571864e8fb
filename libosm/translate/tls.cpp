#include "translate/tls.hpp"

#include "envoy/extensions/transport_sockets/tls/v3/tls.pb.h"
#include "model/signature_algorithms.hpp"
#include "translate/pack_any.hpp"

namespace osm::inline v1::translate {
namespace {

namespace tls = envoy::extensions::transport_sockets::tls::v3;
namespace core = envoy::config::core::v3;

constexpr const char* kNobody = "/osm/nobody";  // cannot be a workload's identity
constexpr const char* kNobodyAnywhere = "spiffe://nobody/osm/nobody";

void set_ads_secret(tls::SdsSecretConfig& secret, const char* name) {
  secret.set_name(name);
  auto& source = *secret.mutable_sds_config();
  source.mutable_ads();
  source.set_resource_api_version(core::ApiVersion::V3);
}

tls::TlsParameters::TlsProtocol protocol_of(TlsVersion version) {
  if (version == TlsVersion::kTls12) return tls::TlsParameters::TLSv1_2;
  if (version == TlsVersion::kTls13) return tls::TlsParameters::TLSv1_3;
  return tls::TlsParameters::TLS_AUTO;
}

// Sets the parts that are not about peers.
void set_own(tls::CommonTlsContext& context, const TlsSettings& settings) {
  auto& parameters = *context.mutable_tls_params();
  parameters.set_tls_minimum_protocol_version(protocol_of(settings.minimum));
  parameters.set_tls_maximum_protocol_version(protocol_of(settings.maximum));
  for (const std::string& suite : settings.cipher_suites) parameters.add_cipher_suites(suite);
  for (const std::string& curve : settings.ecdh_curves) parameters.add_ecdh_curves(curve);
  for (const std::string_view algorithm : model::kSignatureAlgorithms)
    parameters.add_signature_algorithms(std::string(algorithm));
  set_ads_secret(*context.add_tls_certificate_sds_secret_configs(), kServiceCertSecret);
}

// Sets the common parts. Result: the validation context; the caller adds the matchers of peers.
tls::CertificateValidationContext& set_common(tls::CommonTlsContext& context,
                                              const TlsSettings& settings) {
  set_own(context, settings);
  auto& validation = *context.mutable_combined_validation_context();
  set_ads_secret(*validation.mutable_validation_context_sds_secret_config(), kRootCertSecret);
  return *validation.mutable_default_validation_context();
}

using San = tls::SubjectAltNameMatcher;

envoy::type::matcher::v3::StringMatcher& add_matcher(tls::CertificateValidationContext& validation,
                                                     San::SanType type = San::URI) {
  auto& matcher = *validation.add_match_typed_subject_alt_names();
  matcher.set_san_type(type);
  return *matcher.mutable_matcher();
}

}  // namespace

google::protobuf::Any upstream_tls(const PeerNames& names, const TlsSettings& settings,
                                   const std::string& fqdn,
                                   const std::vector<ServiceIdentity>& identities,
                                   PeerKind servers) {
  tls::UpstreamTlsContext context;
  context.set_sni(fqdn);
  context.mutable_common_tls_context()->add_alpn_protocols(kMeshAlpn);
  // An Envoy negotiates none of them, and finds its chain by the first.
  if (servers == PeerKind::kEnvoyOrGrpc)
    context.mutable_common_tls_context()->add_alpn_protocols(kGrpcAlpn);
  auto& validation = set_common(*context.mutable_common_tls_context(), settings);
  for (const TrustDomain& domain : names.domains) {
    for (const ServiceIdentity& identity : identities) {
      add_matcher(validation).set_exact(spiffe_id(domain, identity).str());
      if (names.osm_v1) add_matcher(validation, San::DNS).set_exact(osm_v1_name(domain, identity));
    }
    if (identities.empty()) add_matcher(validation).set_exact("spiffe://" + domain.str() + kNobody);
  }
  return pack_any(context);
}

google::protobuf::Any downstream_tls(const PeerNames& names, const TlsSettings& settings,
                                     PeerKind clients) {
  tls::DownstreamTlsContext context;
  context.mutable_require_client_certificate()->set_value(true);
  // Envoy would not look at the end of the client's certificate in a resumed session.
  context.set_disable_stateless_session_resumption(true);
  context.set_disable_stateful_session_resumption(true);
  // Set no other ALPN: if "osm" were negotiated, Envoy would treat every connection as HTTP/1.
  if (clients == PeerKind::kEnvoyOrGrpc)
    context.mutable_common_tls_context()->add_alpn_protocols(kGrpcAlpn);
  auto& validation = set_common(*context.mutable_common_tls_context(), settings);
  for (const TrustDomain& domain : names.domains) {
    add_matcher(validation).set_prefix(workload_spiffe_prefix(domain));
    if (names.osm_v1)
      add_matcher(validation, San::DNS)
          .mutable_safe_regex()
          ->set_regex(model::service_name_pattern(domain));
  }
  return pack_any(context);
}

google::protobuf::Any ingress_tls(const TlsSettings& settings, Protocol protocol,
                                  const std::optional<std::vector<std::string>>& principals) {
  tls::DownstreamTlsContext context;
  context.set_disable_stateless_session_resumption(true);
  context.set_disable_stateful_session_resumption(true);
  auto& common = *context.mutable_common_tls_context();
  // A request goes to the application in the protocol in which it came. Most know HTTP/1.1 only.
  if (protocol == Protocol::kGrpc || protocol == Protocol::kH2c) common.add_alpn_protocols("h2");
  common.add_alpn_protocols("http/1.1");
  context.mutable_require_client_certificate()->set_value(principals.has_value());
  if (!principals) {
    set_own(common, settings);
    return pack_any(context);
  }
  auto& validation = set_common(common, settings);
  for (const std::string& name : *principals) {
    auto& matcher = *validation.add_match_typed_subject_alt_names();
    matcher.set_san_type(name.starts_with("spiffe://") ? tls::SubjectAltNameMatcher::URI
                                                       : tls::SubjectAltNameMatcher::DNS);
    matcher.mutable_matcher()->set_exact(name);
  }
  if (principals->empty()) add_matcher(validation).set_exact(kNobodyAnywhere);
  return pack_any(context);
}

namespace {

// Result: the validation context; the caller adds the matchers of peers.
tls::CertificateValidationContext& set_providers(tls::CommonTlsContext& context) {
  context.mutable_tls_certificate_provider_instance()->set_instance_name(kCertificateProvider);
  auto& validation = *context.mutable_validation_context();
  validation.mutable_ca_certificate_provider_instance()->set_instance_name(kCertificateProvider);
  return validation;
}

}  // namespace

// gRPC reads names of peers from the older field only. It compares them with SANs of every type: no
// two names mean different accounts with one text. No matcher would mean anybody.
google::protobuf::Any grpc_upstream_tls(const PeerNames& names,
                                        const std::vector<ServiceIdentity>& identities) {
  tls::UpstreamTlsContext context;
  auto& validation = set_providers(*context.mutable_common_tls_context());
  std::vector<std::string> accepted;
  for (const TrustDomain& domain : names.domains) {
    for (const ServiceIdentity& identity : identities) {
      accepted.push_back(spiffe_id(domain, identity).str());
      if (names.osm_v1) accepted.push_back(osm_v1_name(domain, identity));
    }
  }
  if (accepted.empty()) accepted.emplace_back(kNobodyAnywhere);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  for (const std::string& name : accepted)
    validation.add_match_subject_alt_names()->set_exact(name);
#pragma GCC diagnostic pop
  return pack_any(context);
}

google::protobuf::Any grpc_downstream_tls() {
  tls::DownstreamTlsContext context;
  context.mutable_require_client_certificate()->set_value(true);
  set_providers(*context.mutable_common_tls_context());
  return pack_any(context);
}

std::vector<EncodedResource::Reference> tls_references() {
  return {{XdsType::kSecret, kServiceCertSecret}, {XdsType::kSecret, kRootCertSecret}};
}

}  // namespace osm::inline v1::translate
