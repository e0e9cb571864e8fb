// The mesh's roots and how they follow each other, as a state machine without I/O
// (docs/adr/0024): wishes, the record and evidence go in, the next record comes out.
//
// A step that would hurt somebody without evidence is never taken: a root signs only once everybody
// who could meet what it signed trusts it, and is trusted until nothing that it signed is in use.
// At most one such step at a time, because each makes the evidence before it worthless.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "osm/clock.hpp"
#include "osm/values/mesh_root_certificate.hpp"

namespace osm::inline v1::root_rotation {

// How far a root has come.
enum class RootState {
  kInactive,    // neither signs nor is trusted
  kTrusted,     // its author wants no more, or another one signs
  kValidating,  // trusted, to sign as soon as everybody acknowledged that
  kSigning,     // one at a time
  kDraining,    // to be trusted no more, as soon as nothing that it signed is in use
  kClosing,     // trusted no more; connections that it vouched for, under names of a trust domain
                // that goes with it, are let through until every proxy has replaced them
};

// "inactive", "trusted", ... as the record and `osm certificate status` say it.
std::string_view root_state_text(RootState state);
std::optional<RootState> root_state_of(std::string_view text);

// Whether peers that come with what it signed are let in.
bool is_trusted(RootState state);

struct RootRecord {
  std::string name;
  RootState state = RootState::kInactive;
  WallTime since{};        // in this state
  WallTime followed_at{};  // since when every replica acts on this state; zero: not yet
  WallTime signed_at{};    // began to sign the last time; zero: never
  WallTime first_seen{};   // orders those that want to sign: the newest does
  // What it is trusted by, while it is: known without asking its CA, also when that is gone.
  std::string bundle_pem{};
  TrustDomain trust_domain{};  // of what it signs

  friend bool operator==(const RootRecord&, const RootRecord&) = default;
};

// What its author wants of a root.
struct RootWish {
  std::string name;
  RootRole role = RootRole::kActive;
  std::string bundle_pem{};  // of its CA; empty: that cannot be asked, and `fault` says why
  std::string fault{};
  TrustDomain trust_domain{};
};

// What all live replicas of the control plane together say about the record in force.
struct RotationEvidence {
  bool complete = false;       // each of them has followed the record and said so
  std::size_t bundle_lag = 0;  // connected proxies that do not trust it, or its domains, yet
  std::size_t leaf_lag = 0;    // and those with a certificate that is not the signing root's
  std::size_t own_lag = 0;     // certificates of the replicas themselves, of other roots
  std::size_t absent = 0;      // workloads whose proxy is connected to nobody
  bool young = false;          // a replica has just started: its proxies may be on their way back
  std::string waiting_for{};   // for people: who is not complete
  std::string lagging{};       // for people: some of the proxies
};

struct RotationInput {
  std::vector<RootRecord> records;
  std::vector<RootWish> wishes;
  RotationEvidence evidence;
  WallTime now;
  // After so long nobody who was absent can still hold a valid certificate.
  std::chrono::seconds longest_leaf;
};

struct RotationStep {
  std::vector<RootRecord> records;             // by name; to be recorded before it takes effect
  std::map<std::string, std::string> waiting;  // by root: what for, in words
};

// The next record; equal to the present one when there is nothing to do.
RotationStep next_step(const RotationInput& input);

}  // namespace osm::inline v1::root_rotation
