// A mesh, its ADS server and the search for what proxies refuse, over transports in memory, on a
// clock and an executor that move when the test says so.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ads/ads_server.hpp"
#include "ads/fake_envoy.hpp"
#include "ads/hub_rig.hpp"
#include "catalog/allowances.hpp"
#include "catalog/mesh_loop.hpp"
#include "catalog/mesh_values.hpp"
#include "lib/run.hpp"
#include "nack_provenance/nack_provenance.hpp"
#include "nack_provenance/verdicts.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/memory_endpoints_provider.hpp"
#include "osm/testing/memory_mesh_spec.hpp"

namespace osm::provenance_test {

namespace values = osm::catalog::values;

// Passes trials on, and notes what one of them allows beyond the newest mesh.
class WatchedTrials final : public ads::TrialHost {
 public:
  WatchedTrials(ads::TrialHost& host, SnapshotCell<model::MeshSnapshot>& newest)
      : host_(host), newest_(newest) {}

  Subscription subscribe_refusals(std::function<void(const ads::Refusal&)> on_refusal) override {
    return host_.subscribe_refusals(std::move(on_refusal));
  }
  void try_on(const model::ProxyKey& proxy, ads::ProxyMesh mesh,
              std::function<void(const ads::TrialResult&)> done) override {
    watch(mesh);
    host_.try_on(proxy, std::move(mesh), std::move(done));
  }
  void end_trial(const model::ProxyKey& proxy, bool restore) override {
    host_.end_trial(proxy, restore);
  }
  void compare(const model::ProxyKey& proxy, std::vector<ads::ProxyMesh> pairs,
               std::function<void(std::vector<ads::ResourceNames>)> done) override {
    host_.compare(proxy, std::move(pairs), std::move(done));
  }
  void update_mesh(ads::MeshUpdate update) override {
    watch(update.mesh);
    meshes.insert_or_assign(update.number, update.mesh);
    host_.update_mesh(std::move(update));
  }
  void drop_mesh(ads::MeshNumber number) override {
    meshes.erase(number);
    host_.drop_mesh(number);
  }
  void assign_mesh(const model::ProxyKey& proxy, ads::MeshNumber number) override {
    host_.assign_mesh(proxy, number);
  }
  void list_connected(std::function<void(std::set<model::ProxyKey>)> done) override {
    host_.list_connected(std::move(done));
  }

  std::set<std::string> beyond;
  std::map<ads::MeshNumber, ads::ProxyMesh> meshes;  // of single proxies

 private:
  void watch(const ads::ProxyMesh& mesh) {
    if (!mesh.mesh) return;
    if (mesh.mesh->config.proxy.tls != newest_.load()->config.proxy.tls)
      beyond.insert("TLS settings of another MeshConfig");
    for (const std::string& one : values::allowed_beyond(*mesh.mesh, *newest_.load()))
      beyond.insert(one);
  }

  ads::TrialHost& host_;
  SnapshotCell<model::MeshSnapshot>& newest_;
};

// Objects that live as long as one controller process.
struct Controller {
  Controller(MeshSpec& written, osm::testing::MemoryEndpointsProvider& provider,
             osm::testing::ManualExecutor& executor, osm::testing::ManualClock& clock,
             model::SecretSource& secrets, ProxyRegistry& registry,
             const nack_provenance::Refusals& elsewhere)
      : loop({.spec = written,
              .providers = {{&provider}},
              .workload_providers = {&provider},
              .trust_domain = ads_test::kDomain,
              .runtime = {executor, executor, clock, rng, log, metrics}}) {
    auto started = ads::AdsServer::start(
        {.address = "", .accepted_domains = {ads_test::kDomain}, .server_certificate = {}},
        {.runtime = {executor, executor, clock, rng, log, metrics},
         .snapshots = loop.snapshots(),
         .secrets = secrets,
         .registry = registry});
    REQUIRE(started.ok());
    server = std::move(*started);
    trials = std::make_unique<WatchedTrials>(*server, loop.snapshots());
    provenance =
        std::make_unique<nack_provenance::NackProvenance>(nack_provenance::NackProvenanceOptions{
            .runtime = {executor, executor, clock, rng, log, metrics},
            .verdicts = verdicts,
            .snapshots = loop.snapshots(),
            .proxies = *trials,
            .inputs = {{{&provider}}, {&provider}, [] { return TrustDomains(ads_test::kDomain); }},
            .elsewhere = [&elsewhere] { return elsewhere; }});
  }
  ~Controller() {
    static_cast<void>(server->shutdown(std::chrono::milliseconds(0)).ok());
    provenance->stop();
    for (const std::string& one : trials->beyond)
      FAIL_CHECK("a trial allowed what the newest mesh does not: " << one);
  }

  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  RandomRng rng;
  nack_provenance::Verdicts verdicts{
      "osm-system", [this](const ObjectKey& object) {
        const catalog::ObjectState state = loop.object_state(object);
        return model::workloads_in(state.entries, *state.snapshot).size();
      }};
  catalog::MeshLoop loop;
  std::unique_ptr<WatchedTrials> trials;
  std::unique_ptr<nack_provenance::NackProvenance> provenance;
  std::unique_ptr<ads::AdsServer> server;
};

// An Envoy at the other end of a stream in memory. It outlives controllers, as Envoys do.
class EnvoyProxy {
 public:
  EnvoyProxy(XdsVariant variant, osm::testing::ManualExecutor& executor, std::mt19937_64& random)
      : envoy(variant, random), variant_(variant), executor_(executor) {
    // Not every resource: the letters stand in some certificates.
    envoy.refuses = [](const ads::EncodedResource& resource) {
      return resource.type == XdsType::kRoute && resource.any.find("bad") != std::string::npos;
    };
  }

  void connect(ads::AdsServer& server, ads::StreamId id, const ads::PeerCertificate& certificate) {
    server_ = &server;
    id_ = id;
    envoy.connect();
    stream_ = std::make_shared<ads_test::MemoryStream>(variant_);
    server.open(id, certificate, stream_);
    executor_.run_until_idle();
  }
  void disconnect() {
    if (stream_ && !stream_->closed) server_->on_closed(id_);
    stream_.reset();
    executor_.run_until_idle();
  }
  bool connected() const { return stream_ && !stream_->closed; }

  // Receives one response or says one thing. Result: whether there was anything.
  bool step() {
    if (!connected() || silent) return false;
    if (stream_->writing) {
      ++responses;
      envoy.receive(*stream_->writing);
      stream_->writing.reset();
      server_->on_write_done(id_);
    } else if (!stream_->reading) {
      return false;
    } else if (const auto request = envoy.next_request()) {
      nacks += request->error.has_value();
      stream_->reading = false;
      server_->on_request(id_, bytes_of(*request));
    } else {
      return false;
    }
    executor_.run_until_idle();
    return true;
  }

  ads_test::FakeEnvoy envoy;
  bool silent = false;  // reads and says nothing
  int responses = 0;
  int nacks = 0;

 private:
  std::string bytes_of(const ads_test::SentRequest& request) const {
    if (variant_ == XdsVariant::kSotw)
      return ads_test::request_bytes(request.type, request.names, request.version, request.nonce,
                                     request.error.value_or(""));
    envoy::service::discovery::v3::DeltaDiscoveryRequest delta;
    delta.set_type_url(std::string(xds_type_url(request.type)));
    delta.set_response_nonce(request.nonce);
    for (const std::string& name : request.names) delta.add_resource_names_subscribe(name);
    for (const std::string& name : request.dropped) delta.add_resource_names_unsubscribe(name);
    for (const auto& [name, version] : request.held)
      (*delta.mutable_initial_resource_versions())[name] = version;
    if (request.error) delta.mutable_error_detail()->set_message(*request.error);
    return delta.SerializeAsString();
  }

  const XdsVariant variant_;
  osm::testing::ManualExecutor& executor_;
  ads::AdsServer* server_ = nullptr;
  ads::StreamId id_ = 0;
  std::shared_ptr<ads_test::MemoryStream> stream_;
};

// From now on the proxy refuses every resource that speaks of `text`.
inline void refuse(EnvoyProxy& proxy, const std::string& text) {
  proxy.envoy.refuses = [text](const ads::EncodedResource& resource) {
    return resource.any.find(text) != std::string::npos;
  };
}

// Servers "s0".. with one service each, which "client" may call by a route group of their own.
struct Rig {
  explicit Rig(int servers, XdsVariant variant = XdsVariant::kSotw) : variant_(variant) {
    spec.put_namespace(values::kNs);
    add_workload("client", {});
    for (int i = 0; i < servers; ++i) {
      const std::string name = "s" + std::to_string(i);
      spec.put(values::service(name, "10.9.0." + std::to_string(i + 1)));
      provider.set_endpoints(values::service_name(name),
                             {values::served_at("10.1.0." + std::to_string(i + 1), name)});
      add_workload(name, {name});
      put_routes(name, "/good");
      spec.put(values::target(name, name, {"client"}, {values::http_rule(name, {"m"})}));
    }
    restart();
  }

  // It runs as the account of its name, or as another one.
  void add_workload(const std::string& name, const std::vector<std::string>& services,
                    const std::string& account = "") {
    const std::string uuid =
        "00000000-0000-4000-8000-0000000" + std::to_string(10000 + uuids.size());
    uuids.emplace(name, ProxyId(uuid));
    accounts.emplace(name, account.empty() ? name : account);
    provider.put_workload(values::workload(name, uuid, accounts.at(name), "10.1.1.1", services));
    proxies.emplace(name, std::make_unique<EnvoyProxy>(variant_, executor, random));
  }
  void put_routes(const std::string& name, const std::string& path) {
    smi::HttpRouteGroup group{.name = {values::kNs, name}, .matches = {}};
    group.matches.push_back({.name = "m", .path_regex = path, .methods = {}, .headers = {}});
    spec.put(group);
  }

  void configure(const std::function<void(MeshConfig&)>& change) {
    MeshConfig config = spec.get_mesh_config();
    change(config);
    spec.set_mesh_config(config);
    settle();
  }
  const MeshConfig& config_in_force() const { return controller->loop.snapshots().load()->config; }

  // A new controller; every proxy connects to it.
  void restart() {
    for (auto& [name, proxy] : proxies) proxy->disconnect();
    controller.reset();
    controller = make_controller();
    for (auto& [name, proxy] : proxies) connect(name);
    settle();
  }
  std::unique_ptr<Controller> make_controller() {
    auto made =
        std::make_unique<Controller>(spec, provider, executor, clock, secrets, registry, elsewhere);
    executor.run_until_idle();
    return made;
  }
  // The proxy leaves its replica and connects to this one.
  void move(const std::string& name, Controller& to) {
    proxies.at(name)->disconnect();
    connect(name, to);
  }
  void connect(const std::string& name) { connect(name, *controller); }
  void connect(const std::string& name, Controller& to) {
    const auto certificate = ca.proxy(uuids.at(name), {values::kNs, accounts.at(name)});
    proxies.at(name)->connect(*to.server, ++last_stream,
                              {{certificate->subject.spiffe_id.str()},
                               certificate->subject.common_name.str(),
                               certificate->chain_pem,
                               "ipv4:10.1.1.1:40000"});
  }
  // Everybody talks until nobody has more to say; time passes for debouncing and retries.
  void settle(std::chrono::milliseconds time = std::chrono::milliseconds(2500)) {
    const auto talk = [this] {
      std::vector<EnvoyProxy*> order;
      for (auto& [name, proxy] : proxies) order.push_back(proxy.get());
      bool any = true;
      while (any) {
        any = false;
        std::shuffle(order.begin(), order.end(), random);
        for (EnvoyProxy* proxy : order) any |= proxy->step();
      }
    };
    for (auto passed = std::chrono::milliseconds(0); passed <= time;
         passed += std::chrono::milliseconds(50)) {
      executor.run_for(std::chrono::milliseconds(50));
      talk();
    }
  }

  std::vector<Problem> refused() const { return controller->verdicts.problems(); }
  // "HTTPRouteGroup shop/s1, HTTPRouteGroup shop/s3"
  std::string refused_objects() const {
    std::string names;
    for (const Problem& problem : refused())
      names += (names.empty() ? "" : ", ") + problem.object.str();
    return names;
  }
  // True if the server's own proxy admits requests to `path`.
  bool live(const std::string& server, const std::string& path) const {
    return names(server, path, {XdsType::kRoute});
  }
  // True if something that the proxy applied has this text.
  bool names(const std::string& proxy, const std::string& text,
             const std::vector<XdsType>& types = {XdsType::kCluster, XdsType::kListener,
                                                  XdsType::kRoute}) const {
    for (const XdsType type : types)
      for (const auto& [name, resource] : proxies.at(proxy)->envoy.applied(type))
        if (resource->any.find(text) != std::string::npos) return true;
    return false;
  }
  // True if the mesh of all proxies has the path among the routes to the server.
  bool allowed_in_the_mesh(const std::string& server, const std::string& path) const {
    for (const std::string& one : values::allowances(*controller->loop.snapshots().load()))
      if (one.find("at " + std::string(values::kNs) + "/" + server + " " + path) != one.npos)
        return true;
    return false;
  }
  // The server's view of its proxies; it asks its strand, which runs here.
  std::vector<Proxy> list_proxies() {
    auto list =
        std::async(std::launch::async, [this] { return controller->server->list_proxies(); });
    while (list.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready)
      executor.run_until_idle();
    return list.get();
  }
  double trials() const { return controller->metrics.sum("osm_nack_trials_total"); }

  // The order in which proxies talk.
  std::mt19937_64 random = osm::testing::seeded();
  osm::testing::ManualClock clock;
  osm::testing::ManualExecutor executor{clock};
  ads_test::TestCa ca{clock};
  ads_test::FakeSecrets secrets{ca};
  ads_test::FakeRegistry registry;
  osm::testing::MemoryMeshSpec spec;
  osm::testing::MemoryEndpointsProvider provider;
  std::map<std::string, ProxyId> uuids;
  std::map<std::string, std::string> accounts;
  std::map<std::string, std::unique_ptr<EnvoyProxy>> proxies;
  ads::StreamId last_stream = 0;
  nack_provenance::Refusals elsewhere;  // as other replicas say
  std::unique_ptr<Controller> controller;

 private:
  const XdsVariant variant_;
};

}  // namespace osm::provenance_test
