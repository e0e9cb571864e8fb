#include "control_plane/proxy_renewals.hpp"

#include <openssl/sha.h>

#include <memory>
#include <utility>

#include "model/names.hpp"
#include "osm/certificate/request.hpp"

namespace osm::inline v1::control_plane {
namespace {

namespace wire = openservicemesh::certificate::v1;

// Interval between searches for a certificate of the signing CA, until there is one.
constexpr std::chrono::seconds kLookAgain{1};

std::string sha256(const std::string& text) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

// "10.0.0.7:41234" of gRPC's "ipv4:10.0.0.7:41234".
std::string host_and_port(const std::string& address) {
  return address.substr(address.find(':') + 1);
}

certificate::Requester requester_of(const ads::RenewalQuestion& question) {
  return {
      .reason = certificate::IssueReason::kRenewal,
      .address = host_and_port(question.peer.address),
      .identity = model::proxy_spiffe_id(question.peer.trust_domain, question.peer.identity).str()};
}

wire::KeyType key_type(KeyType type) {
  switch (type) {
    case KeyType::kRsa:
      return wire::KEY_TYPE_RSA;
    case KeyType::kEd25519:
      return wire::KEY_TYPE_ED25519;
    case KeyType::kEcdsaP256:
      break;
  }
  return wire::KEY_TYPE_ECDSA_P256;
}

}  // namespace

void ProxyRenewals::answer(ads::RenewalQuestion question,
                           std::function<void(ads::RenewalAnswer)> done) {
  Response response = describe(question);
  if (question.request.request_pem().empty() && question.request.workload_request_pem().empty())
    return done(std::move(response));
  strand_.post([this, question = std::move(question), response = std::move(response),
                done = std::move(done)] { done(certify(question, response)); });
}

ProxyRenewals::Response ProxyRenewals::describe(const ads::RenewalQuestion& question) {
  const certificate::Subject subject = options_.proxy_subject(question.workload->workload);
  Response response;
  response.set_certificate_current(is_current(question.peer, subject));
  if (std::string bundle = options_.certificates.trust_bundle_pem();
      sha256(bundle) != question.request.trust_bundle_sha256())
    response.set_trust_bundle_pem(std::move(bundle));
  response.set_common_name(subject.common_name.str());
  response.set_spiffe_id(subject.spiffe_id.str());
  for (const TrustDomain& domain : options_.trust_domains().accepted)
    response.add_controller_spiffe_ids(model::controller_spiffe_id(domain).str());
  const MeshConfig config = options_.spec.get_mesh_config();
  response.set_proxy_validity_seconds(
      static_cast<std::uint64_t>(config.certificates.proxy_validity.count()));
  response.set_key_type(key_type(config.certificates.key_type));
  if (config.certificates.key_type == KeyType::kRsa)
    response.set_rsa_key_bits(static_cast<std::uint32_t>(config.certificates.rsa_bits));
  if (options_.workload_subject) {
    const certificate::Subject own = options_.workload_subject(question.workload->workload);
    response.set_workload_common_name(own.common_name.str());
    response.set_workload_spiffe_id(own.spiffe_id.str());
    for (const std::string& name : own.dns_names) response.add_workload_dns_names(name);
    response.set_workload_validity_seconds(
        static_cast<std::uint64_t>(config.certificates.service_validity.count()));
  }
  return response;
}

bool ProxyRenewals::is_current(const ads::Peer& peer, const certificate::Subject& subject) {
  // During a trust domain migration names of the old domain are accepted, too.
  if (model::proxy_spiffe_id(peer.trust_domain, peer.identity) != subject.spiffe_id) return false;
  const auto times =
      certificate::proxy_certificate_times(peer.not_before, peer.not_after, proxy_validity());
  if (options_.runtime.clock.wall_now() >= times.renew_at) return false;
  const std::string signer = signing_key_id(model::trust_domain_of(subject.spiffe_id));
  return signer.empty() || peer.issuer_key_id == signer;
}

std::chrono::seconds ProxyRenewals::proxy_validity() const {
  return options_.spec.get_mesh_config().certificates.proxy_validity;
}

// The key id comes from a certificate of the signing CA: not every kind of CA reports it.
std::string ProxyRenewals::signing_key_id(const TrustDomain& domain) {
  const std::string id = options_.certificates.issuer_id();
  const SteadyTime now = options_.runtime.clock.steady_now();
  if (id == signer_ && (!signing_key_id_.empty() || now - looked_at_ < kLookAgain))
    return signing_key_id_;
  signer_ = id;
  signing_key_id_.clear();
  looked_at_ = now;
  for (const auto& held : options_.certificates.list_certificates()) {
    // Skip certificates of the previous root: it signs the control plane's own, and names that it
    // has not replaced yet (docs/adr/0024, 0027).
    if (held->issuer_id != id || held->subject.usage == certificate::Usage::kController ||
        model::trust_domain_of(held->subject.spiffe_id) != domain)
      continue;
    signing_key_id_ = held->issuer_key_id;
    break;
  }
  return signing_key_id_;
}

ads::RenewalAnswer ProxyRenewals::certify(const ads::RenewalQuestion& question, Response response) {
  if (!question.request.request_pem().empty()) OSM_TRY(certify_proxy(question, response));
  if (!question.request.workload_request_pem().empty())
    OSM_TRY(certify_workload(question, response));
  response.set_trust_bundle_pem(options_.certificates.trust_bundle_pem());
  return response;
}

Status ProxyRenewals::certify_proxy(const ads::RenewalQuestion& question, Response& response) {
  const Workload& workload = question.workload->workload;
  OSM_TRY(const certificate::CertificatePtr issued,
          options_.issue(workload, question.request.request_pem(),
                         certificate::proxy_certificate_life(proxy_validity()),
                         requester_of(question)));
  options_.runtime.log.info("proxy certificate renewed",
                            {{"workload", workload.name.str()},
                             {"uuid", workload.proxy_id.str()},
                             {"address", question.peer.address},
                             {"serial_number", issued->serial_number}});
  response.set_certificate_chain_pem(issued->chain_pem);
  return {};
}

// The proxy's certificate fetches the workload's anyway, with its key, by SDS. Here the key stays
// on the machine.
Status ProxyRenewals::certify_workload(const ads::RenewalQuestion& question, Response& response) {
  if (!options_.issue_workload)
    return Error{ErrorCode::kInvalidArgument, "this controller certifies no workloads' keys"};
  const Workload& workload = question.workload->workload;
  OSM_TRY(const certificate::CertificatePtr issued,
          options_.issue_workload(workload, question.request.workload_request_pem(),
                                  options_.spec.get_mesh_config().certificates.service_validity,
                                  requester_of(question)));
  options_.runtime.log.info("service certificate issued for a machine's files",
                            {{"workload", workload.name.str()},
                             {"uuid", workload.proxy_id.str()},
                             {"address", question.peer.address},
                             {"serial_number", issued->serial_number}});
  response.set_workload_certificate_chain_pem(issued->chain_pem);
  return {};
}

}  // namespace osm::inline v1::control_plane
