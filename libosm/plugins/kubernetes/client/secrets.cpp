// Secrets of hosts and other plugins, and the mesh's CA in one.
#include <boost/json/object.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/base64.hpp"
#include "base/json.hpp"
#include "base/secret_json.hpp"
#include "kubernetes/client/resources.hpp"
#include "osm/kubernetes/cluster.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;
using certificate::PrivateKey;

constexpr const char* kCertificate = "ca.crt";
constexpr const char* kPrivateKey = "private.key";
constexpr std::size_t kMaxField = 64 * 1024;
constexpr std::string_view kCertificateBegins = "-----BEGIN CERTIFICATE-----";

// Null: the Secret has no such text.
const json::string* field_of(const json::object& secret, const std::string& name) {
  const json::value* const value = member(map_at(secret, "data"), name);
  return value ? value->if_string() : nullptr;
}

Error failed(const Error& error, const std::string& what, const char* verbs) {
  Error out = error.with_context(what);
  if (error.code == ErrorCode::kPermissionDenied)
    out.message += std::string("; let this daemon's ServiceAccount ") + verbs + " that Secret";
  return out;
}

json::object strings_of(const std::map<std::string, std::string>& strings) {
  json::object out;
  for (const auto& [name, value] : strings) out[name] = value;
  return out;
}

// `ca.crt` and `private.key`, PEM, as the original keeps them. The API server decides a race: one
// replica creates the Secret, the others read it. The Secret may hold an imported root; a key that
// does not match the certificate is refused when the CA is loaded.
class SecretCaStore final : public certificate::CaStore {
 public:
  SecretCaStore(Cluster& cluster, std::string ns, std::string name)
      : cluster_(cluster), ns_(std::move(ns)), name_(std::move(name)) {}

  std::string name() const override {
    return "certificate authority in Secret " + ns_ + '/' + name_;
  }

  Result<std::optional<PrivateKey>> load() override {
    Result<json::object> secret = cluster_.api().get(kSecrets, ns_, name_);
    if (!secret.ok() && secret.error().code == ErrorCode::kNotFound)
      return std::optional<PrivateKey>();
    if (!secret.ok()) return failed(secret.error(), name(), kVerbs);
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
    const Status created = create_secret(
        cluster_, {.ns = ns_,
                   .name = name_,
                   .labels = {{"app.kubernetes.io/name", "openservicemesh.io"}},
                   .data = {{kCertificate, SecretBytes(std::string(text.substr(certificate)))},
                            {kPrivateKey, SecretBytes(std::string(text.substr(0, certificate)))}}});
    if (created.ok() || created.error().code == ErrorCode::kAlreadyExists) return {};
    return failed(created.error(), name(), kVerbs);
  }

 private:
  static constexpr const char* kVerbs = "get and create";

  Error invalid(const std::string& field, const char* what) const {
    return {ErrorCode::kInvalidCertificate,
            name() + ": data[\"" + field + "\"] " + what + "; restore the Secret from a backup"};
  }

  Result<std::optional<PrivateKey>> read(const json::object& secret) const {
    SecretBytes pem;
    for (const char* field : {kCertificate, kPrivateKey}) {
      const json::string* const text = field_of(secret, field);
      if (!text || text->empty()) return invalid(field, "is missing");
      if (text->size() > kMaxField) return invalid(field, "is too large for a CA");
      std::optional<std::string> decoded = from_base64(*text);
      if (!decoded) return invalid(field, "is not Base64");
      pem.append(SecretBytes(*std::move(decoded)).text()).append("\n");
    }
    return std::optional<PrivateKey>(std::in_place, std::move(pem));
  }

  Cluster& cluster_;
  const std::string ns_;
  const std::string name_;
};

}  // namespace

Status create_secret(Cluster& cluster, const Secret& secret) {
  json::object object = new_object(kSecrets, secret.ns, secret.name, strings_of(secret.labels));
  object["metadata"].as_object()["annotations"] = strings_of(secret.annotations);
  object["type"] = "Opaque";
  json::object& data = object["data"].emplace_object();
  const EraseJsonOnExit erased(data);
  for (const auto& [name, bytes] : secret.data)
    data[name] = SecretBytes(base64(bytes.text())).text();
  OSM_TRY(json::object created, cluster.api().create(kSecrets, object));
  erase_data(created);
  return {};
}

Result<std::string> read_secret(Cluster& cluster, const std::string& ns, const std::string& name,
                                const std::string& key) {
  const std::string what = "Secret " + ns + '/' + name;
  Result<json::object> secret = cluster.api().get(kSecrets, ns, name);
  if (!secret.ok()) return failed(secret.error(), what, "get");
  const json::string* const text = field_of(*secret, key);
  std::optional<std::string> bytes;
  if (text) bytes = from_base64(*text);
  erase_data(*secret);
  if (bytes && !bytes->empty()) return *std::move(bytes);
  return Error{ErrorCode::kInvalidField, what + ": data[\"" + key + "\"] is missing or empty"};
}

std::unique_ptr<certificate::CaStore> make_ca_store(Cluster& cluster, std::string ns,
                                                    std::string name) {
  return std::make_unique<SecretCaStore>(cluster, std::move(ns), std::move(name));
}

}  // namespace osm::inline v1::kubernetes
