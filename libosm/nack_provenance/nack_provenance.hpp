// Finds the object that makes a proxy refuse its configuration, and takes it out of that proxy's
// configuration, and of nobody else's (ADR 0070).
//
// The search gives the refusing proxy, and no other, the newest mesh without some objects, until
// one object is known to turn an accepted mesh into a refused one. That takes at most log2(n) + 1
// pushes and one for each hint. Candidates are the objects that a proxy may be served without
// (spec::Kind::may_be_left_out). The proxy is served without the object that was found, until the
// object changes.
//
// Without other objects, and without a MeshConfig, more would be allowed: limits, denials. No trial
// and no verdict leaves one out. If such an object may be the cause, a last trial freezes the
// resources that contain it: of these the proxy keeps its last good content.
//
// A search tries first what proxies of other replicas were found to refuse.
//
// One search runs at a time. Other proxies that refuse meanwhile keep their last good content and
// are searched for afterwards.
//
// Thread: a strand of its own on the executor.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ads/trial.hpp"
#include "base/snapshot_cell.hpp"
#include "base/strand.hpp"
#include "model/mesh_snapshot.hpp"
#include "nack_provenance/bisection.hpp"
#include "nack_provenance/own_meshes.hpp"
#include "nack_provenance/suspects.hpp"
#include "nack_provenance/verdicts.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::nack_provenance {

// Lifetime: everything borrowed outlives the NackProvenance; `proxies` calls nobody back once
// stop() has begun.
struct NackProvenanceOptions {
  Runtime runtime;
  Verdicts& verdicts;
  SnapshotCell<model::MeshSnapshot>& snapshots;
  ads::TrialHost& proxies;
  MeshInputs inputs;
  // Tells the refusals of proxies of other replicas, as these report them. Null: there are none.
  std::function<Refusals()> elsewhere{};
};

class NackProvenance {
 public:
  // A proxy is not searched for during this time after a search that found no object or that the
  // proxy left. The time doubles with every such search, up to the longest.
  static constexpr std::chrono::seconds kFirstPause{60};
  static constexpr std::chrono::seconds kLongestPause{3600};
  // Number of objects that one proxy may refuse. Beyond it the proxy is only reported.
  static constexpr std::size_t kRefusedByOne = 16;
  // A verdict ends when its proxy was not connected for so long; checked at this interval.
  static constexpr std::chrono::minutes kAway{10};
  static constexpr std::chrono::seconds kLook{10};

  explicit NackProvenance(const NackProvenanceOptions& options);
  ~NackProvenance() { stop(); }

  // Idempotent. Thread: not of the executor.
  void stop();

 private:
  // A proxy that refused, until it accepts the configuration of its class.
  struct RefusingProxy {
    ads::Refusal refusal;  // the newest
    SteadyTime ready_at;
    std::chrono::seconds pause = kFirstPause;
  };
  // A proxy with verdicts, until their objects change or it stays away.
  struct JudgedProxy {
    std::map<ObjectKey, Verdict> verdicts;
    SteadyTime seen;  // connected
  };
  // The search for the object that one proxy refuses.
  struct Search {
    std::uint64_t number = 0;
    ads::Refusal refusal{};     // the newest, also of trials
    ObjectSet known{};          // found before
    std::uint64_t applied = 0;  // generation that the proxy acknowledged; 0: unknown
    std::map<ObjectKey, std::string> found_elsewhere{};
    std::vector<ObjectKey> candidates{};
    ObjectSet likely{};  // of these
    ObjectSet fresh{};   // changed since the proxy accepted its mesh
    std::optional<Bisection> bisection{};
    std::function<void()> trial{};  // the present trial, in the newest mesh
    std::size_t trials = 0;
    bool accepts_some = false;  // the proxy accepted a trial
  };
  using Outcome = ads::TrialResult::Outcome;

  void on_refusal(const ads::Refusal& refusal);
  void on_snapshot(const Snapshot& snapshot);
  ObjectSet note_changes(const Snapshot& before);
  bool outdated(const ObjectSet& changed) const;
  bool assign(const model::ProxyKey& proxy);
  void reassign(const std::set<model::ProxyKey>& proxies);
  void publish();
  ObjectSet refused_by(const model::ProxyKey& proxy) const;

  void start_next();
  void on_newest(const ads::TrialResult& result);
  void begin();
  ObjectSet only_change() const;
  void try_next();
  void try_on(const ObjectSet& refused, std::function<void(bool accepted)> then);
  void on_trial(const ads::TrialResult& result, const std::function<void(bool)>& then);
  void try_without_config();
  void compare_fixed(const ObjectKey& found);
  void on_compared(const ObjectKey& found, const ObjectSet& fixed,
                   const std::vector<ObjectKey>& single,
                   const std::vector<ads::ResourceNames>& differing);
  bool suspects_config(const ObjectKey& found) const;
  const ProxySettings* applied_settings() const;
  void conclude(const ObjectSet& objects);
  void give_own_mesh();
  void report_no_object(const std::string& cause);
  bool keeps_too_much() const;
  void pause_proxy();
  void end_search(bool restore = true);

  void look_for_absent();
  void forget_absent(const std::set<model::ProxyKey>& connected);

  // Runs `step` on the strand, unless another search runs by then.
  template <class Step>
  auto in_this_search(Step step);

  NackProvenanceOptions options_;
  OwnMeshes meshes_;
  Snapshot newest_;
  std::map<ObjectKey, std::uint64_t> changed_in_;  // the generation of each object's last change
  // Settings of the last generations, by the first that has them.
  std::map<std::uint64_t, ProxySettings> settings_;
  std::map<model::ProxyKey, RefusingProxy> refusing_;
  std::map<model::ProxyKey, JudgedProxy> judged_;
  std::optional<Search> search_;
  std::uint64_t last_search_ = 0;
  Strand strand_;
  Subscription timer_;
  Subscription look_;
  Subscription refused_;
  Subscription published_;
};

}  // namespace osm::inline v1::nack_provenance
