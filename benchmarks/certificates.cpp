#include "certificates.hpp"

#include "certificate/issuance.hpp"
#include "model/names.hpp"
#include "osm/certificate/directory_ca.hpp"
#include "synthetic_mesh.hpp"

namespace osm::bench {

using certificate::Usage;

Result<std::unique_ptr<BenchAuthority>> BenchAuthority::load(const std::string& directory) {
  auto authority = std::make_unique<BenchAuthority>();
  OSM_TRY(authority->issuer_,
          certificate::load_or_create_directory_ca(
              {.directory = directory, .trust_domain = kTrustDomain, .clock = authority->clock_}));
  return authority;
}

Result<Credentials> BenchAuthority::proxy_credentials(const Workload& workload) {
  const model::ProxyIdentity proxy{workload.proxy_id, workload.account};
  return issue(
      {.common_name = model::proxy_common_name(workload.proxy_id, workload.services.front()),
       .spiffe_id = model::proxy_spiffe_id(kTrustDomain, proxy),
       .usage = Usage::kProxy});
}

Result<Credentials> BenchAuthority::controller_credentials() {
  return issue({.common_name = CommonName{"osm-controller"},
                .spiffe_id = model::controller_spiffe_id(kTrustDomain),
                .usage = Usage::kController});
}

Result<Credentials> BenchAuthority::issue(const certificate::Subject& subject) {
  OSM_TRY(const auto issued,
          certificate::issue(*issuer_, subject, std::chrono::hours(24), {}, clock_));
  return Credentials{.trust_bundle_pem = issuer_->trust_bundle_pem(),
                     .chain_pem = issued.chain_pem,
                     .key_pem = issued.private_key.pem()};
}

}  // namespace osm::bench
