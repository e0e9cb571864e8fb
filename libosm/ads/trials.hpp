// Trials: a proxy is sent another mesh than its class, as TrialHost says.
//
// Thread: every function on the strand. Builds run on the executor.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ads/class_builder.hpp"
#include "ads/push_queue.hpp"
#include "ads/stream_table.hpp"
#include "ads/task_gate.hpp"
#include "ads/trial.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::ads {

// True if the proxy has acknowledged everything that its clusters name, or its listeners. A proxy
// asks for listeners after clusters, and for routes after listeners.
bool holds_what_clusters_name(const Session& session);
bool holds_what_listeners_name(const Session& session);

class Trials {
 public:
  // Lifetime: everything borrowed outlives the object.
  struct Dependencies {
    StreamTable& streams;
    PushQueue& queue;
    ResourceCache& cache;
    const ResourceHook* hook;  // may be null
    Runtime runtime;
    Executor& strand;
    // Class of the stream's proxy in a mesh.
    std::function<translate::ProxyClass(const model::MeshSnapshot& mesh, const Stream& stream)>
        class_in;
    std::function<std::uint64_t(const Stream& stream)> applied;  // its newest generation
    std::function<void(Stream& stream)> give_sets;               // gives it those of sets_for()
    std::function<void()> pump;                                  // the queue has streams
  };

  explicit Trials(Dependencies dependencies) : deps_(std::move(dependencies)) {}

  // As TrialHost.
  void try_on(const model::ProxyKey& proxy, const ProxyMesh& mesh,
              std::function<void(const TrialResult&)> done);
  void end_trial(const model::ProxyKey& proxy, bool restore);
  void compare(const model::ProxyKey& proxy, const std::vector<ProxyMesh>& pairs,
               std::function<void(std::vector<ResourceNames>)> done);

  // True if a trial has begun and has not ended.
  bool has(const Stream& stream) const { return trials_.contains(stream.id); }
  // True if the stream is to hold other resources than its class's.
  bool on_trial(const Stream& stream) const;
  // The resources that a stream is to hold now.
  ResourceSets sets_for(const Stream& stream) const;

  // Nothing is due for this stream: ends its trial if the proxy has answered everything.
  void judge(const Stream& stream);
  // Ends trials whose class is current. Earlier, the proxies would be sent what they just refused.
  void release();
  void forget(StreamId gone);
  // Call it every second.
  void tick(SteadyTime now);

  // Waits for running builds. Afterwards nothing on the executor uses the cache.
  void stop_builds() { aside_.close(); }

 private:
  // State of a proxy that is sent another mesh than its class.
  struct Trial {
    std::uint64_t number = 0;          // a build for an earlier trial is dropped
    std::optional<ResourceSets> sets;  // none: the sets of the proxy's class
    bool building = false;
    bool without_clusters = false;   // `sets` has those that the proxy was sent before, not judged
    bool without_listeners = false;  // likewise, with their routes
    std::function<void(const TrialResult&)> done;  // null: it has been called
    SteadyTime deadline{};
    std::optional<ResourceSets> before;  // acknowledged before the first trial of another mesh
    bool restoring = false;              // `sets` are these
    bool ends = false;                   // once the proxy's class is current
  };

  void build_aside(BuildJob job, std::function<void(ResourceSets)> then);
  void begin(Stream& stream, ResourceSets sets);
  void judge_restoring(StreamId id);
  void tell(const Stream& stream, TrialResult result);

  const Dependencies deps_;
  std::map<StreamId, Trial> trials_;
  std::uint64_t last_trial_ = 0;
  TaskGate aside_;  // last: closed before anything that a build uses is destroyed
};

}  // namespace osm::inline v1::ads
