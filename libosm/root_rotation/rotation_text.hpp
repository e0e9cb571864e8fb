// What the rotation writes down: the record, and what a replica says of itself on the board. JSON,
// without secrets: anybody who may read the mesh's objects may read it.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "osm/result.hpp"
#include "osm/values/trust_domains.hpp"
#include "root_rotation/next_step.hpp"

namespace osm::inline v1::root_rotation {

std::string to_text(const std::vector<RootRecord>& records);
// A record that was written before roots had trust domains has empty ones. Failure: kInvalidSyntax.
Result<std::vector<RootRecord>> parse_records(const std::string& text);

// What all replicas must act on alike: which root signs, which are trusted, and of which domains.
std::string effect_of(const std::vector<RootRecord>& records);

// What they are together. `controller`: of the root that signs for the control plane.
TrustDomains domains_of(const std::vector<RootRecord>& records, const TrustDomain& controller);

// What one replica sees.
struct ReplicaView {
  std::string follows;  // effect_of() the record it acts on
  std::size_t proxies = 0;
  std::size_t bundle_lag = 0;
  std::size_t leaf_lag = 0;
  std::size_t own_lag = 0;
  std::vector<std::string> lagging;  // some of them
  bool young = false;                // who was connected before it started may not be again yet

  friend bool operator==(const ReplicaView&, const ReplicaView&) = default;
};
std::string to_text(const ReplicaView& view);
// Failure: kInvalidSyntax.
Result<ReplicaView> parse_view(const std::string& text);

// What they see together. `workloads`: of the mesh.
RotationEvidence sum_up(const std::map<std::string, std::string>& views, const std::string& effect,
                        std::size_t workloads);

}  // namespace osm::inline v1::root_rotation
