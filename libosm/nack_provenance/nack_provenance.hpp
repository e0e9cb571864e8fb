// Finds the object that makes a proxy refuse its configuration, and withholds that object alone.
//
// The search gives the refusing proxy, and no other, meshes in which some candidates have their old
// version, until one candidate is known to turn an accepted mesh into a refused one. That takes at
// most log2(n) + 1 pushes. Candidates are the objects that changed since the last generation that
// the proxy acknowledged, or every object if that generation is not known. The object is withheld
// from the mesh until it changes, unless other proxies accept it.
//
// Neither a trial nor a verdict allows anybody more than the newest specification does: of an old
// version only the part comes back that is still allowed (still_allowed.hpp).
//
// Replicas tell each other what they found. A search tries those objects first.
//
// One search runs at a time. Other proxies that refuse meanwhile keep their last good configuration
// and are searched for afterwards.
//
// Thread: a strand of its own on the executor.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ads/trial.hpp"
#include "base/snapshot_cell.hpp"
#include "base/strand.hpp"
#include "model/mesh_snapshot.hpp"
#include "nack_provenance/bisection.hpp"
#include "nack_provenance/shared_verdicts.hpp"
#include "nack_provenance/trial_mesh.hpp"
#include "nack_provenance/withheld_spec.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1::nack_provenance {

// Lifetime: everything borrowed outlives the NackProvenance; `proxies` calls nobody back once
// stop() has begun.
struct NackProvenanceOptions {
  Runtime runtime;
  WithheldSpec& spec;
  SnapshotCell<model::MeshSnapshot>& snapshots;
  ads::TrialHost& proxies;
  std::vector<ProviderEntry> providers;
  std::vector<WorkloadProvider*> workload_providers;
  std::function<TrustDomains()> trust_domains;  // in effect now
  std::string osm_namespace;                    // namespace of the MeshConfig
  ReplicaBoard* board = nullptr;                // null: there are no other replicas
};

class NackProvenance {
 public:
  // A proxy is not searched for during this time after a search that found no object or that the
  // proxy left. The time doubles with every such search, up to the longest.
  static constexpr std::chrono::seconds kFirstPause{60};
  static constexpr std::chrono::seconds kLongestPause{3600};
  // Number of versions of the specification that are remembered.
  static constexpr std::size_t kRemembered = 64;

  explicit NackProvenance(const NackProvenanceOptions& options);
  ~NackProvenance();  // stop()

  // Idempotent. Thread: not of the executor.
  void stop();

 private:
  using Objects = std::shared_ptr<const model::SpecObjects>;

  // A proxy that refused, until it accepts the configuration of its class.
  struct RefusingProxy {
    ads::Refusal refusal;  // the newest
    SteadyTime ready_at;
    std::chrono::seconds pause = kFirstPause;
  };
  // The bisection of one list of candidates.
  struct Round {
    bool every_object;  // all objects are candidates
    MeshConfig good;    // stands in for a MeshConfig that is refused
    std::vector<ObjectKey> candidates;
    Bisection bisection;
    std::unique_ptr<TrialMesh> mesh;
  };
  // The search for the object that one proxy refuses: a round over the changed objects, a round
  // over all objects if that found none, then the question to other proxies.
  struct Search {
    model::ProxyKey proxy;
    std::uint64_t number = 0;
    ads::Refusal refusal;  // the newest, also of trials
    Objects acknowledged;  // null: not known
    Objects after;
    std::map<ObjectKey, std::string> found_elsewhere;  // with the evidence
    std::optional<Round> round;
    std::optional<Round> config_round;  // an earlier round, which found the MeshConfig
    std::size_t trials = 0;
    bool accepts_some = false;        // the proxy accepted a trial
    ads::TrialHost::MeshPtr without;  // the mesh without the object found
    int questions = 0;                // to other proxies, not yet answered by all
    std::optional<ObjectKey> withheld;
  };

  void on_refusal(const ads::Refusal& refusal);
  void on_snapshot(const std::shared_ptr<const model::MeshSnapshot>& snapshot);
  void start_next();
  void on_newest(const ads::TrialResult& result);
  void search_changed_objects();
  void search_every_object();
  void begin_round(const model::SpecObjects& before, bool every_object);
  void try_next();
  void on_trial(const ads::TrialResult& result);
  void end_round();
  void ask_others();
  void on_others(ads::OtherProxies others);
  void withhold();
  void report_no_object(const std::string& cause, const ObjectKey& object = {});
  void pause_proxy();
  void end_search(std::uint64_t generation);
  bool outdated(const model::SpecObjects& now) const;
  bool keeps_too_much() const;

  ObjectKey found() const { return search_->round->candidates[*search_->round->bisection.found()]; }
  ObjectKey named(ObjectKey object) const;
  Objects objects_at(std::uint64_t generation) const;
  // Runs `step` on the strand, unless another search runs by then.
  template <class Step>
  auto in_this_search(Step step);

  NackProvenanceOptions options_;
  SharedVerdicts verdicts_;
  std::deque<std::pair<std::uint64_t, Objects>> history_;  // by the first generation that has them
  std::uint64_t generation_ = 0;
  std::map<model::ProxyKey, RefusingProxy> refusing_;
  std::optional<Search> search_;
  std::uint64_t last_search_ = 0;
  Strand strand_;
  Subscription timer_;
  Subscription refused_;
  Subscription published_;
};

}  // namespace osm::inline v1::nack_provenance
