#include "inventory.hpp"

#include <utility>

namespace vendor {
namespace {

std::string quoted(const std::string& text) { return '"' + text + '"'; }

std::string metadata(const osm::Object& object) {
  std::string labels;
  for (const auto& [name, value] : object.labels)
    labels += (labels.empty() ? "" : ",") + quoted(name) + ':' + quoted(value);
  return R"({"name":)" + quoted(object.key.name) + R"(,"namespace":)" + quoted(object.key.ns) +
         R"(,"labels":{)" + labels + "}}";
}

}  // namespace

Inventory::Inventory(std::string tenant) : tenant_(std::move(tenant)) {
  put({"Namespace", "", tenant_}, "v1", "", {{"openservicemesh.io/monitored-by", "osm"}});
  put({"HTTPRouteGroup", tenant_, "reads"}, "specs.smi-spec.io/v1alpha4",
      R"("spec":{"matches":[{"name":"get","pathRegex":".*","methods":["GET"]}]})");
}

void Inventory::add(const Host& host) {
  put({"ServiceAccount", tenant_, host.name}, "v1", "");
  put({"VirtualMachine", tenant_, host.name}, "workload.openservicemesh.io/v1alpha1",
      R"("spec":{"address":)" + quoted(host.address) + R"(,"serviceAccount":)" + quoted(host.name) +
          "}",
      {{"host", host.name}});
}

void Inventory::add(const App& app) {
  put({"Service", tenant_, app.name}, "v1",
      R"("spec":{"clusterIP":)" + quoted(app.address) + R"(,"selector":{"host":)" +
          quoted(app.name) + R"(},"ports":[{"name":"http","port":)" + std::to_string(app.port) +
          "}]}");
}

void Inventory::allow(const std::string& client, const std::string& app) {
  const auto account = [&](const std::string& name) {
    return R"({"kind":"ServiceAccount","name":)" + quoted(name) + R"(,"namespace":)" +
           quoted(tenant_) + "}";
  };
  put({"TrafficTarget", tenant_, client + "-to-" + app}, "access.smi-spec.io/v1alpha3",
      R"("spec":{"destination":)" + account(app) + R"(,"sources":[)" + account(client) +
          R"(],"rules":[{"kind":"HTTPRouteGroup","name":"reads","matches":["get"]}]})");
}

void Inventory::forbid(const std::string& client, const std::string& app) {
  const osm::ObjectKey key{"TrafficTarget", tenant_, client + "-to-" + app};
  {
    std::lock_guard lock(mutex_);
    objects_.erase(key);
  }
  changed_.notify({key});
}

void Inventory::put(osm::ObjectKey key, const std::string& api_version, const std::string& body,
                    std::map<std::string, std::string> labels) {
  auto object = std::make_shared<osm::Object>();
  object->key = std::move(key);
  object->api_version = api_version;
  object->labels = std::move(labels);
  object->json = R"({"apiVersion":)" + quoted(api_version) + R"(,"kind":)" +
                 quoted(object->key.kind) + R"(,"metadata":)" + metadata(*object) +
                 (body.empty() ? "" : ',' + body) + '}';
  object->source.path = "inventory";
  {
    std::lock_guard lock(mutex_);
    object->resource_version = std::to_string(++version_);
    objects_[object->key] = object;
  }
  changed_.notify({object->key});  // without the lock: subscribers read back
}

std::vector<std::shared_ptr<const osm::Object>> Inventory::list(std::string_view kind) const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const osm::Object>> found;
  for (const auto& [key, object] : objects_)
    if (key.kind == kind) found.push_back(object);
  return found;
}

std::shared_ptr<const osm::Object> Inventory::get(const osm::ObjectKey& key) const {
  std::lock_guard lock(mutex_);
  const auto at = objects_.find(key);
  return at == objects_.end() ? nullptr : at->second;
}

}  // namespace vendor
