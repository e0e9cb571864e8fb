#include "mesh/root_objects.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "cluster_flags.hpp"
#include "osm/kubernetes/objects.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;
using kubernetes::Cluster;
using kubernetes::ObjectKind;

constexpr const char* kRbac = "rbac.authorization.k8s.io";

ObjectKind root_kind() {
  return {"config.openservicemesh.io", "v1alpha2", "meshrootcertificates", "MeshRootCertificate"};
}

json::object object_of(const ObjectKind& kind, const std::string& ns, const std::string& name) {
  return {{"apiVersion", kind.group + '/' + kind.version},
          {"kind", kind.kind},
          {"metadata", {{"name", name}, {"namespace", ns}}}};
}

// True if it was there.
Result<bool> create(Cluster& cluster, const ObjectKind& kind, const json::object& object) {
  const auto created = kubernetes::create_object(cluster, kind, json::serialize(object));
  if (created.ok()) return false;
  if (created.error().code == ErrorCode::kAlreadyExists) return true;
  return created.error();
}

// Lets the daemons read the Secret of the root's CA.
Status grant(Cluster& cluster, const std::string& ns, const std::string& root,
             const std::string& secret) {
  const std::string name = "osm-root-" + root;
  const ObjectKind roles{kRbac, "v1", "roles", "Role"};
  const ObjectKind bindings{kRbac, "v1", "rolebindings", "RoleBinding"};
  json::object role = object_of(roles, ns, name);
  role["rules"] = json::array{json::object{{"apiGroups", json::array{""}},
                                           {"resources", json::array{"secrets"}},
                                           {"resourceNames", json::array{json::value(secret)}},
                                           {"verbs", json::array{"get"}}}};
  json::object binding = object_of(bindings, ns, name);
  binding["roleRef"] = {{"apiGroup", kRbac}, {"kind", "Role"}, {"name", name}};
  json::array& subjects = binding["subjects"].emplace_array();
  for (const char* account : {"osm-controller", "osm-injector"})
    subjects.push_back(
        json::object{{"kind", "ServiceAccount"}, {"name", account}, {"namespace", ns}});
  OSM_TRY(create(cluster, roles, role));
  OSM_TRY(create(cluster, bindings, binding));
  return {};
}

Status set_role(Cluster& cluster, const std::string& ns, const std::string& root,
                const char* role) {
  OSM_TRY(kubernetes::patch_object(cluster, root_kind(), ns, root,
                                   json::serialize(json::object{{"spec", {{"role", role}}}})));
  return {};
}

}  // namespace

Status declare_root(const MeshFlags& mesh, const std::string& name,
                    const std::string& trust_domain) {
  const std::string& ns = mesh.osm_namespace;
  const std::string secret = name + "-ca";
  OwnRuntime runtime({.least = LogLevel::kError});
  OSM_TRY(const auto cluster, connect(mesh.cluster, runtime));
  OSM_TRY(const auto before, kubernetes::list_objects(*cluster, root_kind(), {ns}));
  OSM_TRY(grant(*cluster, ns, name, secret));
  json::object root = object_of(root_kind(), ns, name);
  root["spec"] = {
      {"role", "active"},
      {"provider", {{"tresor", {{"ca", {{"secretRef", {{"name", secret}, {"namespace", ns}}}}}}}}}};
  if (!trust_domain.empty()) root["spec"].as_object()["trustDomain"] = trust_domain;
  OSM_TRY(const bool declared, create(*cluster, root_kind(), root));
  if (declared) OSM_TRY(set_role(*cluster, ns, name, "active"));
  for (const std::string& text : before) {
    OSM_TRY(const json::object object, parse_json_object(text, "the API server's answer"));
    const std::string other = text_at(map_at(object, "metadata"), "name");
    if (other != name && text_at(map_at(object, "spec"), "role") == "active")
      OSM_TRY(set_role(*cluster, ns, other, "inactive"));
  }
  return {};
}

}  // namespace osm::cli
