#include "certificate/local_issuer.hpp"

#include <algorithm>
#include <utility>

#include "certificate/x509.hpp"

namespace osm::certificate {
namespace {

using openssl::CleanErrorQueue;

constexpr std::chrono::days kRootValidity{3650};

struct Root {
  openssl::Key key;
  openssl::X509Handle certificate;
  std::string pem;  // of the certificate alone
  WallTime not_after;
};

class LocalIssuer final : public Issuer {
 public:
  LocalIssuer(Root root, TrustDomain domain, const Clock& clock)
      : root_(std::move(root)), domain_(std::move(domain)), clock_(clock) {}

  Result<IssuedCertificate> issue(const IssueRequest& request) override;
  std::string trust_bundle_pem() const override { return root_.pem; }
  WallTime not_after() const override { return root_.not_after; }

 private:
  Result<x509::Lifetime> lifetime(const IssueRequest& request) const;

  const Root root_;
  const TrustDomain domain_;
  const Clock& clock_;
};

Result<x509::Lifetime> LocalIssuer::lifetime(const IssueRequest& request) const {
  const std::string& name = request.subject.common_name.str();
  if (request.validity < std::chrono::seconds(1))
    return Error{ErrorCode::kInvalidArgument,
                 "common name \"" + name + "\": the validity must be at least one second"};
  const WallTime now = clock_.wall_now();
  // Compared as durations: now + validity may not fit.
  const auto left = std::chrono::floor<std::chrono::seconds>(root_.not_after - now);
  if (left < std::chrono::seconds(1))
    return Error{ErrorCode::kCertificateExpired,
                 "common name \"" + name +
                     "\": the CA certificate has expired; replace the CA and bootstrap every proxy "
                     "anew"};
  return x509::Lifetime{now - kClockSkew, now + std::min(request.validity, left)};
}

Result<IssuedCertificate> LocalIssuer::issue(const IssueRequest& request) {
  const CleanErrorQueue clean;
  if (auto valid = x509::validate(request.subject, domain_); !valid) return valid.error();
  OSM_TRY(const x509::Lifetime lifetime, this->lifetime(request));
  OSM_TRY(openssl::Key key, x509::generate_key(request.key));
  OSM_TRY(openssl::X509Handle leaf,
          x509::make_leaf(request.subject, *key, lifetime, *root_.certificate, *root_.key));
  OSM_TRY(std::string chain, x509::to_pem(*leaf));
  OSM_TRY(PrivateKey pem, x509::to_pem(*key));
  OSM_TRY(std::string fingerprint, x509::fingerprint(*leaf));
  return IssuedCertificate{.chain_pem = std::move(chain),
                           .private_key = std::move(pem),
                           .serial_number = x509::serial_number(*leaf),
                           .fingerprint = std::move(fingerprint),
                           .not_before = x509::not_before(*leaf),
                           .not_after = x509::not_after(*leaf)};
}

Status check_root(Root& root, WallTime now) {
  const auto refused = [](const char* why) { return Error{ErrorCode::kInvalidCertificate, why}; };
  if (X509_check_private_key(root.certificate.get(), root.key.get()) != 1)
    return refused("the private key does not belong to the certificate");
  if (X509_check_ca(root.certificate.get()) != 1 ||
      (X509_get_key_usage(root.certificate.get()) & KU_KEY_CERT_SIGN) == 0)
    return refused("the certificate is not a CA (basicConstraints CA:TRUE, keyUsage keyCertSign)");
  if (X509_self_signed(root.certificate.get(), 1) != 1)
    return refused("the certificate is not a self-signed root; intermediate CAs are not supported");
  if (now >= root.not_after)
    return Error{ErrorCode::kCertificateExpired, "the CA certificate has expired"};
  if (now < x509::not_before(*root.certificate))
    return refused("the CA certificate is not valid yet: check this machine's clock");
  return {};
}

}  // namespace

Result<PrivateKey> make_root_pem(const Clock& clock) {
  const CleanErrorQueue clean;
  const WallTime now = clock.wall_now();
  OSM_TRY(openssl::Key key, x509::generate_key({}));
  OSM_TRY(openssl::X509Handle root, x509::make_root(*key, {now - kClockSkew, now + kRootValidity}));
  OSM_TRY(PrivateKey key_pem, x509::to_pem(*key));
  OSM_TRY(const std::string root_pem, x509::to_pem(*root));
  std::string both;
  both.reserve(key_pem.pem().size() + root_pem.size());  // growing would leave a copy behind
  both += key_pem.pem();
  both += root_pem;
  return PrivateKey(std::move(both));
}

Result<std::unique_ptr<Issuer>> make_local_issuer(std::string_view root_pem, TrustDomain domain,
                                                  const Clock& clock) {
  const CleanErrorQueue clean;
  Root root;
  OSM_TRY(root.key, x509::parse_key(root_pem));
  OSM_TRY(root.certificate, x509::parse_certificate(root_pem));
  OSM_TRY(root.pem, x509::to_pem(*root.certificate));
  root.not_after = x509::not_after(*root.certificate);
  if (auto checked = check_root(root, clock.wall_now()); !checked) return checked.error();
  return std::unique_ptr<Issuer>(
      std::make_unique<LocalIssuer>(std::move(root), std::move(domain), clock));
}

}  // namespace osm::certificate
