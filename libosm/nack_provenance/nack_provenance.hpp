// Names the object that makes a proxy refuse, and has it left out alone.
//
// A refusal makes its proxy the canary: it is given the mesh with some of the suspects as they were
// before, until one suspect is known to turn an accepted mesh into a refused one (at most
// log2(n) + 1 pushes, to this proxy only). Suspects are the objects that changed since the last
// generation that the canary acknowledged, or every object when that is not known. Unless other
// proxies accept the object, it is withheld from the mesh until it changes.
//
// No trial and no verdict allows anybody what the newest specification does not: of what was before
// comes back what is still allowed (still_allowed.hpp).
//
// One inquest runs at a time; other proxies that refuse meanwhile are looked at after its verdict,
// and keep their last good configuration until then.
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
#include "nack_provenance/trial_mesh.hpp"
#include "nack_provenance/withheld_spec.hpp"
#include "osm/clock.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/log.hpp"
#include "osm/metrics.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1::nack_provenance {

// All outlive the value; `proxies` calls nobody back once stop() has begun.
struct NackProvenanceOptions {
  WithheldSpec& spec;
  SnapshotCell<model::MeshSnapshot>& snapshots;
  ads::TrialHost& proxies;
  std::vector<ProviderEntry> providers;
  std::vector<WorkloadProvider*> workload_providers;
  std::function<TrustDomains()> trust_domains;  // of now
  std::string osm_namespace;                    // where the MeshConfig is
  Executor& executor;
  const Clock& clock;
  LogSink& log;
  MetricsSink& metrics;
};

class NackProvenance {
 public:
  // How long a proxy is left alone after an inquest that blamed no object, or that it left; doubled
  // every time.
  static constexpr std::chrono::seconds kFirstPause{60};
  static constexpr std::chrono::seconds kLongestPause{3600};
  // How many readings of the specification are remembered.
  static constexpr std::size_t kRemembered = 64;

  explicit NackProvenance(const NackProvenanceOptions& options);
  ~NackProvenance();  // stop()

  // Idempotent. Not from a thread of the executor.
  void stop();

 private:
  using Objects = std::shared_ptr<const model::SpecObjects>;

  // A proxy that refused, until it is known to accept what its class holds.
  struct Refuser {
    ads::Refusal refusal;  // the newest
    SteadyTime ready_at;
    std::chrono::seconds pause = kFirstPause;
  };
  // Among some suspects.
  struct Search {
    bool every_object;  // is a suspect
    MeshConfig good;    // what it goes back to
    std::vector<ObjectKey> suspects;
    NackInquest inquest;
    std::unique_ptr<TrialMesh> mesh;
  };
  // The inquest that runs.
  struct Case {
    model::ProxyKey proxy;
    std::uint64_t number = 0;
    ads::Refusal refusal;  // the newest, trials included
    Objects acknowledged;  // null: not known
    Objects after;
    std::optional<Search> search;
    std::optional<Search> against_config;  // the search before this one blames the MeshConfig
    std::size_t trials = 0;
    bool accepts_some = false;        // of them
    ads::TrialHost::MeshPtr without;  // the culprit
    int unanswered_looks = 0;         // for a witness
    std::optional<ObjectKey> withheld;
  };

  void on_refusal(const ads::Refusal& refusal);
  void on_snapshot(const std::shared_ptr<const model::MeshSnapshot>& snapshot);
  void take_next();
  void examined(const ads::TrialResult& result);
  void suspect_changes();
  void suspect_every_object();
  void begin_search(const model::SpecObjects& before, bool every_object);
  void go_on();
  void conclude();
  void tried(const ads::TrialResult& result);
  void look_for_witness();
  void witnessed(ads::Witness witness);
  void withhold();
  void blame_proxy(const std::string& why, const ObjectKey& object = {});
  void leave_alone_for_a_while();
  void close(std::uint64_t generation);
  bool outdated(const model::SpecObjects& now) const;
  bool keeps_too_much() const;

  ObjectKey culprit() const { return case_->search->suspects[*case_->search->inquest.culprit()]; }
  ObjectKey named(ObjectKey object) const;
  Objects objects_at(std::uint64_t generation) const;
  // Runs `step` on the strand, unless the case is another one by then.
  template <class Step>
  auto in_this_case(Step step);

  NackProvenanceOptions options_;
  std::deque<std::pair<std::uint64_t, Objects>> history_;  // by the first generation that has them
  std::uint64_t generation_ = 0;
  std::map<model::ProxyKey, Refuser> refusers_;
  std::optional<Case> case_;
  std::uint64_t last_case_ = 0;
  Strand strand_;
  Subscription timer_;
  Subscription refused_;
  Subscription published_;
};

}  // namespace osm::inline v1::nack_provenance
