// All streams of one replica: the hub gives each the sets of its class, lets sessions decide and
// transports write. Its parts decide which streams are served, which end, and which are on trial.
// It is the ADS server without gRPC.
//
// Thread: every function on the strand, but that the parts are named from any thread. After
// Strand::stop() the owner may end all streams.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ads/admission.hpp"
#include "ads/class_table.hpp"
#include "ads/endings.hpp"
#include "ads/leaving_ports.hpp"
#include "ads/peer.hpp"
#include "ads/progress.hpp"
#include "ads/proxy_stream.hpp"
#include "ads/push_queue.hpp"
#include "ads/readiness_table.hpp"
#include "ads/replica_streams.hpp"
#include "ads/session.hpp"
#include "ads/stream_table.hpp"
#include "ads/trials.hpp"
#include "base/log_limit.hpp"
#include "osm/mesh_cataloger.hpp"
#include "osm/notifier.hpp"

namespace osm::inline v1::ads {

struct HubOptions {
  std::vector<TrustDomain> accepted_domains{TrustDomain("cluster.local")};
  std::chrono::milliseconds unknown_workload_wait{5000};
  std::size_t max_unfinished_bytes = PushQueue::kMaxUnfinishedBytes;
  std::string replica = "osm-controller";  // as in ControlPlaneOptions
  bool rebalance = false;                  // likewise
};

struct HubDependencies {
  Runtime runtime;  // its executor encodes
  Executor& strand;
  model::SecretSource& secrets;
  ProxyRegistry& registry;
  const ResourceHook* hook = nullptr;
  ReplicaBoard* board = nullptr;                 // null: there are no other replicas
  std::function<Status()> admits{};              // as in ControlPlaneOptions
  std::function<std::size_t()> waiting_tasks{};  // number of tasks that wait for the strand
  ReadinessTable* readiness = nullptr;           // null: nobody asks which proxies are ready
};

class Hub {
 public:
  Hub(const HubOptions& options, const HubDependencies& dependencies);

  // Transport side. `peer`: the verified peer, or the reason why it is not a proxy.
  void open(StreamId id, Result<Peer> peer, std::shared_ptr<ProxyStream> transport);
  void on_request(StreamId id, const std::string& bytes);
  void on_write_done(StreamId id);
  void on_closed(StreamId id);  // the peer is gone

  // Mesh side. `since`: time at which the first of the changes was announced; max(): unknown.
  void on_snapshot(std::shared_ptr<const model::MeshSnapshot> snapshot,
                   const model::Changes& changes, SteadyTime since = SteadyTime::max());
  void on_secrets(const std::optional<ServiceIdentity>& identity);
  void on_hook_changed() { classes_.rebuild_all(); }

  // Waits for running builds. Afterwards nothing on the executor uses what they borrow.
  void stop_builds();

  Admission& admission() { return admission_; }
  const Admission& admission() const { return admission_; }
  Endings& endings() { return endings_; }
  Trials& trials() { return trials_; }

  // A connected proxy with its sent and acknowledged sets by type (null: none).
  struct View {
    Proxy proxy;
    ResourceSets sent;
    ResourceSets acknowledged;
    std::array<WallTime, kXdsTypes.size()> updated{};
  };
  std::vector<Proxy> list() const;  // ordered by workload
  std::vector<View> find(const std::string& name) const;

  // Progress: as ProgressHost. hub_progress.cpp
  std::vector<ProxyProgress> progress(const std::vector<model::ProxyKey>& proxies) const;
  std::vector<ReportedProxy> report() const;
  model::CertificateProgress certificate_progress(const model::CertificateGoal& goal) const;
  Subscription subscribe_progress(std::function<void(const model::ProxyKey*)> on_progress) {
    return progressed_.subscribe(std::move(on_progress));
  }

  // Refusals: as TrialHost.
  Subscription subscribe_refusals(std::function<void(const Refusal&)> on_refusal) {
    return refused_.subscribe(std::move(on_refusal));
  }
  // Meshes of single proxies: as TrialHost. hub_meshes.cpp
  void update_mesh(const MeshUpdate& update);
  void drop_mesh(MeshNumber number) { classes_.drop_mesh(number); }
  void assign_mesh(const model::ProxyKey& proxy, MeshNumber number);
  std::set<model::ProxyKey> connected() const;

 private:
  void serve(Stream& stream);
  void note_kind(Stream& stream, const std::string& first_request);
  void take_over(Stream& stream);
  void promote(const Stream& stream);
  void classify(Stream& stream, const model::MeshSnapshot* before = nullptr,
                SteadyTime since = SteadyTime::max());
  std::optional<NameSet> doubted_endpoints(const Stream& stream) const;
  void note_reshaped(const model::Changes& changes);
  void give_sets(Stream& stream, SteadyTime changed_at, std::optional<std::uint64_t> until = {});
  void handle(Stream& stream, const std::string& bytes);
  void read_next(Stream& stream, std::size_t excess);
  void forget(StreamId id);
  void recheck(const model::Changes& changes, std::set<StreamId>& regroup);
  void on_class_changed(const ProxyClassPtr& entry);
  void on_class_unchanged(const ProxyClassPtr& entry);
  void pump();
  void write(Stream& stream, const Response& response);
  void tick();
  void check_certificate(Stream& stream, WallTime now, std::vector<StreamId>& expired);
  View view(const Stream& stream) const;

  std::uint64_t applied(const Stream& stream) const;
  void note_domains(const model::MeshSnapshot* before);
  bool has_domains(const Stream& stream, const TrustDomains& domains) const;
  std::uint64_t reached(const Stream& stream, std::uint64_t generation) const;
  void unsettle(Stream& stream, std::uint64_t generation);
  void leave(Stream& stream, XdsType type, std::uint64_t generation);
  void note_acknowledged(Stream& stream);
  void note_settled(Stream& stream);
  void note_change(Stream& stream, SteadyTime since);
  void observe_change(Stream& stream);
  void tell_progress(Stream& stream);
  bool is_whole(Stream& stream) const;
  const model::MeshSnapshot& mesh_of(const Stream& stream) const;
  translate::ProxyClass class_in(const model::MeshSnapshot& mesh, const Stream& stream) const;
  void recall_leaving(const Stream& stream, const std::vector<MeshService>& own_ports);
  void note_leaving(const Stream& stream, const model::MeshSnapshot& before,
                    const std::vector<MeshService>& own_ports);
  bool refuses(const Stream& stream) const;
  std::uint64_t acknowledged_by_all() const;
  void tick_leaving(SteadyTime now);

  // Readiness of proxies to serve: hub_readiness.cpp
  void await_ports(Stream& stream);
  void await_admissions(Stream& stream, const translate::ProxyClass& next);
  void note_ready(Stream& stream);
  void note_disconnected(const model::ProxyKey& key);
  void settle_readiness();

  // Log lines and metrics: hub_report.cpp
  void say(LogLevel level, std::string_view message, const Stream& stream,
           std::vector<LogField> fields);
  void report_zeros() const;
  void report_behind(SteadyTime now);
  void report_queues() const;
  void report_flapping(const Stream& stream, LogField other);
  void report_twins(SteadyTime now);
  void report_nack(const Stream& stream, XdsType type, std::string_view detail);
  void report_end(const Stream& stream, CloseCode code, const std::string& text);
  void report_refusal(std::string_view code, std::vector<LogField> fields);

  const std::string replica_;
  HubDependencies deps_;
  NameSetPool names_;
  ClassTable classes_;
  LogLimit refusals_logged_;
  LogLimits<std::pair<std::string_view, model::ProxyKey>> lines_;  // by message, of say()
  PushQueue queue_;
  ReplicaStreams replica_streams_;
  LeavingPorts leaving_;
  std::shared_ptr<const model::MeshSnapshot> snapshot_;
  std::uint64_t generation_before_ = 0;  // generation before snapshot_
  // Times of changes of clusters since the start: of all, by service, and by client.
  std::optional<SteadyTime> reshaped_at_;
  std::map<ServiceName, SteadyTime> reshaped_;
  std::map<ServiceIdentity, SteadyTime> reshaped_clients_;
  // The generation in which trust domains changed last; 0: never.
  std::uint64_t domains_changed_ = 0;
  StreamTable streams_;
  Endings endings_;
  Admission admission_;
  bool pumping_ = false;
  std::map<model::ProxyKey, MeshNumber> own_meshes_;  // proxies that have not the mesh of all
  Notifier<const Refusal&> refused_;
  Notifier<const model::ProxyKey*> progressed_;
  Subscription tick_;
  Subscription readiness_settles_;
  Trials trials_;  // last: its builds end before anything that they use is destroyed
};

}  // namespace osm::inline v1::ads
