// Certificates under the mesh's own CA: short-lived, rotated, never revoked.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "osm/certificate/audit.hpp"
#include "osm/certificate/secret_bytes.hpp"
#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1::certificate {

// Key material: zeroed when destroyed, never printed, never logged.
class OSM_API PrivateKey {
 public:
  PrivateKey() = default;
  // Erases the key in `pem`. A copy that the caller made is the caller's to erase.
  explicit PrivateKey(std::string pem) noexcept : pem_(std::move(pem)) { erase(pem); }
  explicit PrivateKey(SecretBytes pem) noexcept : pem_(std::move(pem)) {}
  PrivateKey(PrivateKey&&) noexcept = default;
  PrivateKey& operator=(PrivateKey&&) noexcept = default;

  // PKCS#8 PEM. Pass it only to a TLS context or to a file of mode 0600.
  const std::string& pem() const noexcept { return pem_.text(); }
  // True if there is no key: moved from, or never set.
  bool empty() const noexcept { return pem_.empty(); }

 private:
  SecretBytes pem_;
};

// Purpose of a certificate.
enum class Usage {
  kWorkload,    // clientAuth and serverAuth: mutual TLS between workloads
  kProxy,       // clientAuth: a proxy towards the control plane
  kController,  // serverAuth: the control plane towards proxies
  kWebhook,  // serverAuth: a webhook towards an API server, which needs the common name as DNS SAN
  kGateway,  // clientAuth: an ingress gateway towards workloads; with its DNS names
};

// "workload", "proxy", "controller", "webhook", "gateway".
constexpr std::string_view usage_text(Usage usage) {
  switch (usage) {
    case Usage::kProxy:
      return "proxy";
    case Usage::kController:
      return "controller";
    case Usage::kWebhook:
      return "webhook";
    case Usage::kGateway:
      return "gateway";
    case Usage::kWorkload:
      break;
  }
  return "workload";
}

// Content of a certificate: one common name, exactly one URI SAN, one usage.
struct Subject {
  CommonName common_name;
  SpiffeId spiffe_id;
  Usage usage = Usage::kWorkload;
  // For kWebhook and kGateway; for kWorkload "<account>.<namespace>.<trust domain>" alone, by which
  // an ingress gateway may know its server. It authorizes nobody.
  std::vector<std::string> dns_names{};

  friend bool operator==(const Subject&, const Subject&) = default;
};

// A certificate with its key. Immutable once handed out. Its peers are verified with
// Manager::trust_bundle_pem().
struct Certificate {
  Subject subject;
  std::string chain_pem;  // leaf first, then intermediates, without the root
  PrivateKey private_key;
  std::string serial_number;       // hex
  std::string fingerprint;         // SHA-256 of the leaf, hex: safe to show
  std::string issuer_id{};         // the CA that signed it: Issuer::id() at that time
  std::string issuer_key_id{};     // authorityKeyIdentifier, hex; empty if it has none
  std::string root_fingerprint{};  // SHA-256 of the root that its chain ends at, hex
  WallTime not_before;
  WallTime not_after;
};

using CertificatePtr = std::shared_ptr<const Certificate>;

// A certificate that was issued to a proxy, which may not have connected yet.
struct ProxyCertificate {
  CommonName common_name;
  ProxyId proxy_id;
  std::string ns;
  WallTime not_after;
  bool claimed = false;  // its proxy has connected to this replica

  friend bool operator==(const ProxyCertificate&, const ProxyCertificate&) = default;
};

// Issues, caches and renews the mesh's certificates.
class OSM_API Manager {
 public:
  virtual ~Manager() = default;

  // Result: the cached certificate of this subject while it need not be renewed, else a new one,
  // cached under its common name. If the CA fails, the cached one while it is valid. A certificate
  // lives at most `validity`, less a random part; later renewals of the name use the same value.
  // Concurrent calls for one name share one issuance. `requester` is for the audit log.
  // Failure: kUnavailable (CA unreachable), kInvalidArgument (a name that cannot be certified, or a
  // common name that another subject holds), kInternal.
  // Thread: any but an event loop's. Blocking: until the CA answers.
  virtual Result<CertificatePtr> issue_certificate(const Subject& subject,
                                                   std::chrono::seconds validity,
                                                   const Requester& requester = {}) = 0;

  // Keeps a certificate of this subject cached until release_certificate(), once for each call:
  // issues it in the background and repeats failed attempts. `validity` is read before every
  // issuance, on any thread. Result: the cached certificate; null until subscribers hear of it.
  // Failure: kInvalidArgument (a common name held by another subject). Thread: any. Blocking: no.
  virtual Result<CertificatePtr> keep_certificate(
      const Subject& subject, std::function<std::chrono::seconds()> validity) = 0;

  // Result: a new certificate with a new key in place of the cached one; subscribers are notified.
  // Failure: kNotFound if none is cached; as above. Thread, blocking: as issue_certificate().
  virtual Result<CertificatePtr> rotate_certificate(const CommonName& common_name) = 0;

  // Result: a certificate over the key of `request_pem` (PKCS#10). The requester keeps the key: the
  // result's private_key is empty. Never cached, never renewed.
  // Failure: kInvalidArgument (names that are not exactly the subject's, an unsupported key),
  // kUnavailable, kInternal.
  // Thread, blocking: as issue_certificate().
  virtual Result<CertificatePtr> certify_request(const Subject& subject,
                                                 const std::string& request_pem,
                                                 std::chrono::seconds validity,
                                                 const Requester& requester = {}) = 0;

  // Ends one keep_certificate(), or the caching by issue_certificate() of a name that nobody kept.
  // After the last one the certificate is removed; its key is zeroed when its last user released
  // it. Unknown names are ignored. Thread: any. Blocking: no.
  virtual void release_certificate(const CommonName& common_name) = 0;

  // The cached certificates, ordered by common name. Thread: any. Blocking: no.
  virtual std::vector<CertificatePtr> list_certificates() const = 0;

  // The roots that verify every peer of the mesh, PEM. Thread: any. Blocking: no.
  virtual std::string trust_bundle_pem() const = 0;

  // The CA that signs now: Issuer::id(). Thread: any. Blocking: no.
  virtual std::string issuer_id() const = 0;

  // Calls `on_issued` with each certificate that replaces one already issued, and with each that
  // keep_certificate() did not return yet.
  // Thread: the manager's, one call at a time; must not block. Lifetime: until the handle dies.
  virtual Subscription subscribe(std::function<void(const CertificatePtr& issued)> on_issued) = 0;

  // Calls `on_change` when trust_bundle_pem() or issuer_id() changed: once, whatever is cached.
  // Certificates stay as they are; those of another CA are renewed afterwards.
  // Thread: the manager's, one call at a time and none beside one of subscribe(); must not block.
  // Lifetime: until the handle dies.
  virtual Subscription subscribe_ca(std::function<void()> on_change) = 0;
};

}  // namespace osm::inline v1::certificate
