#include <boost/json/object.hpp>

#include "base/base64.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/client/secret_text.hpp"
#include "osm/kubernetes/cluster.hpp"

namespace osm::inline v1::kubernetes {

namespace json = boost::json;

Status create_secret(Cluster& cluster, const Secret& secret) {
  json::object labels, annotations;
  for (const auto& [name, value] : secret.labels) labels[name] = value;
  for (const auto& [name, value] : secret.annotations) annotations[name] = value;
  json::object data;
  for (const auto& [name, bytes] : secret.data)
    data[name] = SecretBytes(base64(bytes.text())).text();
  json::object object{{"apiVersion", kSecrets.api_version()},
                      {"kind", kSecrets.kind},
                      {"metadata", json::object{{"namespace", secret.ns},
                                                {"name", secret.name},
                                                {"labels", std::move(labels)},
                                                {"annotations", std::move(annotations)}}},
                      {"type", "Opaque"},
                      {"data", std::move(data)}};
  const EraseJsonOnExit erased(object);
  Result<json::object> created = cluster.api().create(kSecrets, object);
  if (!created.ok()) return created.error();
  erase_data(*created);
  return {};
}

}  // namespace osm::inline v1::kubernetes
