// Faults that libosm's decoders find in objects that OSM v1.2 accepted.
#include <set>

#include "base/json.hpp"
#include "migrate/differences.hpp"
#include "model/spec_tables.hpp"
#include "osm/values/telemetry.hpp"

namespace osm::inline v1::migrate {
namespace {

// Objects that the mesh uses, although parts of them may be left out.
std::set<ObjectKey> kept(const Mesh& mesh) {
  const std::vector<ObjectKey> listed = model::differing({}, mesh.view);
  std::set<ObjectKey> out(listed.begin(), listed.end());
  for (const auto& [key, entry] : mesh.decoded.configs.entries)
    if (entry.value) out.insert(key);
  return out;
}

bool is_account(const boost::json::value& reference) {
  return text_at(reference, "kind") == kinds::kServiceAccount.kind &&
         !text_at(reference, "namespace").empty();
}

// True if OSM v1.2 dropped the TrafficTarget as well.
bool dropped_before(const Object& target) {
  const auto& spec = map_at(*target.document, "spec");
  const auto* destination = member(spec, "destination");
  if (destination == nullptr || !is_account(*destination) ||
      text_at(*destination, "namespace") != target.key.ns || list_at(spec, "rules").empty())
    return true;
  for (const auto& rule : list_at(spec, "rules")) {
    const std::string kind = text_at(rule, "kind");
    if (kind != kinds::kHttpRouteGroup.kind && kind != kinds::kTcpRoute.kind) return true;
  }
  return false;
}

// True if `field` is in a source that OSM v1.2 ignored as well.
bool in_ignored_source(const Object& target, std::string_view field) {
  const auto& sources = list_at(map_at(*target.document, "spec"), "sources");
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (field.starts_with("spec.sources[" + std::to_string(i) + "]") && !is_account(sources[i]))
      return true;
  return false;
}

// True if OSM v1.2 did the same, or if another comparison reports it.
bool is_same(const Mesh& mesh, const Object& object, const Problem& problem) {
  if (problem.code == ErrorCode::kDanglingReference) return true;
  const ObjectKey& key = object.key;
  if (key.is(kinds::kTrafficTarget))
    return problem.code == ErrorCode::kUnusedField || dropped_before(object) ||
           in_ignored_source(object, problem.field);
  if (key.is(kinds::kTrafficSplit))
    return problem.code == ErrorCode::kUnusedField ||
           (problem.code == ErrorCode::kInvalidWeights && problem.field == "spec.backends");
  if (key.is(kinds::kService)) {
    // OSM v1.2 had no filter chain for ports of other protocols, and no address of ExternalName.
    const std::string_view field = problem.field;
    return field == "spec.type" || field.ends_with(".protocol") ||
           field.ends_with(".appProtocol") || problem.code == ErrorCode::kConflictingProtocol;
  }
  if (key.is(kinds::kEgress))  // with global egress its ports alone are compared
    return problem.code == ErrorCode::kUnusedField || !mesh.before.egress_policy ||
           mesh.before.egress;
  if (key.is(kinds::kRetry)) return !mesh.before.retry_policy;
  if (key.is(kinds::kIngressBackend) && problem.code == ErrorCode::kUnusedField) return true;
  if (key.is(kinds::kUpstreamTrafficSetting))  // OSM v1.2 found it by the full name only
    return !text_at(map_at(*object.document, "spec"), "host").ends_with(".svc.cluster.local");
  return key.is(kinds::kMeshConfig) && problem.code == ErrorCode::kUnusedField;
}

bool decides_access(const Mesh& mesh, const ObjectKey& key) {
  if (key.is(kinds::kTrafficSplit) || key.is(kinds::kRetry) ||
      key.is(kinds::kUpstreamTrafficSetting) || key.is(kinds::kTelemetry) ||
      key.is(kinds::kExtensionService))
    return false;
  const bool smi =
      key.is(kinds::kTrafficTarget) || key.is(kinds::kHttpRouteGroup) || key.is(kinds::kTcpRoute);
  return !smi || !mesh.before.permissive;
}

Finding finding_of(const Mesh& mesh, const Problem& problem, bool left_out) {
  Finding finding{.verdict = left_out ? Verdict::kNothing : Verdict::kLess,
                  .field = problem.field,
                  .reason = problem.cause,
                  .remedy = "Correct the field as the reason says."};
  const bool notice = severity_of(problem.code) == Severity::kNotice ||
                      problem.field.starts_with("metadata.annotations");
  if (!notice && decides_access(mesh, problem.object)) finding.access = Access::kRefused;
  if (left_out) finding.reason += "; the object is left out here";
  if (problem.object.is(kinds::kMeshConfig) && left_out)
    finding.reason += ", and a controller does not start to serve without a valid MeshConfig";
  return finding;
}

}  // namespace

void compare_decoded(const Mesh& mesh, Differences& out) {
  const std::set<ObjectKey> used = kept(mesh);
  for (const Problem& problem : mesh.problems) {
    const auto at = mesh.objects.find(problem.object);
    if (at == mesh.objects.end() || is_same(mesh, *at->second, problem)) continue;
    out.add(*at->second, finding_of(mesh, problem, !used.contains(problem.object)));
  }
}

}  // namespace osm::inline v1::migrate
