// Names that are strings on the wire, each as its own type. They do not convert to each other
// implicitly; they are comparable, hashable, and printable with str(). They do not validate their
// text; parsers of input do.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "osm/detail/api.hpp"

namespace osm::inline v1 {

// Text that is one kind of name and no other.
template <class Tag>
class StrongString {
 public:
  StrongString() = default;
  explicit StrongString(std::string text) : text_(std::move(text)) {}

  // The text / true if it is empty.
  const std::string& str() const noexcept { return text_; }
  bool empty() const noexcept { return text_.empty(); }

  friend bool operator==(const StrongString&, const StrongString&) = default;
  friend std::strong_ordering operator<=>(const StrongString&, const StrongString&) = default;

 private:
  std::string text_;
};

using ProxyId = StrongString<struct ProxyIdTag>;          // UUID, lower case: "6f2c...-..."
using TrustDomain = StrongString<struct TrustDomainTag>;  // SPIFFE trust domain: "cluster.local"
using CommonName = StrongString<struct CommonNameTag>;    // X.509 subject common name
using SpiffeId = StrongString<struct SpiffeIdTag>;        // "spiffe://cluster.local/ns/a/sa/b"
using ClusterName = StrongString<struct ClusterNameTag>;  // Envoy cluster: "ns/svc|8080"

// A namespaced Kubernetes name. Ordered by namespace, then name.
template <class Tag>
struct NamespacedName {
  std::string ns;
  std::string name;

  // "ns/name"
  std::string str() const { return ns + '/' + name; }
  // True if both parts are empty.
  bool empty() const noexcept { return ns.empty() && name.empty(); }

  friend bool operator==(const NamespacedName&, const NamespacedName&) = default;
  friend std::strong_ordering operator<=>(const NamespacedName&, const NamespacedName&) = default;
};

using ServiceName = NamespacedName<struct ServiceNameTag>;
using ServiceAccount = NamespacedName<struct ServiceAccountTag>;
using WorkloadName = NamespacedName<struct WorkloadNameTag>;  // a VirtualMachine or a Pod

// Identity of a workload in the mesh: its service account, proven by mutual TLS.
using ServiceIdentity = NamespacedName<struct ServiceIdentityTag>;

// The identity of workloads that run as `account`.
inline ServiceIdentity identity_of(const ServiceAccount& account) {
  return {account.ns, account.name};
}

// "spiffe://<trust-domain>/ns/<namespace>/sa/<account>": the exact URI SAN of a workload.
OSM_API SpiffeId spiffe_id(const TrustDomain& domain, const ServiceIdentity& identity);
// "spiffe://<trust-domain>/ns/": prefix of every workload's URI SAN (permissive mode).
OSM_API std::string workload_spiffe_prefix(const TrustDomain& domain);

// True for a DNS label of RFC 1123: lower case, digits and '-', 1 to 63 bytes / for a subdomain as
// Kubernetes names objects: parts of such characters joined by dots, at most 253 bytes, of which a
// part may have more than 63.
OSM_API bool is_dns_label(std::string_view text);
OSM_API bool is_dns_subdomain(std::string_view text);
// True for a DNS name of a host in its one form: labels joined by dots, at most 253 bytes.
OSM_API bool is_dns_name(std::string_view text);
// A text in that form: in lower case, and without a dot at its end. Whether it is a name is not
// checked.
OSM_API std::string normal_dns_name(std::string_view text);
// The same of a DNS name of a host; nullopt: it is none.
OSM_API std::optional<std::string> dns_name_of(std::string_view text);
// Canonical lower-case UUID text.
OSM_API bool is_uuid(std::string_view text);

// A TCP port. Its own type, so that it cannot be mixed up with a count or a weight.
enum class Port : std::uint16_t {};
// 80 of Port{80}.
constexpr std::uint16_t number(Port port) { return static_cast<std::uint16_t>(port); }

}  // namespace osm::inline v1

template <class Tag>
struct std::hash<osm::StrongString<Tag>> {
  std::size_t operator()(const osm::StrongString<Tag>& id) const noexcept {
    return std::hash<std::string>{}(id.str());
  }
};

template <class Tag>
struct std::hash<osm::NamespacedName<Tag>> {
  std::size_t operator()(const osm::NamespacedName<Tag>& id) const noexcept {
    const std::size_t first = std::hash<std::string>{}(id.ns);
    return first ^ (std::hash<std::string>{}(id.name) + 0x9e3779b97f4a7c15ULL + (first << 6));
  }
};
