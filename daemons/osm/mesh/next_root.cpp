#include "mesh/next_root.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <utility>

#include "base/json.hpp"
#include "mesh/object_commands.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/ids.hpp"
#include "osm/kubernetes/objects.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;
using std::chrono::steady_clock;

// Lets the daemons read the Secret of the root's CA, by a Role and a RoleBinding.
Status grant(kubernetes::Cluster& cluster, const std::string& ns, const std::string& root,
             const std::string& secret) {
  const std::string group = "rbac.authorization.k8s.io", name = "osm-root-" + root;
  const auto create = [&](const char* kind, const char* plural, json::object object) -> Status {
    object["apiVersion"] = group + "/v1";
    object["kind"] = kind;
    object["metadata"] = {{"name", name}, {"namespace", ns}};
    const auto made =
        kubernetes::create_object(cluster, {group, "v1", plural, kind}, json::serialize(object));
    if (made.ok() || made.error().code == ErrorCode::kAlreadyExists) return {};
    return made.error();
  };
  const json::object rule{{"apiGroups", json::array{""}},
                          {"resources", json::array{"secrets"}},
                          {"resourceNames", json::array{json::value(secret)}},
                          {"verbs", json::array{"get"}}};
  json::array subjects;
  for (const char* account : {"osm-controller", "osm-injector"})
    subjects.push_back({{"kind", "ServiceAccount"}, {"name", account}, {"namespace", ns}});
  OSM_TRY(create("Role", "roles", {{"rules", json::array{json::value(rule)}}}));
  return create("RoleBinding", "rolebindings",
                {{"roleRef", {{"apiGroup", group}, {"kind", "Role"}, {"name", name}}},
                 {"subjects", subjects}});
}

json::value with_role(json::value root, const char* role) {
  spec_of(root)["role"] = role;
  return root;
}

}  // namespace

Result<std::vector<Root>> list_roots(const AdminClient& client) {
  OSM_TRY(const json::value answer, client.get("/v1/roots"));
  const json::value* list = member(answer, "roots");
  if (!list || !list->is_array())
    return Error{ErrorCode::kInternal, "the controller's answer is not understood"};
  std::vector<Root> roots;
  for (const json::value& root : list->get_array())
    roots.push_back({text_at(root, "name"), text_at(root, "state"), text_at(root, "role"),
                     text_at(root, "waiting_for"), text_at(root, "trust_domain")});
  return roots;
}

Status declare_root(const Flags& flags, const ObjectPlace& place, const NextRoot& wanted,
                    std::vector<Root> roots) {
  const std::string& next = wanted.name;
  const std::string& ns = flags.mesh.osm_namespace;
  const auto key = [&](const std::string& name) {
    return ObjectKey{kinds::kMeshRootCertificate, ns, name};
  };
  std::string domain = wanted.trust_domain;
  for (const Root& root : roots)
    if (domain.empty() && root.state == "signing") domain = root.trust_domain;
  if (place.cluster) {  // a replica's record may lack a root that was declared a moment ago
    OSM_TRY(const auto texts,
            kubernetes::list_objects(*place.cluster,
                                     {"config.openservicemesh.io", "v1alpha2",
                                      "meshrootcertificates", "MeshRootCertificate"},
                                     {.ns = ns}));
    roots.clear();
    for (const std::string& text : texts) {
      OSM_TRY(const json::object root, parse_json_object(text, "a root"));
      const std::string role = text_at(map_at(root, "spec"), "role");
      roots.push_back(
          {text_at(map_at(root, "metadata"), "name"), "", role.empty() ? "active" : role, "", ""});
    }
  }
  std::vector<std::string> replaced;
  for (const Root& root : roots) {
    if (root.name == next || root.name == kOwnRoot || root.role != "active") continue;
    const auto stored = place.writer->read(key(root.name));
    if (!stored.ok())
      return stored.error().with_context("spec.role of the active root has to become inactive");
    if (!stored->object)
      return Error{ErrorCode::kConflict, key(root.name).str() +
                                             " is active in the mesh, but not in " + place.name +
                                             ": give the --mesh-dir / --osm-namespace of the mesh"};
    replaced.push_back(root.name);
  }
  const std::string secret = place.cluster ? next + "-ca" : next;
  if (place.cluster) OSM_TRY(grant(*place.cluster, ns, next, secret));
  const auto deadline = steady_clock::now() + flags.timeout;
  OSM_TRY(edit_object(*place.writer, key(next), deadline, [&](json::value root) {
    if (root.is_null()) {
      json::object spec{
          {"role", "active"},
          {"trustDomain", domain},
          {"provider",
           {{"tresor", {{"ca", {{"secretRef", {{"name", secret}, {"namespace", ns}}}}}}}}}};
      if (domain.empty()) spec.erase("trustDomain");
      root = document_of(key(next));
      root.get_object()["spec"] = std::move(spec);
    } else if (const std::string present = text_at(spec_of(root), "trustDomain");
               !wanted.trust_domain.empty() && wanted.trust_domain != present) {
      return Result<json::value>(
          Error{ErrorCode::kAlreadyExists,
                key(next).str() + " is there already, with " +
                    (present.empty() ? "no trustDomain" : "the trustDomain " + present) +
                    ": leave --trust-domain out, or give another --name"});
    }
    return Result<json::value>(with_role(std::move(root), "active"));
  }));
  const ChangeDocument retire = [](json::value root) -> Result<json::value> {
    if (!root.is_null()) return with_role(std::move(root), "inactive");
    return Error{ErrorCode::kNotFound, "the root that was active is gone; repeat the command"};
  };
  // A controller that does not know the next root yet refuses it.
  for (const std::string& name : replaced)
    if (const Status done =
            edit_object(*place.writer, key(name), deadline, retire, ErrorCode::kInvalidField);
        !done.ok())
      return done.error().with_context("root " + next +
                                       " is declared; repeat the command with --name " + next);
  return {};
}

}  // namespace osm::cli
