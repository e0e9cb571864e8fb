#include "kubernetes/client/secret_ca.hpp"

#include <openssl/crypto.h>

#include <boost/json/object.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/base64.hpp"
#include "kubernetes/client/resources.hpp"
#include "osm/kubernetes/cluster.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;
using certificate::PrivateKey;

constexpr const char* kCertificate = "ca.crt";
constexpr const char* kPrivateKey = "private.key";
constexpr std::string_view kCertificateBegins = "-----BEGIN CERTIFICATE-----";

// Text that is secret, and zeroed when it goes.
struct Erased {
  std::string text;
  explicit Erased(std::string t) : text(std::move(t)) {}
  Erased(const Erased&) = delete;
  Erased& operator=(const Erased&) = delete;
  ~Erased() { OPENSSL_cleanse(text.data(), text.size()); }
};

void erase(json::object& secret) {
  json::value* const data = secret.if_contains("data");
  if (!data || !data->is_object()) return;
  for (auto& field : data->as_object())
    if (json::string* text = field.value().if_string()) OPENSSL_cleanse(text->data(), text->size());
}

class SecretCaStore final : public certificate::CaStore {
 public:
  SecretCaStore(Api& api, std::string ns, std::string name)
      : api_(api), ns_(std::move(ns)), name_(std::move(name)) {}

  std::string name() const override {
    return "certificate authority in Secret " + ns_ + '/' + name_;
  }

  Result<std::optional<PrivateKey>> load() override {
    Result<json::object> secret = api_.get(kSecrets, ns_, name_);
    if (!secret.ok() && secret.error().code == ErrorCode::kNotFound)
      return std::optional<PrivateKey>();
    if (!secret.ok()) return failed(secret.error());
    Result<std::optional<PrivateKey>> pem = read(*secret);
    erase(*secret);
    return pem;
  }

  Status create(const PrivateKey& pem) override {
    // One text holds the key, then the certificate; Kubernetes' habit is a field for each.
    const std::string_view text = pem.pem();
    const std::size_t certificate = text.find(kCertificateBegins);
    if (certificate == 0 || certificate == std::string_view::npos)
      return Error{ErrorCode::kInternal, name() + ": no key and certificate were made"};
    json::object secret{
        {"apiVersion", kSecrets.api_version()},
        {"kind", kSecrets.kind},
        {"metadata",
         json::object{{"namespace", ns_},
                      {"name", name_},
                      {"labels", json::object{{"app.kubernetes.io/name", "openservicemesh.io"}}}}},
        {"type", "Opaque"},
        {"data", json::object{{kCertificate, base64(text.substr(certificate))},
                              {kPrivateKey, base64(text.substr(0, certificate))}}}};
    Result<json::object> created = api_.create(kSecrets, secret);
    erase(secret);
    if (created.ok()) {
      erase(*created);
      return {};
    }
    if (created.error().code == ErrorCode::kAlreadyExists) return {};
    return failed(created.error());
  }

 private:
  Error failed(const Error& error) const {
    Error out = error.with_context(name());
    if (error.code == ErrorCode::kPermissionDenied)
      out.message += "; let this daemon's ServiceAccount get and create that Secret";
    return out;
  }

  Error invalid(const std::string& field, const char* what) const {
    return {ErrorCode::kInvalidCertificate,
            name() + ": data[\"" + field + "\"] " + what +
                "; restore the Secret from a backup, or delete it and restart every pod of the "
                "mesh, which then gets a new CA"};
  }

  Result<std::optional<PrivateKey>> read(const json::object& secret) const {
    std::string pem;
    for (const char* field : {kCertificate, kPrivateKey}) {
      const json::value* const data = secret.if_contains("data");
      const json::object* const fields = data ? data->if_object() : nullptr;
      const json::value* const value = fields ? fields->if_contains(field) : nullptr;
      const json::string* const text = value ? value->if_string() : nullptr;
      if (!text || text->empty()) return wiped(std::move(pem), invalid(field, "is missing"));
      std::optional<std::string> decoded = from_base64(*text);
      if (!decoded) return wiped(std::move(pem), invalid(field, "is not Base64"));
      const Erased part(*std::move(decoded));
      // Grown once, so that no copy of the key is left behind.
      pem.reserve(64 * 1024);
      if (pem.size() + part.text.size() + 1 > pem.capacity())
        return wiped(std::move(pem), invalid(field, "is too large for a CA"));
      pem.append(part.text).append("\n");
    }
    return std::optional<PrivateKey>(std::in_place, std::move(pem));
  }

  static Error wiped(std::string pem, Error error) {
    OPENSSL_cleanse(pem.data(), pem.size());
    return error;
  }

  Api& api_;
  const std::string ns_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<certificate::CaStore> make_secret_ca_store(Api& api, std::string ns,
                                                           std::string name) {
  return std::make_unique<SecretCaStore>(api, std::move(ns), std::move(name));
}

std::unique_ptr<certificate::CaStore> make_ca_store(Cluster& cluster, std::string ns,
                                                    std::string name) {
  return make_secret_ca_store(cluster.api(), std::move(ns), std::move(name));
}

}  // namespace osm::inline v1::kubernetes
