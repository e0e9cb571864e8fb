#include "kubernetes/client/secret_ca.hpp"

#include <boost/json/object.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/base64.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/client/secret_text.hpp"
#include "osm/kubernetes/cluster.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;
using certificate::PrivateKey;

constexpr const char* kCertificate = "ca.crt";
constexpr const char* kPrivateKey = "private.key";
constexpr std::size_t kMaxField = 64 * 1024;
constexpr std::string_view kCertificateBegins = "-----BEGIN CERTIFICATE-----";

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
    erase_data(*secret);
    return pem;
  }

  Status create(const PrivateKey& pem) override {
    // `pem` has the key, then the certificate; a Kubernetes Secret has a field for each.
    const std::string_view text = pem.pem();
    const std::size_t certificate = text.find(kCertificateBegins);
    if (certificate == 0 || certificate == std::string_view::npos)
      return Error{ErrorCode::kInternal, name() + ": no key and certificate were made"};
    const SecretBytes key(base64(text.substr(0, certificate)));
    json::object secret{
        {"apiVersion", kSecrets.api_version()},
        {"kind", kSecrets.kind},
        {"metadata",
         json::object{{"namespace", ns_},
                      {"name", name_},
                      {"labels", json::object{{"app.kubernetes.io/name", "openservicemesh.io"}}}}},
        {"type", "Opaque"},
        {"data", json::object{{kCertificate, base64(text.substr(certificate))},
                              {kPrivateKey, key.text()}}}};
    const EraseJsonOnExit erased(secret);
    Result<json::object> created = api_.create(kSecrets, secret);
    if (created.ok()) {
      erase_data(*created);
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
    SecretBytes pem;
    for (const char* field : {kCertificate, kPrivateKey}) {
      const json::value* const data = secret.if_contains("data");
      const json::object* const fields = data ? data->if_object() : nullptr;
      const json::value* const value = fields ? fields->if_contains(field) : nullptr;
      const json::string* const text = value ? value->if_string() : nullptr;
      if (!text || text->empty()) return invalid(field, "is missing");
      if (text->size() > kMaxField) return invalid(field, "is too large for a CA");
      std::optional<std::string> decoded = from_base64(*text);
      if (!decoded) return invalid(field, "is not Base64");
      pem.append(SecretBytes(*std::move(decoded)).text()).append("\n");
    }
    return std::optional<PrivateKey>(std::in_place, std::move(pem));
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
