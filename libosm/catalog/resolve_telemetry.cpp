#include "catalog/resolve_telemetry.hpp"

#include <algorithm>

#include "base/maps.hpp"
#include "osm/values/telemetry.hpp"

namespace osm::inline v1::catalog {
namespace {

ObjectKey key_of(const TelemetryName& name) { return {kinds::kTelemetry, name.ns, name.name}; }

bool matches(const TelemetrySelectors::Labels& selector, const TelemetrySelectors::Labels& labels) {
  return std::all_of(selector.begin(), selector.end(), [&](const auto& wanted) {
    const auto at = labels.find(wanted.first);
    return at != labels.end() && at->second == wanted.second;
  });
}

class TelemetryResolver {
 public:
  explicit TelemetryResolver(const SpecSnapshot& objects) : objects_(objects) {
    out_.selectors.set_mesh_wide(objects.config_key.ns);
  }

  ResolvedTelemetry run() && {
    for (const auto& policy : objects_.policies)
      if (const auto* telemetry = policy->get<Telemetry>())
        add({policy->key.ns, policy->key.name}, *telemetry);
    return std::move(out_);
  }

 private:
  void add(const TelemetryName& name, const Telemetry& telemetry) {
    if (const auto kept = out_.selectors.add(name, telemetry.selector))
      report(name, ErrorCode::kDuplicateObject, "spec.selector",
             key_of(*kept).str() + " has no selector either and is used; merge the two, or give " +
                 "one of them a selector");
    if (!telemetry.selector.empty() && name.ns == objects_.config_key.ns &&
        !std::binary_search(objects_.namespaces.begin(), objects_.namespaces.end(), name.ns))
      report(name, ErrorCode::kUnusedField, "spec.selector",
             "selects nothing: namespace " + name.ns +
                 " is not in the mesh, and a selector concerns workloads of its own namespace; "
                 "remove it to concern the whole mesh");
    out_.entries.push_back({name, telemetry.format, collector_of(name, telemetry), {key_of(name)}});
  }

  std::optional<model::TelemetryEntry::Collector> collector_of(const TelemetryName& name,
                                                               const Telemetry& telemetry) {
    if (!telemetry.open_telemetry) return std::nullopt;
    const auto& [wanted, attributes] = *telemetry.open_telemetry;
    const std::string field = "spec.accessLog.openTelemetry.extensionService";
    if (wanted.ns != name.ns && wanted.ns != objects_.config_key.ns) {
      report(name, ErrorCode::kCrossNamespace, field + ".namespace",
             "must be the Telemetry's own namespace, " + name.ns + ", or the control plane's, " +
                 objects_.config_key.ns + "; nothing is exported");
      return std::nullopt;
    }
    const ObjectKey key{kinds::kExtensionService, wanted.ns, wanted.name};
    const auto found = objects_.policies.find(key);
    const auto* server = found ? found->get<ExtensionService>() : nullptr;
    if (server == nullptr) {
      report(name, ErrorCode::kDanglingReference, field + ".name",
             key.str() + " is not there, or is invalid and left out; nothing is exported");
      return std::nullopt;
    }
    return model::TelemetryEntry::Collector{wanted, *server, attributes};
  }

  void report(const TelemetryName& name, ErrorCode code, std::string field, std::string cause) {
    out_.problems.push_back({.code = code,
                             .object = key_of(name),
                             .path = {},
                             .field = std::move(field),
                             .cause = std::move(cause)});
  }

  const SpecSnapshot& objects_;
  ResolvedTelemetry out_;
};

}  // namespace

std::optional<TelemetryName> TelemetrySelectors::add(const TelemetryName& name,
                                                     const Labels& selector) {
  OfNamespace& own = namespaces_[name.ns];
  if (!selector.empty()) {
    own.selective.emplace_back(name, selector);
    return std::nullopt;
  }
  if (own.unselective) return own.unselective;
  own.unselective = name;
  return std::nullopt;
}

std::vector<TelemetryName> TelemetrySelectors::selecting(const Workload& workload) const {
  std::vector<TelemetryName> out;
  if (const OfNamespace* own = find_in(namespaces_, workload.name.ns))
    for (const auto& [name, selector] : own->selective)
      if (matches(selector, workload.labels)) out.push_back(name);
  return out;
}

std::optional<TelemetryName> TelemetrySelectors::unselective(const std::string& ns) const {
  if (const OfNamespace* own = find_in(namespaces_, ns); own && own->unselective)
    return own->unselective;
  const OfNamespace* mesh = find_in(namespaces_, mesh_wide_);
  return mesh ? mesh->unselective : std::nullopt;
}

ResolvedTelemetry resolve_telemetry(const SpecSnapshot& objects) {
  return TelemetryResolver(objects).run();
}

Problem overlap_problem(const TelemetryName& kept, const TelemetryName& left_out,
                        const WorkloadName& workload) {
  return {.code = ErrorCode::kDuplicateObject,
          .object = key_of(left_out),
          .path = {},
          .field = "spec.selector",
          .cause = key_of(kept).str() + " selects workload " + workload.str() +
                   " as well and is used; make one of the selectors narrower"};
}

}  // namespace osm::inline v1::catalog
