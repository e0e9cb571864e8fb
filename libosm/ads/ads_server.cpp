#include "ads/ads_server.hpp"

#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "ads/acceptor.hpp"
#include "ads/grpc_credentials.hpp"
#include "ads/grpc_service.hpp"
#include "ads/hub.hpp"
#include "ads/renewals.hpp"
#include "base/descriptor.hpp"
#include "base/may_wait.hpp"
#include "base/pulse.hpp"
#include "base/shared_metrics.hpp"
#include "base/strand.hpp"
#include "translate/config_dump.hpp"

namespace osm::inline v1::ads {
namespace {

constexpr int kKeepaliveMs = 60'000;
constexpr int kKeepaliveTimeoutMs = 20'000;
constexpr int kMinClientPingMs = 10'000;
constexpr int kMaxStreamsPerConnection = 100;
// Enough for kMaxNames names of usual length, each with its version.
constexpr int kMaxRequestBytes = 8 << 20;
// gRPC's default is two minutes, also for connections that send nothing.
constexpr int kHandshakeTimeoutMs = 10'000;
// Period in which a connection accepts new streams (then GOAWAY; existing streams go on). A later
// stream uses a new connection, and so shows the proxy's present certificate.
constexpr int kConnectionTakesStreamsMs = 10'000;
constexpr std::chrono::seconds kGrace{1};

// Passes snapshots from the writer's thread to the strand. It keeps only the newest one, with the
// changes of all skipped ones.
class SnapshotInbox {
 public:
  using SnapshotPtr = std::shared_ptr<const model::MeshSnapshot>;
  struct Delivery {
    SnapshotPtr snapshot;
    model::Changes changes;
    SteadyTime since;   // of the first change
    SteadyTime put_at;  // of the first snapshot
  };

  // Result: true if the strand must be notified.
  bool put(const SnapshotPtr& snapshot, SteadyTime since, SteadyTime now) {
    std::lock_guard lock(mutex_);
    if (!snapshot || (newest_ && snapshot->generation <= newest_->generation)) return false;
    if (!newest_) changes_.everything = true;  // this is the first generation
    changes_.merge(snapshot->changes);
    newest_ = snapshot;
    since_ = std::min(since_, since);
    if (waiting_) return false;
    put_at_ = now;
    return waiting_ = true;
  }

  Delivery take() {
    std::lock_guard lock(mutex_);
    waiting_ = false;
    return {newest_, std::exchange(changes_, {}), std::exchange(since_, SteadyTime::max()),
            put_at_};
  }

 private:
  std::mutex mutex_;
  SnapshotPtr newest_;
  model::Changes changes_;
  SteadyTime since_ = SteadyTime::max();
  SteadyTime put_at_{};
  bool waiting_ = false;
};

void add_dumped(const Hub::View& view, XdsType type, std::vector<translate::DumpedResource>& out) {
  const std::size_t at = index_of(type);
  const auto add = [&](const ResourceSetPtr& set, bool acknowledged) {
    for (const EncodedPtr& r : set->resources())
      out.push_back({type, r->name, set->version(), r->any, view.updated[at], acknowledged,
                     acknowledged ? "" : view.proxy.types[at].nack_detail});
  };
  const ResourceSetPtr& acknowledged = view.acknowledged[at];
  const ResourceSetPtr& sent = view.sent[at];
  if (acknowledged) add(acknowledged, true);
  if (sent && sent != acknowledged) add(sent, false);
}

std::set<std::string> unary_methods(const AdsServerDependencies& deps) {
  std::set<std::string> methods;
  if (deps.renew_certificate) methods.insert(kRenewMethod);
  if (deps.drain_machine) methods.insert(kDrainMethod);
  return methods;
}

class Server final : public AdsServer {
 public:
  Server(const AdsServerOptions& options, const AdsServerDependencies& deps)
      : options_(options),
        deps_(deps),
        strand_(deps.runtime.executor),
        pulse_("streams of proxies", strand_, deps.runtime.clock),
        hub_({.accepted_domains = options.accepted_domains,
              .unknown_workload_wait = options.unknown_workload_wait,
              .replica = options.replica,
              .rebalance = options.rebalance},
             {deps.runtime, strand_, deps.secrets, deps.registry, deps.hook, deps.board,
              deps.admits, [this] { return waiting_.load(); }, deps.readiness}),
        renewals_(hub_.admission(), deps.runtime.clock, deps.runtime.log, deps_.renew_certificate),
        drains_(hub_.admission(), deps.runtime.clock, deps.runtime.log, deps_.drain_machine),
        service_(*this, deps.runtime.metrics, unary_methods(deps_)) {}

  ~Server() override { static_cast<void>(shutdown(kGrace).ok()); }

  Status start() {
    // First, since proxies of a server that listens ask for secrets.
    secrets_ = deps_.secrets.subscribe([this](const std::optional<ServiceIdentity>& identity) {
      tell(hub_, &Hub::on_secrets, identity);
    });
    if (!options_.address.empty()) OSM_TRY(listen());
    snapshots_ = deps_.snapshots.subscribe(
        [this](const SnapshotInbox::SnapshotPtr& snapshot) { receive(snapshot); });
    receive(deps_.snapshots.load());
    return {};
  }

  void open(StreamId id, PeerCertificate peer, std::shared_ptr<ProxyStream> stream) override {
    if (acceptor_) acceptor_->verified(peer.address);
    post([this, id, trusted = check(peer), peer = std::move(peer), stream = std::move(stream)] {
      hub_.open(id, identify(peer, trusted), stream);
    });
  }
  void on_request(StreamId id, std::string bytes) override {
    tell(hub_, &Hub::on_request, id, std::move(bytes));
  }
  void on_write_done(StreamId id) override { tell(hub_, &Hub::on_write_done, id); }
  void on_closed(StreamId id) override { tell(hub_, &Hub::on_closed, id); }
  void on_call(const std::string& method, PeerCertificate peer, std::string bytes,
               std::shared_ptr<UnaryCall> call) override {
    if (acceptor_) acceptor_->verified(peer.address);
    post([this, drains = method == kDrainMethod, trusted = check(peer), peer = std::move(peer),
          b = std::move(bytes), call = std::move(call)] {
      auto who = identify(peer, trusted);
      if (drains)
        drains_.answer(who, b, call);
      else
        renewals_.answer(std::move(who), b, call);
    });
  }

  std::string address() const override { return acceptor_ ? acceptor_->address() : ""; }
  Status health() const override { return acceptor_ ? acceptor_->health() : Status(); }
  Status alive() const override { return pulse_.check(); }
  bool full() const override { return hub_.admission().full(); }

  std::vector<Proxy> list_proxies() const override {
    require_may_wait(strand_, "ControlPlane::list_proxies");
    return on_strand([this] { return hub_.list(); });
  }

  Result<std::string> config_dump(const std::string& name) const override {
    OSM_TRY(check_may_wait(strand_, "ControlPlane::config_dump"));
    const auto views = on_strand([this, name] { return hub_.find(name); });
    if (views.empty())
      return Error{ErrorCode::kNotFound, "no proxy " + name +
                                             " is connected to this controller; osm proxy list "
                                             "shows those that are"};
    if (views.size() > 1)
      return Error{ErrorCode::kInvalidArgument,
                   name + " names " + std::to_string(views.size()) +
                       " proxies; give NAMESPACE/NAME or the proxy's UUID"};
    std::vector<translate::DumpedResource> resources;
    for (XdsType type : kXdsTypes) add_dumped(views.front(), type, resources);
    return translate::config_dump_json(resources);
  }

  std::vector<ProxyProgress> progress(const std::vector<model::ProxyKey>& proxies) const override {
    return on_strand([this, proxies] { return hub_.progress(proxies); });
  }
  std::vector<ReportedProxy> report() const override {
    return on_strand([this] { return hub_.report(); });
  }
  model::CertificateProgress certificate_progress(
      const model::CertificateGoal& goal) const override {
    return on_strand([this, goal] { return hub_.certificate_progress(goal); });
  }
  void recall(const std::string& issuer_key_id) override {
    tell(hub_.endings(), &Endings::recall, issuer_key_id);
  }
  Subscription subscribe_progress(
      std::function<void(const model::ProxyKey*)> on_progress) override {
    return hub_.subscribe_progress(std::move(on_progress));
  }

  Subscription subscribe_refusals(std::function<void(const Refusal&)> on_refusal) override {
    return hub_.subscribe_refusals(std::move(on_refusal));
  }
  void try_on(const model::ProxyKey& proxy, ProxyMesh mesh,
              std::function<void(const TrialResult&)> done) override {
    tell(hub_.trials(), &Trials::try_on, proxy, std::move(mesh), std::move(done));
  }
  void end_trial(const model::ProxyKey& proxy, bool restore) override {
    tell(hub_.trials(), &Trials::end_trial, proxy, restore);
  }
  void compare(const model::ProxyKey& proxy, std::vector<ProxyMesh> pairs,
               std::function<void(std::vector<ResourceNames>)> done) override {
    tell(hub_.trials(), &Trials::compare, proxy, std::move(pairs), std::move(done));
  }
  void update_mesh(MeshUpdate update) override { tell(hub_, &Hub::update_mesh, std::move(update)); }
  void drop_mesh(MeshNumber number) override { tell(hub_, &Hub::drop_mesh, number); }
  void assign_mesh(const model::ProxyKey& proxy, MeshNumber number) override {
    tell(hub_, &Hub::assign_mesh, proxy, number);
  }
  void list_connected(std::function<void(std::set<model::ProxyKey>)> done) override {
    post([this, done = std::move(done)] { done(hub_.connected()); });
  }

  void set_accepted_domains(std::vector<TrustDomain> domains) override {
    tell(hub_.admission(), &Admission::accept, std::move(domains));
  }

  void refresh_resources() override { tell(hub_, &Hub::on_hook_changed); }

  Status shutdown(std::chrono::milliseconds deadline) override {
    std::lock_guard lock(shutdown_mutex_);
    if (std::exchange(ended_, true)) return {};
    const auto end = std::chrono::steady_clock::now() + deadline;
    drain(deadline * 3 / 4);
    snapshots_.reset();
    secrets_.reset();
    strand_.stop();
    hub_.stop_builds();
    // The strand has stopped, so this thread may use the strand's data.
    hub_.endings().close_all(CloseCode::kUnavailable, kShuttingDown);
    service_.close_all(CloseCode::kUnavailable, kShuttingDown);
    if (acceptor_) acceptor_->stop();
    if (!server_) return {};
    const auto left = end - std::chrono::steady_clock::now();
    const bool ended = service_.wait_until_empty(std::max(
        std::chrono::floor<std::chrono::milliseconds>(left), std::chrono::milliseconds(0)));
    server_->Shutdown(std::chrono::system_clock::now());  // cuts remaining streams
    server_->Wait();
    server_.reset();
    if (!ended)
      return Error{ErrorCode::kDeadlineExceeded, "streams that did not end in time were cut"};
    return {};
  }

 private:
  Status listen() {
    OSM_TRY(acceptor_, Acceptor::listen({.address = options_.address,
                                         .limits = options_.connections,
                                         .runtime = deps_.runtime,
                                         .hand_over = [this](int listener, int connection) {
                                           hand_over(listener, connection);
                                         }}));
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(&service_);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    // gRPC's default of two pings would keep a silent proxy's dead connection for hours.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               kMinClientPingMs);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, kConnectionTakesStreamsMs);
    builder.SetResourceQuota(grpc::ResourceQuota().Resize(options_.max_transport_bytes));
    builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
    builder.SetMaxSendMessageSize(-1);
    credentials_ = mutual_tls(options_.server_certificate,
                              [this] { return deps_.secrets.trust_bundle_pem(); });
    to_grpc_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials_);
    server_ = builder.BuildAndStart();
    if (!server_)
      return Error{ErrorCode::kInternal, "the gRPC server does not start; its log lines say why"};
    acceptor_->run();
    return {};
  }

  // On the strand, whose threads allocate anyway: memory of a connection that the acceptor's thread
  // allocated would lie in an arena of its own, at 4 kB more per proxy.
  void hand_over(int listener, int connection) {
    strand_.post([this, listener, owned = std::make_shared<Descriptor>(connection)] {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
      parameters.listener_fd = listener;
      parameters.fd = owned->release();
      to_grpc_->HandleNewConnection(&parameters);
    });
  }

  // A connection outlives the trust in its certificate. On the transport's thread: it takes long.
  Status check(const PeerCertificate& peer) const {
    return deps_.secrets.check_peer(peer.pem, peer.chain_pem);
  }
  Result<Peer> identify(const PeerCertificate& peer, const Status& trusted) const {
    OSM_TRY(trusted);
    return identify_peer(hub_.admission().accepted_domains(), peer);
  }

  // Returns when the last stream is told to end, after `window` at the latest.
  void drain(std::chrono::milliseconds window) {
    if (window < Pacer::kTurn) return;
    const auto drained = std::make_shared<std::promise<void>>();
    tell(hub_.endings(), &Endings::drain, std::chrono::nanoseconds(window),
         std::function<void()>([drained] { drained->set_value(); }));
    drained->get_future().wait_for(window);
  }

  void receive(const SnapshotInbox::SnapshotPtr& snapshot) {
    const Clock& clock = deps_.runtime.clock;
    const SteadyTime since = deps_.announced_at ? deps_.announced_at() : SteadyTime::max();
    if (!inbox_.put(snapshot, since, clock.steady_now())) return;
    post([this, &clock] {
      SnapshotInbox::Delivery delivery = inbox_.take();
      deps_.runtime.metrics.observe(kPushStage, {{"stage", "deliver"}},
                                    clock.steady_now() - delivery.put_at);
      hub_.on_snapshot(std::move(delivery.snapshot), delivery.changes, delivery.since);
    });
  }

  // Runs a task of the mesh or of a stream on the strand, and counts those that wait for it.
  void post(std::function<void()> task) {
    ++waiting_;
    strand_.post([this, task = std::move(task)] {
      --waiting_;
      task();
    });
  }

  // Calls a function of the hub or a part of it on the strand, later.
  template <class Part, class... Takes, class... Given>
  void tell(Part& part, void (Part::*function)(Takes...), Given... given) {
    post([&part, function, ... given = std::move(given)]() mutable {
      (part.*function)(std::move(given)...);
    });
  }

  // The result of `read`, which runs on the strand; a default value if the server shuts down.
  template <class F, class Answer = std::invoke_result_t<F>>
  Answer on_strand(F read) const {
    auto promise = std::make_shared<std::promise<Answer>>();
    std::future<Answer> answer = promise->get_future();
    strand_.post(
        [promise = std::move(promise), read = std::move(read)] { promise->set_value(read()); });
    try {
      return answer.get();
    } catch (const std::future_error&) {
      return Answer();  // the task was dropped, and its promise with it
    }
  }

  const AdsServerOptions options_;
  const AdsServerDependencies deps_;
  mutable Strand strand_;
  mutable Pulse pulse_;
  std::atomic<std::size_t> waiting_{0};
  Hub hub_;
  Renewals renewals_;
  Drains drains_;
  GrpcService service_;
  SnapshotInbox inbox_;
  std::shared_ptr<grpc::ServerCredentials>
      credentials_;  // outlives server_, whose handshakes call it
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> to_grpc_;
  std::unique_ptr<Acceptor> acceptor_;
  std::mutex shutdown_mutex_;
  bool ended_ = false;
  Subscription snapshots_;
  Subscription secrets_;
};

}  // namespace

Result<std::unique_ptr<AdsServer>> AdsServer::start(const AdsServerOptions& options,
                                                    const AdsServerDependencies& dependencies) {
  auto server = std::make_unique<Server>(options, dependencies);
  OSM_TRY(server->start());
  return std::unique_ptr<AdsServer>(std::move(server));
}

}  // namespace osm::inline v1::ads
