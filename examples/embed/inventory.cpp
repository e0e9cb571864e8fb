#include "inventory.hpp"

#include <osm/spec/kinds.hpp>
#include <utility>

namespace vendor {
namespace {

std::string quoted(const std::string& text) { return '"' + text + '"'; }

// {"name": "value", ...}
std::string map_of(const std::map<std::string, std::string>& members) {
  std::string text;
  for (const auto& [name, value] : members)
    text += (text.empty() ? "" : ",") + quoted(name) + ':' + quoted(value);
  return '{' + text + '}';
}

}  // namespace

Inventory::Inventory(std::string tenant) : tenant_(std::move(tenant)) {
  put({osm::kinds::kNamespace, "", tenant_}, "v1", "",
      {{"openservicemesh.io/monitored-by", "osm"}});
  put({osm::kinds::kHttpRouteGroup, tenant_, "reads"}, "specs.smi-spec.io/v1alpha4",
      R"("spec":{"matches":[{"name":"get","pathRegex":".*","methods":["GET"]}]})");
}

void Inventory::add(const Host& host) {
  put({osm::kinds::kServiceAccount, tenant_, host.name}, "v1", "");
  put({osm::kinds::kVirtualMachine, tenant_, host.name}, "workload.openservicemesh.io/v1alpha1",
      R"("spec":{"address":)" + quoted(host.address) + R"(,"serviceAccount":)" + quoted(host.name) +
          "}",
      {{"host", host.name}});
}

void Inventory::add(const App& app) {
  put({osm::kinds::kService, tenant_, app.name}, "v1",
      R"("spec":{"clusterIP":)" + quoted(app.address) + R"(,"selector":{"host":)" +
          quoted(app.name) + R"(},"ports":[{"name":"http","port":)" + std::to_string(app.port) +
          "}]}");
}

void Inventory::allow(const std::string& client, const std::string& app) {
  const auto account = [&](const std::string& name) {
    return R"({"kind":"ServiceAccount","name":)" + quoted(name) + R"(,"namespace":)" +
           quoted(tenant_) + "}";
  };
  put({osm::kinds::kTrafficTarget, tenant_, client + "-to-" + app}, "access.smi-spec.io/v1alpha3",
      R"("spec":{"destination":)" + account(app) + R"(,"sources":[)" + account(client) +
          R"(],"rules":[{"kind":"HTTPRouteGroup","name":"reads","matches":["get"]}]})");
}

void Inventory::forbid(const std::string& client, const std::string& app) {
  const osm::ObjectKey key{osm::kinds::kTrafficTarget, tenant_, client + "-to-" + app};
  {
    std::lock_guard lock(mutex_);
    objects_.erase(key);
  }
  changed_.notify({key});
}

void Inventory::put(const osm::ObjectKey& key, const std::string& api_version,
                    const std::string& body, const std::map<std::string, std::string>& labels) {
  const std::string place = key.ns.empty() ? "" : R"("namespace":)" + quoted(key.ns) + ',';
  const std::string text = R"({"apiVersion":)" + quoted(api_version) + R"(,"kind":)" +
                           quoted(key.kind) + R"(,"metadata":{"name":)" + quoted(key.name) + ',' +
                           place + R"("labels":)" + map_of(labels) + '}' +
                           (body.empty() ? "" : ',' + body) + '}';
  const auto objects = osm::spec::read_objects(text, "inventory").value();
  {
    std::lock_guard lock(mutex_);
    objects_[key] = objects.front();
  }
  changed_.notify({key});  // without the lock: subscribers read back
}

std::vector<std::shared_ptr<const osm::Object>> Inventory::list(const osm::GroupKind& kind) const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const osm::Object>> found;
  for (const auto& [key, object] : objects_)
    if (key.is(kind)) found.push_back(object);
  return found;
}

std::shared_ptr<const osm::Object> Inventory::get(const osm::ObjectKey& key) const {
  std::lock_guard lock(mutex_);
  const auto at = objects_.find(key);
  return at == objects_.end() ? nullptr : at->second;
}

}  // namespace vendor
