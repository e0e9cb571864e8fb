// Telemetries: the collectors that they name, and the workloads that they are in effect for. Pure.
//
// Order of precedence: a Telemetry of the workload's namespace whose selector matches, one of the
// namespace without a selector, one of the control plane's namespace without a selector. Of equals
// the first by name counts.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/mesh_snapshot.hpp"
#include "model/spec_tables.hpp"
#include "osm/object.hpp"
#include "osm/values/workload.hpp"

namespace osm::inline v1::catalog {

// The selectors of all Telemetries.
class TelemetrySelectors {
 public:
  using Labels = std::map<std::string, std::string>;

  // Adds a Telemetry, in the order of their names. Result: the one that counts in its place, if it
  // has no selector and another one came first.
  std::optional<TelemetryName> add(const TelemetryName& name, const Labels& selector);
  // Sets the namespace whose Telemetries without a selector concern all namespaces.
  void set_mesh_wide(std::string ns) { mesh_wide_ = std::move(ns); }

  // The Telemetries of the workload's namespace whose selectors match its labels, ordered.
  std::vector<TelemetryName> selecting(const Workload& workload) const;
  // The Telemetry of a workload that no selector matches.
  std::optional<TelemetryName> unselective(const std::string& ns) const;

  friend bool operator==(const TelemetrySelectors&, const TelemetrySelectors&) = default;

 private:
  struct OfNamespace {
    std::optional<TelemetryName> unselective;
    std::vector<std::pair<TelemetryName, Labels>> selective;  // ordered by name

    friend bool operator==(const OfNamespace&, const OfNamespace&) = default;
  };
  std::map<std::string, OfNamespace> namespaces_;
  std::string mesh_wide_;
};

struct ResolvedTelemetry {
  TelemetrySelectors selectors;
  std::vector<model::TelemetryEntry> entries;  // ordered by name
  // Collectors that cannot be used, and Telemetries without effect.
  std::vector<Problem> problems;
};
ResolvedTelemetry resolve_telemetry(const SpecSnapshot& objects);

// The problem of `left_out`, which selects the workload as well as `kept`.
Problem overlap_problem(const TelemetryName& kept, const TelemetryName& left_out,
                        const WorkloadName& workload);

}  // namespace osm::inline v1::catalog
