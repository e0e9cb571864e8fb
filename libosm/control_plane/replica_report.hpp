// The report of one replica to the others: the mesh that it has read, its proxies, and how far
// these are. And the sum of reports: the status of an object and the proxies of the whole mesh.
// Pure.
//
// A report names no object that all proxies of the replica have applied. The reader compares the
// digests of its own mesh and of the report for the entries of an object. If they are equal, the
// replica has read the object's present version, and each of its proxies has applied it unless the
// report says how far behind the proxy is. So the size follows the proxies and what changed lately,
// not the objects.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "catalog/mesh_loop.hpp"
#include "model/mesh_digests.hpp"
#include "model/mesh_snapshot.hpp"
#include "nack_provenance/verdicts.hpp"
#include "osm/clock.hpp"
#include "osm/object.hpp"
#include "osm/values/object_status.hpp"
#include "osm/values/proxy.hpp"

namespace osm::inline v1::control_plane {

inline constexpr const char* kReportTopic = "proxies";
inline constexpr std::size_t kMaxReportBytes = 96'000;  // some 4,000 proxies

// The catalog's key of an object: several kinds are workloads, and the mesh reads one MeshConfig,
// that of namespace `control_plane`. Without the namespace every MeshConfig is taken for it.
ObjectKey known_as(const ObjectKey& object, const std::string& control_plane = {});

// 48 bits of a digest stand for a name.
using Mark = std::uint64_t;
Mark mark_of(const model::ProxyKey& proxy);
Mark mark_of(const ObjectKey& object);
Mark mark_of_endpoints(const ServiceName& service);

// A proxy in a report.
struct ProxyLine {
  enum class Presence : std::uint8_t {
    kConnected,
    kReturning,  // it was just told to reconnect
    kExpected,   // it has a certificate and is not connected
  };
  Presence presence = Presence::kExpected;
  bool claimed = false;          // it has connected with its certificate
  std::uint64_t generation = 0;  // of the replica's mesh: it has applied everything until then
  XdsVariant xds = XdsVariant::kDelta;
  std::array<SyncState, 5> states{};
  WallTime not_after{};  // of its certificate
  WallTime served_until{};

  friend bool operator==(const ProxyLine&, const ProxyLine&) = default;
};

// More about a proxy that owes an answer for long, or refused one.
struct ProxyNote {
  WallTime owes_since{};               // zero: it owes none for long
  std::array<std::string, 5> words{};  // by XdsType; empty: it refused none

  friend bool operator==(const ProxyNote&, const ProxyNote&) = default;
};

struct ReplicaReport {
  std::string id;                // of the process, random
  bool left = false;             // it serves no proxies any more
  std::uint64_t generation = 0;  // of its mesh; 0: it has not read one yet
  model::MeshDigests digests{};
  // `changed` has every change after this generation, by object and by the endpoints of services.
  std::uint64_t since = 0;
  std::map<Mark, std::uint64_t> changed{};
  std::unordered_map<Mark, ProxyLine> proxies{};
  bool all_proxies = true;  // false: not all fitted
  std::map<Mark, ProxyNote> notes{};
  nack_provenance::Refusals refusals{};  // by the replica's proxies

  friend bool operator==(const ReplicaReport&, const ReplicaReport&) = default;
};

// The text. Proxies, notes and refusals that do not fit into `max_bytes` are left out; the rest is
// 30 kB at most. A report that lacks proxies says so.
std::string text_of(const ReplicaReport& report, std::size_t max_bytes = kMaxReportBytes);
// nullopt: the text is of another version, or damaged.
std::optional<ReplicaReport> parse_report(std::string_view text);

// Another replica that lives.
struct OtherReplica {
  std::string name;
  std::shared_ptr<const ReplicaReport> report{};  // null: it has none that can be read
  bool starting = false;                          // it has just joined, and a report is to come
  // This replica's generation when the report came, or when no other one came for long since. An
  // older report may be of before a change that was taken back, and proves nothing.
  std::uint64_t heard = 0;

  friend bool operator==(const OtherReplica&, const OtherReplica&) = default;
};
struct OtherReplicas {
  bool known = true;                     // false: the board cannot be read; the rest is older
  std::vector<OtherReplica> replicas{};  // ordered by name

  friend bool operator==(const OtherReplicas&, const OtherReplicas&) = default;
};

// Adds the other replicas' proxies to the status of an object, which counts this replica's.
// `object`: as known_as() gives it. `waited_for`: workloads that it concerns and that have no proxy
// here; those with one elsewhere are removed. Sets no phase.
// Result: number of added proxies that refuse this version of the object for good.
std::size_t add_others(const OtherReplicas& others, const ObjectKey& object,
                       const catalog::ObjectState& state,
                       std::map<model::ProxyKey, WorkloadName>& waited_for, ObjectStatus& status);

// Calls `visit` for each workload of the snapshot that another replica reports, once: where it is
// connected, else where it is known.
void for_each_elsewhere(const OtherReplicas& others, const model::MeshSnapshot& snapshot,
                        const std::function<void(const model::WorkloadEntry&, const ProxyLine&,
                                                 const OtherReplica&)>& visit);

// A connected proxy of another replica. `common_name`: of its certificate.
Proxy proxy_of(const model::WorkloadEntry& entry, const ProxyLine& line,
               const OtherReplica& replica, const CommonName& common_name, const Clock& clock);

}  // namespace osm::inline v1::control_plane
