#include <boost/json/object.hpp>
#include <optional>
#include <utility>

#include "base/base64.hpp"
#include "base/json.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/client/secret_text.hpp"
#include "osm/kubernetes/cluster.hpp"

namespace osm::inline v1::kubernetes {

namespace json = boost::json;

Result<std::string> read_secret(Cluster& cluster, const std::string& ns, const std::string& name,
                                const std::string& key) {
  const std::string what = "Secret " + ns + '/' + name;
  Result<json::object> secret = cluster.api().get(kSecrets, ns, name);
  if (!secret.ok()) {
    Error failed = secret.error().with_context(what);
    if (failed.code == ErrorCode::kPermissionDenied)
      failed.message += "; let this daemon's ServiceAccount get that Secret";
    return failed;
  }
  const json::value* const value = member(map_at(*secret, "data"), key);
  const json::string* const text = value ? value->if_string() : nullptr;
  std::optional<std::string> bytes;
  if (text) bytes = from_base64(*text);
  erase_data(*secret);
  if (bytes && !bytes->empty()) return *std::move(bytes);
  return Error{ErrorCode::kInvalidField, what + ": data[\"" + key + "\"] is missing or empty"};
}

}  // namespace osm::inline v1::kubernetes
