#include "certificate/local_issuer.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "certificate/x509.hpp"

namespace osm::inline v1::certificate {
namespace {

using openssl::CleanErrorQueue;

constexpr std::chrono::days kRootValidity{3650};

struct Authority {
  openssl::Key key;
  std::vector<openssl::X509Handle> chain;  // signing certificate first, the root last
  std::string sent_pem;                    // all but the root: follows every leaf
  std::string root_pem;
  std::string id;      // "tresor:" and the signing certificate's fingerprint
  WallTime not_after;  // earliest end in the chain
};

class LocalIssuer final : public Issuer {
 public:
  LocalIssuer(Authority ca, TrustDomain domain, const Clock& clock)
      : ca_(std::move(ca)), domain_(std::move(domain)), clock_(clock) {}

  Result<std::string> sign(const SigningRequest& request) override {
    const CleanErrorQueue clean;
    OSM_TRY(x509::validate(request.subject, domain_));
    OSM_TRY(const x509::Lifetime lifetime, this->lifetime(request));
    const auto key = x509::parse_request_key(request.request_pem);
    if (!key)
      return key.error().with_context("certificate request for common name \"" +
                                      request.subject.common_name.str() + "\"");
    OSM_TRY(const openssl::X509Handle leaf,
            x509::make_leaf(request.subject, **key, lifetime, *ca_.chain.front(), *ca_.key));
    OSM_TRY(const std::string pem, x509::to_pem(*leaf));
    return pem + ca_.sent_pem;
  }

  std::string trust_bundle_pem() const override { return ca_.root_pem; }
  std::string id() const override { return ca_.id; }
  WallTime not_after() const override { return ca_.not_after; }

 private:
  Result<x509::Lifetime> lifetime(const SigningRequest& request) const {
    const std::string& name = request.subject.common_name.str();
    if (request.validity < std::chrono::seconds(1))
      return Error{ErrorCode::kInvalidArgument,
                   "common name \"" + name + "\": the validity must be at least one second"};
    const WallTime now = clock_.wall_now();
    // Compare durations: now + validity may overflow.
    const auto left = std::chrono::floor<std::chrono::seconds>(ca_.not_after - now);
    if (left < std::chrono::seconds(1))
      return Error{
          ErrorCode::kCertificateExpired,
          "common name \"" + name +
              "\": the CA certificate has expired; replace the CA and bootstrap every proxy "
              "anew"};
    return x509::Lifetime{now - kClockSkew, now + std::min(request.validity, left)};
  }

  const Authority ca_;
  const TrustDomain domain_;
  const Clock& clock_;
};

Status check_key(const Authority& ca) {
  const auto belongs = [&](const openssl::X509Handle& certificate) {
    return X509_check_private_key(certificate.get(), ca.key.get()) == 1;
  };
  if (belongs(ca.chain.front())) return {};
  if (std::ranges::any_of(ca.chain, belongs))
    return Error{ErrorCode::kInvalidCertificate,
                 "the private key belongs to another certificate of the chain than the first: put "
                 "the signing certificate first, its issuers in their order, the root last"};
  return Error{ErrorCode::kInvalidCertificate,
               "the private key does not belong to the certificate"};
}

}  // namespace

Result<PrivateKey> make_root_pem(const Clock& clock) {
  const CleanErrorQueue clean;
  const WallTime now = clock.wall_now();
  OSM_TRY(openssl::Key key, x509::generate_key({}));
  OSM_TRY(openssl::X509Handle root, x509::make_root(*key, {now - kClockSkew, now + kRootValidity}));
  OSM_TRY(PrivateKey key_pem, x509::to_pem(*key));
  OSM_TRY(const std::string root_pem, x509::to_pem(*root));
  SecretBytes both;
  both.append(key_pem.pem()).append(root_pem);
  return PrivateKey(std::move(both));
}

Result<std::unique_ptr<Issuer>> make_local_issuer(std::string_view pem, TrustDomain domain,
                                                  const Clock& clock) {
  const CleanErrorQueue clean;
  Authority ca;
  OSM_TRY(ca.key, x509::parse_key(pem));
  OSM_TRY(ca.chain, x509::parse_certificates(pem));
  OSM_TRY(check_key(ca));
  OSM_TRY(x509::check_ca_chain(ca.chain, clock.wall_now()));
  OSM_TRY(ca.root_pem, x509::to_pem(*ca.chain.back()));
  OSM_TRY(ca.sent_pem, openssl::sent_pem(ca.chain));
  OSM_TRY(const std::string fingerprint, x509::fingerprint(*ca.chain.front()));
  ca.id = "tresor:" + fingerprint;
  ca.not_after = WallTime::max();
  for (const openssl::X509Handle& each : ca.chain)
    ca.not_after = std::min(ca.not_after, x509::not_after(*each));
  return std::unique_ptr<Issuer>(
      std::make_unique<LocalIssuer>(std::move(ca), std::move(domain), clock));
}

}  // namespace osm::inline v1::certificate
