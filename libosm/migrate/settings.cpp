// Settings of the mesh: MeshConfig and MeshRootCertificate.
#include <algorithm>
#include <array>

#include "base/json.hpp"
#include "migrate/differences.hpp"
#include "model/spec_tables.hpp"

namespace osm::inline v1::migrate {
namespace {

namespace json = boost::json;

// The value at "spec.sidecar.logLevel"; null: there is none.
const json::value* value_at(const json::value& document, std::string_view field) {
  const json::value* at = &document;
  while (at != nullptr && !field.empty()) {
    const auto dot = std::min(field.find('.'), field.size());
    at = member(*at, field.substr(0, dot));
    field.remove_prefix(std::min(dot + 1, field.size()));
  }
  return at;
}

// True for values that switch a field off.
bool is_off(const json::value* value) {
  if (value == nullptr || value->is_null()) return true;
  if (const auto* truth = value->if_bool()) return !*truth;
  if (const auto* text = value->if_string()) return text->empty() || *text == "0s";
  if (const auto* list = value->if_array()) return list->empty();
  return whole_number(*value) == 0;
}

// Flags that no code of OSM v1.2 read.
bool unread_before(std::string_view field) {
  constexpr auto kUnread =
      std::to_array<std::string_view>({"spec.featureFlags.enableAsyncProxyServiceMapping",
                                       "spec.featureFlags.enableMulticlusterMode"});
  return std::find(kUnread.begin(), kUnread.end(), field) != kUnread.end();
}

void compare_metrics(const Object& config, Differences& out) {
  constexpr const char* kField = "spec.featureFlags.enableWASMStats";
  if (is_off(value_at(*config.document, kField))) return;
  out.add(config,
          {.verdict = Verdict::kLess,
           .field = kField,
           .reason = "osm_request_total and osm_request_duration_ms are counted by the server's "
                     "sidecar alone; they name service accounts in place of workloads and pods, "
                     "and durations have no source",
           .remedy = "Scrape with the jobs of deploy/prometheus, and change dashboards that select "
                     "the kind, the name or the pod of a workload."});
}

void compare_config(const Object& config, const std::vector<Problem>& problems, Differences& out) {
  for (const Problem& problem : problems) {
    if (problem.code != ErrorCode::kUnusedField || unread_before(problem.field) ||
        is_off(value_at(*config.document, problem.field)))
      continue;
    const bool bits = problem.field == "spec.certificate.certKeyBitSize";
    out.add(config,
            {.verdict = Verdict::kLess,
             .field = problem.field,
             .reason = problem.cause,
             .remedy = bits ? "Set spec.certificate.keyAlgorithm: RSA to keep RSA keys, or remove "
                              "the field: the default is ECDSA with P-256."
                            : "Remove the field."});
  }
}

void compare_root(const MeshRootCertificate& root, const Object& object, Differences& out) {
  if (!std::holds_alternative<TresorProvider>(root.provider) && root.root_fingerprints.empty())
    out.add(object,
            {.verdict = Verdict::kLess,
             .access = Access::kRefused,
             .field = "spec.rootFingerprints",
             .reason = "a CA outside of the mesh is trusted here only if the fingerprint of "
                       "its root is listed; OSM v1.2 trusted the root that it was given",
             .remedy = "Add the SHA-256 of the CA's root certificate, as `openssl x509 "
                       "-noout -fingerprint -sha256` prints it."});
  const std::string state = text_at(map_at(*object.document, "status"), "state");
  const bool no_role = member(map_at(*object.document, "spec"), "role") == nullptr;
  if (no_role && (state == "inactive" || state == "error"))
    out.add(object, {.verdict = Verdict::kMore,
                     .field = "spec.role",
                     .reason = "the CA was not in use (status.state: " + state +
                               "); here spec.role decides, and its default is active",
                     .remedy = "Set spec.role: inactive, or delete the object."});
}

}  // namespace

void compare_settings(const Mesh& mesh, Differences& out) {
  for (const auto& [key, entry] : mesh.decoded.configs.entries) {
    compare_config(mesh.object(key), entry.problems, out);
    compare_metrics(mesh.object(key), out);
  }
  for (const auto& root : mesh.view.roots)
    compare_root(*root, mesh.object(model::key_of(*root, mesh.osm_namespace)), out);
}

}  // namespace osm::inline v1::migrate
