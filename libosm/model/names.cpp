#include "model/names.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/check.hpp"
#include "base/hex.hpp"
#include "osm/detail/api.hpp"

namespace osm::inline v1::model {
namespace {

// The namespace of every UUID that this project derives (RFC 9562, section 5.5):
// "3b9d0f4e-7c52-4f6a-9a1e-5d8c2b7e61f0". It never changes: the proxies of running machines have
// ids from it.
constexpr std::array<std::uint8_t, 16> kUuidNamespace{
    0x3b, 0x9d, 0x0f, 0x4e, 0x7c, 0x52, 0x4f, 0x6a, 0x9a, 0x1e, 0x5d, 0x8c, 0x2b, 0x7e, 0x61, 0xf0};

std::string control_plane_prefix(const TrustDomain& domain) {
  return "spiffe://" + domain.str() + "/osm/";
}

std::string proxy_prefix(const TrustDomain& domain, WorkloadKind kind) {
  return control_plane_prefix(domain) + (kind == WorkloadKind::kPod ? "pod/" : "proxy/");
}

std::string uuid_text(const std::uint8_t* bytes) {
  std::string text = hex_of({bytes, 16});
  for (const std::size_t dash : {8U, 13U, 18U, 23U}) text.insert(dash, 1, '-');
  return text;
}

}  // namespace

SpiffeId proxy_spiffe_id(const TrustDomain& domain, const ProxyIdentity& proxy) {
  return SpiffeId(proxy_prefix(domain, proxy.kind) + proxy.id.str() + '/' + proxy.account.str());
}

Result<ProxyIdentity> parse_proxy_spiffe_id(const TrustDomain& domain, std::string_view uri) {
  const auto wrong_kind = [&] {
    return Error{ErrorCode::kWrongCertificateKind,
                 "the URI SAN '" + std::string(uri) + "' is not a proxy's; expected " +
                     proxy_prefix(domain, WorkloadKind::kMachine) +
                     "<uuid>/<namespace>/<account>, or pod in place of proxy"};
  };
  const WorkloadKind kind = uri.starts_with(proxy_prefix(domain, WorkloadKind::kPod))
                                ? WorkloadKind::kPod
                                : WorkloadKind::kMachine;
  const std::string prefix = proxy_prefix(domain, kind);
  if (!uri.starts_with(prefix)) return wrong_kind();
  const std::string_view rest = uri.substr(prefix.size());
  const auto first = rest.find('/');
  if (first == std::string_view::npos) return wrong_kind();
  const auto second = rest.find('/', first + 1);
  if (second == std::string_view::npos) return wrong_kind();
  const std::string_view id = rest.substr(0, first);
  const std::string_view ns = rest.substr(first + 1, second - first - 1);
  const std::string_view account = rest.substr(second + 1);
  if (!is_uuid(id) || !is_dns_label(ns) || !is_dns_subdomain(account)) return wrong_kind();
  return ProxyIdentity{ProxyId(std::string(id)), {std::string(ns), std::string(account)}, kind};
}

TrustDomain trust_domain_of(const SpiffeId& id) {
  constexpr std::string_view kScheme = "spiffe://";
  const std::string_view text = id.str();
  if (!text.starts_with(kScheme)) return {};
  const std::string_view rest = text.substr(kScheme.size());
  const auto slash = rest.find('/');
  return slash == std::string_view::npos ? TrustDomain()
                                         : TrustDomain(std::string(rest.substr(0, slash)));
}

SpiffeId controller_spiffe_id(const TrustDomain& domain) {
  return SpiffeId(control_plane_prefix(domain) + "controller");
}

SpiffeId admin_spiffe_id(const TrustDomain& domain) {
  return SpiffeId(control_plane_prefix(domain) + "admin");
}

CommonName service_common_name(const TrustDomain& domain, const ServiceIdentity& identity) {
  return CommonName(identity.name + '.' + identity.ns + '.' + domain.str());
}

std::string service_name_pattern(const TrustDomain& domain) {
  std::string pattern = R"([-a-z0-9]+\.[-a-z0-9]+\.)";
  for (const char c : domain.str()) {
    if (c == '.') pattern += '\\';
    pattern += c;
  }
  return pattern;
}

CommonName proxy_common_name(const ProxyId& id, const ServiceName& service) {
  return CommonName(id.str() + '.' + service.name + '.' + service.ns);
}

CommonName pod_common_name(const ProxyId& id, std::string_view ns) {
  return CommonName(id.str() + '.' + std::string(ns));
}

// Exported for the other libraries of this project.
OSM_API ProxyId derived_proxy_id(const TrustDomain& domain, const WorkloadName& workload) {
  // Unambiguous: '/' cannot be part of a trust domain, a namespace or a name.
  const std::string name = domain.str() + '/' + workload.str();
  std::string input(kUuidNamespace.begin(), kUuidNamespace.end());
  input += name;
  std::array<std::uint8_t, EVP_MAX_MD_SIZE> hash;
  OSM_CHECK(EVP_Digest(input.data(), input.size(), hash.data(), nullptr, EVP_sha1(), nullptr) == 1);
  hash[6] = static_cast<std::uint8_t>((hash[6] & 0x0f) | 0x50);  // version 5
  hash[8] = static_cast<std::uint8_t>((hash[8] & 0x3f) | 0x80);  // variant of RFC 9562
  return ProxyId(uuid_text(hash.data()));
}

}  // namespace osm::inline v1::model
