#include "ads/hub.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ads/metrics.hpp"
#include "base/check.hpp"

namespace osm::inline v1::ads {
namespace {

constexpr Counter kProxyReconnectCount{"osm_proxy_reconnect_count", "Proxies that connected again"};
constexpr Counter kProxyXdsRequestCount{
    "osm_proxy_xds_request_count", "Requests of proxies, by xDS type", {"type"}};
constexpr Counter kProxyRequestsDelayed{"osm_proxy_requests_delayed_total",
                                        "Requests of proxies that name too much, read late"};
constexpr Counter kResponseBytes{
    "osm_response_bytes_total", "Bytes of responses to proxies, by xDS type", {"type"}};
constexpr Counter kProxyResponseSendSuccessCount{
    "osm_proxy_response_send_success_count", "Responses sent to proxies, by xDS type", {"type"}};

constexpr std::chrono::seconds kTick{1};
// Time from a change of clusters in which claims of their endpoints are doubted.
constexpr std::chrono::seconds kReshaped{5};
constexpr std::size_t kMostReshaped = 256;  // Services; after more changes all are doubted
constexpr std::size_t kMaxLoggedTypeUrl = 200;
constexpr std::string_view kLibraryAgent = "gRPC ";  // "gRPC Go", "gRPC C-core", "gRPC Java"

}  // namespace

Hub::Hub(const HubOptions& options, const HubDependencies& dependencies)
    : replica_(options.replica),
      deps_(dependencies),
      classes_({deps_.runtime, deps_.strand, deps_.secrets, deps_.hook,
                [this](const ProxyClassPtr& entry) { on_class_changed(entry); },
                [this](const ProxyClassPtr& entry) { on_class_unchanged(entry); }}),
      refusals_logged_(deps_.runtime.clock),
      lines_(deps_.runtime.clock),
      queue_(options.max_unfinished_bytes),
      replica_streams_(deps_.board),
      endings_({streams_, queue_, deps_.runtime, deps_.strand,
                options.rebalance ? deps_.board : nullptr, [this] { return admission_.admits(); },
                [this](const Stream& stream, CloseCode code, const std::string& text) {
                  report_end(stream, code, text);
                },
                [this](StreamId id) { forget(id); }, [this] { pump(); }}),
      admission_(
          options.accepted_domains,
          {streams_, deps_.runtime, deps_.strand, options.unknown_workload_wait, deps_.admits,
           [this](StreamId id, CloseCode code, const std::string& text, bool cut) {
             endings_.close(id, code, text, cut);
           }}),
      trials_({streams_, queue_, classes_.cache(), deps_.hook, deps_.runtime, deps_.strand,
               [this](const model::MeshSnapshot& mesh, const Stream& stream) {
                 return class_in(mesh, stream);
               },
               [this](const Stream& stream) { return applied(stream); },
               [this](Stream& stream) { give_sets(stream, SteadyTime::max()); },
               [this] { pump(); }}) {
  report_zeros();
  tick_ = deps_.strand.post_after(kTick, [this] { tick(); });
}

// --- admission ---

void Hub::open(StreamId id, Result<Peer> peer, std::shared_ptr<ProxyStream> transport) {
  if (endings_.draining()) {  // the proxy goes to another replica
    report_refusal(kShuttingDown, {});
    return transport->close(CloseCode::kUnavailable, kShuttingDown, false);
  }
  if (peer.ok())
    if (const Status admitted = admission_.admits(); !admitted.ok()) peer = admitted.error();
  if (!peer) {
    report_refusal(error_code_text(peer.error().code), {{"detail", peer.error().message}});
    return transport->close(close_code(peer.error().code), peer.error().text(), false);
  }
  Stream& stream = streams_.add(id, std::move(peer).value(), std::move(transport));
  stream.connected_at = deps_.runtime.clock.wall_now();
  stream.transport->read_next();
  if (admission_.admit(stream)) serve(stream);
  pump();
}

void Hub::serve(Stream& stream) {
  const model::ProxyKey key = stream.key();
  const bool beside = streams_.serving(key) != &stream;
  Doubts doubts = admission_.memory().doubts(key);
  const std::optional<NameSet> doubted = doubted_endpoints(stream);
  if (!doubted) doubts[index_of(XdsType::kEndpoint)].unsure = true;
  stream.session.emplace(stream.transport->variant(), names_, doubts);
  if (doubted) stream.session->doubt_endpoints(*doubted);
  endings_.returned(key);
  await_ports(stream);
  const std::string host(peer_host(stream.peer.address));
  const ProxyMemory::Arrival arrival =
      admission_.memory().arrived(key, host, deps_.runtime.clock.steady_now());
  if (arrival.again && !beside) deps_.runtime.metrics.add(kProxyReconnectCount, {}, 1);
  if (arrival.flapping) report_flapping(stream, {"previous_address", arrival.previous_host});
  if (!beside) replica_streams_.opened(key, host);
  classify(stream);
  if (!beside) deps_.registry.register_proxy(view(stream).proxy);
  progressed_.notify(&key);
  admission_.note_serving();
  say(LogLevel::kInfo, "proxy connected", stream,
      {{"workload", stream.workload->workload.name.str()}, {"address", stream.peer.address}});
  if (!stream.first_bytes.empty()) handle(stream, std::exchange(stream.first_bytes, {}));
}

// At another replica the last stream may have ended between changed clusters and their endpoints.
// The proxy claims both then, and would wait for the endpoints until its time-out. Result:
// endpoints whose claims are doubted; nullopt: all.
std::optional<NameSet> Hub::doubted_endpoints(const Stream& stream) const {
  NameSet names;
  if (!deps_.board) return names;
  const SteadyTime now = deps_.runtime.clock.steady_now();
  const auto lately = [&](SteadyTime at) { return now - at < kReshaped; };
  const SteadyTime* client =
      find_in(reshaped_clients_, identity_of(stream.workload->workload.account));
  if ((reshaped_at_ && lately(*reshaped_at_)) || (client && lately(*client)) ||
      reshaped_.size() > kMostReshaped)
    return std::nullopt;
  for (const auto& [name, at] : reshaped_)
    if (const auto service = snapshot_->services.find(name); service && lately(at))
      for (const MeshService& port : service->ports) names.push_back(port.cluster_name().str());
  return ordered(std::move(names));
}

void Hub::note_reshaped(const model::Changes& changes) {
  const SteadyTime now = deps_.runtime.clock.steady_now();
  const auto is_old = [&](const auto& entry) { return now - entry.second >= kReshaped; };
  std::erase_if(reshaped_, is_old);
  std::erase_if(reshaped_clients_, is_old);
  if (changes.everything) reshaped_at_ = now;
  for (const ServiceName& service : changes.services) reshaped_[service] = now;
  for (const ServiceIdentity& identity : changes.identities) reshaped_clients_[identity] = now;
}

// `before`: the snapshot before the one that is new; null: the snapshot is not new. `since`: as
// on_snapshot().
void Hub::classify(Stream& stream, const model::MeshSnapshot* before, SteadyTime since) {
  translate::ProxyClass proxy_class = class_in(mesh_of(stream), stream);
  if (!stream.proxy_class) recall_leaving(stream, proxy_class.own_ports);
  if (stream.proxy_class && before) note_leaving(stream, *before, proxy_class.own_ports);
  proxy_class.leaving = leaving_.of(stream.key());
  await_admissions(stream, proxy_class);
  if (stream.proxy_class && stream.proxy_class->proxy_class() == proxy_class) return;
  if (stream.proxy_class) {
    if (stream.proxy_class->proxy_class().own_ports != proxy_class.own_ports) await_ports(stream);
    const std::uint64_t held = classes_.generation_of(*stream.proxy_class);
    unsettle(stream, before ? std::min(held, generation_before_) : held);
    for (XdsType type : kXdsTypes) leave(stream, type, stream.applied);
    note_change(stream, since);
    classes_.leave(stream.proxy_class, stream.id);
  }
  stream.proxy_class = classes_.join(proxy_class, stream.id);
  if (stream.proxy_class->ready()) give_sets(stream, SteadyTime::max());
}

// --- events of the mesh ---

void Hub::on_snapshot(std::shared_ptr<const model::MeshSnapshot> snapshot,
                      const model::Changes& changes, SteadyTime since) {
  const auto before = std::exchange(snapshot_, std::move(snapshot));
  generation_before_ = before ? before->generation : 0;
  if (before) leaving_.remember(before, deps_.runtime.clock.steady_now());
  if (before && deps_.board) note_reshaped(changes);
  admission_.on_snapshot(snapshot_);
  note_domains(before.get());
  std::set<StreamId> regroup = classes_.on_snapshot(snapshot_, changes, since);
  for (const ServiceName& service : changes.services)
    if (const std::set<StreamId>* selected = streams_.selected_by(service))
      regroup.insert(selected->begin(), selected->end());
  recheck(changes, regroup);
  for (StreamId id : regroup)
    if (Stream* stream = streams_.find(id); stream && stream->session)
      classify(*stream, before.get(), since);
  progressed_.notify(nullptr);  // untouched classes have this generation
  pump();
}

// Checks workloads that were added, removed or changed. `regroup` gets the streams of these.
void Hub::recheck(const model::Changes& changes, std::set<StreamId>& regroup) {
  std::set<model::ProxyKey> keys = changes.workloads;
  if (changes.everything) keys.merge(streams_.proxies());
  for (const model::ProxyKey& key : keys) {
    for (StreamId id : streams_.waiting(key))
      if (Stream* stream = streams_.find(id); stream && admission_.admit(*stream)) serve(*stream);
    for (const StreamId id : streams_.served(key))
      if (Stream* stream = streams_.find(id); stream && admission_.keep(*stream))
        regroup.insert(id);
    if (snapshot_->workloads.find(key)) continue;
    admission_.memory().erase(key);
    streams_.forget_kind(key);
    leaving_.forget(key);
    own_meshes_.erase(key);
  }
}

void Hub::on_secrets(const std::optional<ServiceIdentity>& identity) {
  classes_.on_secrets(identity);
  pump();
}

void Hub::on_class_changed(const ProxyClassPtr& entry) {
  for (StreamId id : entry->members()) {
    Stream* stream = streams_.find(id);
    if (!stream || stream->proxy_class != entry) continue;
    give_sets(*stream, entry->changed_at(), entry->superseded());
  }
  trials_.release();
  pump();
}

// `until`: the newest generation of the sets of before; none: its class's.
void Hub::give_sets(Stream& stream, SteadyTime changed_at, std::optional<std::uint64_t> until) {
  const std::uint64_t generation = until.value_or(classes_.generation_of(*stream.proxy_class));
  const ResourceSets sets = trials_.sets_for(stream);
  unsettle(stream, generation);
  for (XdsType type : kXdsTypes)
    if (trials_.on_trial(stream) || sets[index_of(type)] != stream.session->given(type))
      leave(stream, type, generation);
  stream.session->set_resources(sets);
  note_change(stream, changed_at);
  if (stream.change.since != SteadyTime::max() && !stream.given_at)
    stream.given_at = deps_.runtime.clock.steady_now();
  queue_.push(stream.id);
}

// --- messages of the proxy ---

void Hub::on_request(StreamId id, const std::string& bytes) {
  Stream* stream = streams_.find(id);
  if (!stream) return;
  if (stream->session) {
    handle(*stream, bytes);
    pump();
  } else {
    stream->first_bytes = bytes;  // the next one is not read before this one is answered
  }
}

void Hub::handle(Stream& stream, const std::string& bytes) {
  if (stream.kind == Stream::Kind::kUnheard) note_kind(stream, bytes);
  const Result<Session::Heard> heard = stream.session->on_message(bytes);
  if (!heard) return endings_.close(stream.id, CloseCode::kInvalidArgument, heard.error().text());
  const std::string_view type_text = heard->type ? xds_type_text(*heard->type) : "other";
  deps_.runtime.metrics.add(kProxyXdsRequestCount, {{"type", type_text}}, 1);
  if (heard->effect == Session::Effect::kNack) report_nack(stream, *heard->type, *heard->error);
  if (heard->effect == Session::Effect::kAck && heard->sent_at)
    deps_.runtime.metrics.observe(kPushStage, {{"stage", "ack"}},
                                  deps_.runtime.clock.steady_now() - *heard->sent_at);
  if (heard->effect == Session::Effect::kAck || heard->effect == Session::Effect::kStale)
    note_acknowledged(stream);
  if (heard->effect == Session::Effect::kUnknownType)
    say(LogLevel::kDebug, "a request of an unknown xDS type is ignored", stream,
        {{"type", std::string(heard->type_url.substr(0, kMaxLoggedTypeUrl))}});
  queue_.push(stream.id);
  read_next(stream, heard->excess);
}

// A request may name far more than the proxy's class has. It costs the strand time, so that a proxy
// that goes on with such requests is read slowly.
void Hub::read_next(Stream& stream, std::size_t excess) {
  const SteadyTime now = deps_.runtime.clock.steady_now();
  const auto pause = excess == 0 ? std::chrono::nanoseconds(0)
                                 : admission_.memory().charge(stream.key(), excess, now);
  if (pause <= pause.zero()) return stream.transport->read_next();
  deps_.runtime.metrics.add(kProxyRequestsDelayed, {}, 1);
  stream.reads_at = deps_.strand.post_after(pause, [this, id = stream.id] {
    if (const Stream* waiting = streams_.find(id)) waiting->transport->read_next();
  });
}

// --- streams of gRPC libraries ---
//
// A process has a stream for each channel and one for its server, all with the machine's
// certificate. The first is the proxy's as an Envoy's would be, the others are beside it.

// Needs no trust: it selects the form of what the certificate's own identity gets.
void Hub::note_kind(Stream& stream, const std::string& first_request) {
  const std::string_view agent = user_agent_name(stream.transport->variant(), first_request);
  const bool grpc = agent.starts_with(kLibraryAgent);
  const bool counted_as_library = streams_.is_library(stream);
  streams_.set_kind(stream, grpc ? Stream::Kind::kLibrary : Stream::Kind::kEnvoy);
  if (grpc != counted_as_library) {
    stream.session->set_resources({});  // those of the other kind
    classify(stream);
  }
  if (!grpc) take_over(stream);
}

// An Envoy is alone with its certificate, as ever.
void Hub::take_over(Stream& stream) {
  const model::ProxyKey key = stream.key();
  if (streams_.serving(key) == &stream) return;
  admission_.supersede(stream);
  streams_.serve(stream);
  replica_streams_.opened(key, std::string(peer_host(stream.peer.address)));
  deps_.registry.register_proxy(view(stream).proxy);
  progressed_.notify(&key);
  admission_.note_serving();
}

// The stream took the place of another of the same certificate, which ended.
void Hub::promote(const Stream& stream) {
  const model::ProxyKey key = stream.key();
  deps_.registry.unregister_proxy(key.id);
  deps_.registry.register_proxy(view(stream).proxy);
  progressed_.notify(&key);
}

// --- writing ---

void Hub::pump() {
  // Ends and class changes within a turn call this function again; the outer loop sees what they
  // queued.
  if (std::exchange(pumping_, true)) return;
  while (const std::optional<StreamId> id = queue_.pop()) {
    Stream* found = streams_.find(*id);
    if (!found || !found->session) continue;
    Stream& stream = *found;
    if (stream.session->writing()) {  // it gets its turn when the write is done
      tell_progress(stream);
      continue;
    }
    const MeshVersion& mesh = classes_.version_of(*stream.proxy_class);
    if (auto response = stream.session->next_response(
            deps_.runtime.clock.steady_now(), trials_.on_trial(stream) ? 0 : mesh.generation)) {
      response->control_plane = fmt::format("{}/{}/{}", replica_, mesh.generation, mesh.hash);
      tell_progress(stream);
      write(stream, *response);
    } else if (stream.session->emptied()) {
      endings_.end_emptied(stream);
    } else {
      note_settled(stream);
      tell_progress(stream);
      trials_.judge(stream);
    }
  }
  pumping_ = false;
}

void Hub::write(Stream& stream, const Response& response) {
  const std::string_view type = xds_type_text(response.type);
  const SteadyTime now = deps_.runtime.clock.steady_now();
  const std::uint64_t generation = classes_.generation_of(*stream.proxy_class);
  unsettle(stream, generation);
  leave(stream, response.type, generation);
  stream.write_bytes = response_size(response);
  stream.write_started = now;
  stream.updated[index_of(response.type)] = deps_.runtime.clock.wall_now();
  queue_.started(stream.write_bytes);
  deps_.runtime.metrics.add(kResponseBytes, {{"type", type}}, stream.write_bytes);
  deps_.runtime.metrics.add(kProxyResponseSendSuccessCount, {{"type", type}}, 1);
  if (const auto given = std::exchange(stream.given_at, std::nullopt))
    deps_.runtime.metrics.observe(kPushStage, {{"stage", "queue"}}, now - *given);
  stream.transport->write(response);
}

void Hub::on_write_done(StreamId id) {
  Stream* found = streams_.find(id);
  if (!found) return endings_.on_write_done(id);
  Stream& stream = *found;
  OSM_CHECK(stream.session && stream.write_started);
  deps_.runtime.metrics.observe(kPushStage, {{"stage", "write"}},
                                deps_.runtime.clock.steady_now() - *stream.write_started);
  queue_.finished(std::exchange(stream.write_bytes, 0));
  stream.write_started.reset();
  stream.session->on_write_done();
  queue_.push(id);
  pump();
}

// --- ends ---

void Hub::on_closed(StreamId id) {
  if (streams_.find(id))
    return endings_.close(id, CloseCode::kCancelled, "hung-up: the proxy ended the stream");
  endings_.on_write_done(id);
}

void Hub::forget(StreamId id) {
  using Place = StreamTable::Removed::Place;
  const auto [place, stream, successor] = streams_.remove(id);
  const model::ProxyKey key = stream.key();
  trials_.forget(stream.id);
  queue_.remove(stream.id);
  queue_.finished(stream.write_bytes);
  if (place == Place::kUnserved) return;
  admission_.memory().left(key, stream.session->doubts(), deps_.runtime.clock.steady_now());
  classes_.leave(stream.proxy_class, stream.id);
  if (place == Place::kBeside) return;
  if (successor) return promote(*successor);
  replica_streams_.closed(key);
  note_disconnected(key);
  progressed_.notify(&key);
  deps_.registry.unregister_proxy(key.id);
  admission_.note_serving();
}

void Hub::stop_builds() {
  classes_.stop_builds();
  trials_.stop_builds();
}

// --- time ---

void Hub::tick() {
  tick_ = deps_.strand.post_after(kTick, [this] { tick(); });
  const SteadyTime now = deps_.runtime.clock.steady_now();
  const WallTime wall = deps_.runtime.clock.wall_now();
  endings_.cut_stalled(now);
  if (endings_.forget_returning(now)) progressed_.notify(nullptr);
  report_behind(now);
  report_queues();
  report_twins(now);
  endings_.rebalance(now);
  std::vector<StreamId> expired;
  for (auto& [id, stream] : streams_) {
    check_certificate(stream, wall, expired);
    if (stream.session && stream.session->deadline() && *stream.session->deadline() <= now)
      queue_.push(id);
  }
  for (StreamId id : expired)  // the end of one stream may end others
    if (const Stream* stream = streams_.find(id))
      endings_.close(id, CloseCode::kUnauthenticated, admission_.judge(stream->peer).text);
  classes_.drop_idle();
  classes_.retry_failed();
  trials_.tick(now);
  tick_leaving(now);
  if (deps_.readiness) deps_.readiness->tick();
  pump();
}

}  // namespace osm::inline v1::ads
