// apiVersions and kinds that libosm does not know, and CRDs with such versions in their storage.
#include "base/json.hpp"
#include "migrate/differences.hpp"

namespace osm::inline v1::migrate {
namespace {

namespace json = boost::json;

// Access that is lost when the object is left out.
Access access_of(const Mesh& mesh, const Object& object) {
  const ObjectKey& key = object.key;
  const bool grants =
      key.is(kinds::kTrafficTarget) || key.is(kinds::kHttpRouteGroup) || key.is(kinds::kTcpRoute);
  if (grants && !mesh.before.permissive) return Access::kRefused;
  if (!key.is(kinds::kMeshConfig)) return Access::kSame;
  // Without a MeshConfig, SMI mode without egress and authorizer is in force.
  if (mesh.before.permissive || mesh.before.egress) return Access::kRefused;
  return mesh.before.authorization ? Access::kAllowed : Access::kSame;
}

std::string remedy_of(const Object& object, const spec::Kind& kind) {
  const std::string write = "Write apiVersion: " + kind.api_version();
  if (kind.name == kinds::kMeshConfig) return write + "; all fields of the old version are in it.";
  if (kind.name == kinds::kTrafficSplit)
    return write + ", with weights that are whole numbers, and without matches.";
  if (kind.name == kinds::kTrafficTarget && object.api_version.ends_with("/v1alpha1"))
    return write + ": put destination, sources and specs under spec, and call specs rules.";
  if (kind.name == kinds::kTrafficTarget)
    return write + "; instead of destination.port, name a TCPRoute with that port in spec.rules.";
  return write + ", with matches under spec.";
}

void compare_crd(const Object& crd, Differences& out) {
  const auto& spec = map_at(*crd.document, "spec");
  const std::string group = text_at(spec, "group");
  const std::string name = text_at(map_at(spec, "names"), "kind");
  const spec::Kind* kind = spec::find_kind(spec::mesh_kinds(), {group, name});
  if (kind == nullptr) return;
  for (const json::value& stored : list_at(map_at(*crd.document, "status"), "storedVersions")) {
    if (!stored.is_string() || stored.get_string() == kind->version) continue;
    const std::string version(stored.get_string());
    out.add(crd,
            {.verdict = Verdict::kNothing,
             .field = "status.storedVersions",
             .reason = "objects may be stored as " + version + ", and the definition of " + name +
                       " here has " + std::string(kind->version) +
                       " only: the API server refuses it, and would not read such objects",
             .remedy = "`osm install` mends it. Before any other tool installs it, write every " +
                       name + " once without a change (`kubectl get " + std::string(kind->plural) +
                       "." + group + " -A -o yaml | kubectl replace -f -`), then take " + version +
                       " out of status.storedVersions of this definition."});
  }
}

}  // namespace

void compare_versions(const Mesh& mesh, Differences& out) {
  for (const auto& [key, object] : mesh.objects) {
    if (key.kind == "CustomResourceDefinition") {
      compare_crd(*object, out);
    } else if (known_kind(*object) != nullptr || key.is(kinds::kPod)) {
      continue;
    } else if (const spec::Kind* kind = spec::find_kind(spec::mesh_kinds(), key.group_kind())) {
      out.add(*object, {.verdict = Verdict::kNothing,
                        .access = access_of(mesh, *object),
                        .field = "apiVersion",
                        .reason = object->api_version + " is not read here: the object is left out",
                        .remedy = remedy_of(*object, *kind)});
    } else {
      out.add(*object, {.verdict = Verdict::kNothing,
                        .field = "kind",
                        .reason = "libosm has no " + key.kind + ", nor had OSM v1.2",
                        .remedy = "Delete the object."});
    }
  }
}

}  // namespace osm::inline v1::migrate
