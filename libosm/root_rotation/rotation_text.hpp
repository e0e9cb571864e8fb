// The record of a rotation and a replica's report on the board, as JSON. Both hold no secrets:
// everyone who may read the mesh's objects may read them.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "model/certificate_progress.hpp"
#include "osm/result.hpp"
#include "osm/values/trust_domains.hpp"
#include "root_rotation/next_step.hpp"

namespace osm::inline v1::root_rotation {

std::string to_text(const std::vector<RootRecord>& records);
// A record that was written before roots had trust domains has empty ones. Failure: kInvalidSyntax.
Result<std::vector<RootRecord>> parse_records(const std::string& text);

// Hash of the part of the record that all replicas must act on alike: the signing root, the trusted
// roots and their domains.
std::string effect_of(const std::vector<RootRecord>& records);

// The trust domains in effect. `controller`: domain of the root that signs for the control plane.
TrustDomains domains_of(const std::vector<RootRecord>& records, const TrustDomain& controller);

// One replica's report.
struct ReplicaView {
  std::string follows;                   // effect_of() the record it acts on
  model::CertificateProgress proxies{};  // its workloads are not part of the text
  std::size_t own_lag = 0;               // certificates of the replica itself, of other roots
  bool young = false;                    // it has just started, and proxies may be reconnecting

  friend bool operator==(const ReplicaView&, const ReplicaView&) = default;
};
std::string to_text(const ReplicaView& view);
// Failure: kInvalidSyntax.
Result<ReplicaView> parse_view(const std::string& text);

// Sum of all replicas' reports. `workloads`: their number in the mesh.
RotationEvidence sum_up(const std::map<std::string, std::string>& views, const std::string& effect,
                        std::size_t workloads);

}  // namespace osm::inline v1::root_rotation
