#include "mesh/root_grant.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "osm/kubernetes/objects.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;
using kubernetes::Cluster;
using kubernetes::ObjectKind;

constexpr const char* kRbac = "rbac.authorization.k8s.io";

json::object object_of(const ObjectKind& kind, const std::string& ns, const std::string& name) {
  return {{"apiVersion", kind.group + '/' + kind.version},
          {"kind", kind.kind},
          {"metadata", {{"name", name}, {"namespace", ns}}}};
}

Status create(Cluster& cluster, const ObjectKind& kind, const json::object& object) {
  const auto created = kubernetes::create_object(cluster, kind, json::serialize(object));
  if (created.ok() || created.error().code == ErrorCode::kAlreadyExists) return {};
  return created.error();
}

}  // namespace

Status grant_root(Cluster& cluster, const std::string& ns, const std::string& root,
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
  return create(cluster, bindings, binding);
}

}  // namespace osm::cli
