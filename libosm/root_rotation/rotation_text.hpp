// The record of a rotation and a replica's report on the board, as JSON. Both hold no secrets:
// everyone who may read the mesh's objects may read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/certificate_progress.hpp"
#include "osm/result.hpp"
#include "osm/values/trust_domains.hpp"
#include "root_rotation/next_step.hpp"

namespace osm::inline v1::root_rotation {

// Stands for a proxy in these texts: 44 bits of its digest. Among 10,000 proxies, two share a
// number once in 350,000 meshes; of them, one could not hold a step.
using ProxyNumber = std::uint64_t;
ProxyNumber number_of(const model::ProxyKey& proxy);

// A record has the first so many of the proxies that were connected once: 400 kB, and each store
// takes 1 MB.
constexpr std::size_t kMostMet = 50'000;

// `met`: proxies that are known to have been connected.
std::string to_text(const std::vector<RootRecord>& records, const std::set<ProxyNumber>& met = {});
// A record that was written before roots had trust domains has empty ones. Failure: kInvalidSyntax.
Result<std::vector<RootRecord>> parse_records(const std::string& text);
// Empty if the text has none that can be read.
std::set<ProxyNumber> parse_met(const std::string& text);

// Hash of the part of the record that all replicas must act on alike: the signing root, the trusted
// roots and their domains.
std::string effect_of(const std::vector<RootRecord>& records);

// The trust domains in effect. `controller`: domain of the root that signs for the control plane.
TrustDomains domains_of(const std::vector<RootRecord>& records, const TrustDomain& controller);

// One replica's knowledge of a proxy, 4 bits. 0: it was connected once.
enum ProxyFlag : std::uint8_t { kConnected = 1, kLacksBundle = 2, kLacksLeaf = 4 };

// One replica's report.
struct ReplicaView {
  // The board takes 100 kB: 88 kB for proxies, with 8 characters each.
  static constexpr std::size_t kMostProxies = 11'000;
  static constexpr std::size_t kMostNamed = 10;

  std::string follows{};                               // effect_of() the record it acts on
  std::map<ProxyNumber, std::uint8_t> proxies{};       // ProxyFlags
  std::size_t omitted = 0;                             // that lack something and do not fit
  std::vector<std::string> lagging{};                  // some of those that lack something
  std::size_t own_lag = 0;                             // its own certificates of other roots
  bool young = false;                                  // it has just started
  std::map<std::string, WallTime> latest_not_after{};  // by the root that signed them

  friend bool operator==(const ReplicaView&, const ReplicaView&) = default;
};
// Adds the proxies that are connected to this replica. `unrecorded`: those that were connected to
// it since it started, without the `recorded` ones and those whose workload is gone.
void add_proxies(ReplicaView& view, const model::CertificateProgress& progress,
                 const std::set<ProxyNumber>& recorded,
                 std::map<ProxyNumber, model::ProxyKey>& unrecorded);

// Proxies that lack something come first, and those that do not fit are counted. Those that are not
// connected come last.
std::string to_text(const ReplicaView& view);
// Failure: kInvalidSyntax.
Result<ReplicaView> parse_view(const std::string& text);

// All replicas' reports taken together. A proxy that has streams at several replicas counts once,
// and lacks what it lacks at any. A connected one that did not fit into a report counts as absent.
struct ReplicaViews {
  RotationEvidence evidence;
  std::set<ProxyNumber> met;  // workloads of the mesh whose proxy was connected once
  std::map<std::string, WallTime> latest_not_after;
};
// `effect`: of the record in force. `proxies`: as known to the replica that asks.
ReplicaViews sum_up(const std::map<std::string, std::string>& views, const std::string& effect,
                    const Table<model::WorkloadEntry>& workloads,
                    std::map<ProxyNumber, std::uint8_t> proxies);

// ReplicaView::own_lag of all views that can be read.
std::size_t lag_of(const std::map<std::string, std::string>& views);

}  // namespace osm::inline v1::root_rotation
