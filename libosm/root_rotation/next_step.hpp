// The state machine of a root rotation, without I/O (docs/adr/0024). Input: wishes, the record and
// evidence. Output: the next record.
//
// A step that could break a connection is taken only on evidence: a root signs after every proxy
// trusts it, and is trusted until no certificate that it signed is in use. One such step is taken
// at a time, because each makes the evidence before it obsolete.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "osm/clock.hpp"
#include "osm/result.hpp"
#include "osm/values/mesh_root_certificate.hpp"

namespace osm::inline v1::root_rotation {

enum class RootState {
  kInactive,    // neither signs nor is trusted
  kTrusted,     // does not sign: its object is passive, or another root signs
  kValidating,  // trusted; signs as soon as every proxy has acknowledged that it is trusted
  kSigning,     // one root at a time
  kDraining,    // trusted until no certificate that it signed is in use
  kClosing,     // not trusted; it was the last root of its trust domain, and open connections under
                // names of that domain are allowed until every proxy has replaced them
};

// "inactive", "trusted", ... as in the record and in `osm certificate status`.
std::string_view root_state_text(RootState state);
std::optional<RootState> root_state_of(std::string_view text);

// True if peers with certificates of such a root are admitted.
bool is_trusted(RootState state);

struct RootRecord {
  std::string name;
  RootState state = RootState::kInactive;
  WallTime since{};        // in this state
  WallTime followed_at{};  // every replica acts on this state since then; zero: not yet
  WallTime signed_at{};    // start of its last period of signing; zero: never
  WallTime first_seen{};   // among several active roots the newest signs
  // Certificates of its CA while it is trusted, so that the CA need not be asked and may be gone.
  std::string bundle_pem{};
  TrustDomain trust_domain{};  // trust domain of the names that it signs
  WallTime distrusted_at{};    // an operator ended its trust for good; zero: no
  // The latest end among the certificates that it signed; zero: none is known.
  WallTime latest_not_after{};
  // For people: proxies without which the last step to or under this root was taken.
  std::string left_behind{};

  friend bool operator==(const RootRecord&, const RootRecord&) = default;
};

// The first record in that state. Null: none. Lifetime: that of `records`.
const RootRecord* find(const std::vector<RootRecord>& records, RootState state);
// True if a step of some root is awaited.
bool in_motion(const std::vector<RootRecord>& records);

// The target state of a root, from its object.
struct RootWish {
  std::string name;
  RootRole role = RootRole::kActive;
  std::string bundle_pem{};  // bundle of its CA; empty: the CA does not answer, see `fault`
  std::string fault{};
  TrustDomain trust_domain{};
};

// The reports of all live replicas about the record in force, taken together.
struct RotationEvidence {
  bool complete = false;       // each replica has reported that it acts on the record
  std::size_t workloads = 0;   // all of the mesh
  std::size_t bundle_lag = 0;  // connected proxies without the trust bundle or its domains
  // Connected proxies with a certificate of another than the signing root.
  std::size_t leaf_lag = 0;
  std::size_t any_lag = 0;  // connected proxies that lag in one or both
  std::size_t own_lag = 0;  // certificates of the replicas themselves, of other roots
  // Workloads whose proxy was connected once, and is connected to no replica now. While `young`,
  // those that never were count, too.
  std::size_t absent = 0;
  bool young = false;         // a replica has just started, and proxies may be reconnecting
  std::string waiting_for{};  // for people: the replicas that are not complete
  std::string lagging{};      // for people: some of the lagging and absent proxies
};

struct RotationInput {
  std::vector<RootRecord> records;
  std::vector<RootWish> wishes;
  RotationEvidence evidence;
  WallTime now;
  // After this time the workload certificates of an absent or silent proxy have expired.
  std::chrono::seconds longest_leaf;
  // A few proxies that are absent or silent hold a step no longer than this.
  std::chrono::seconds max_wait;
};

struct RotationStep {
  std::vector<RootRecord> records;             // by name; recorded before it takes effect
  std::map<std::string, std::string> waiting;  // by root: the text for the status
};

// Result: the next record; equal to the present one if there is nothing to do.
RotationStep next_step(const RotationInput& input);

// The record after the trust in a root has ended at once, whoever still needs it. If it signs, the
// newest active root that can sign does so from now on. `input.evidence` does not matter.
// Failure: kNotFound: there is no such root; kInvalidArgument: no other root can sign.
Result<std::vector<RootRecord>> distrust(const RotationInput& input, const std::string& name);

}  // namespace osm::inline v1::root_rotation
