// The server over real gRPC and mutual TLS configures proxies and refuses everybody else.
#include "ads/ads_server.hpp"

#include <doctest/doctest.h>

#include "ads/replica_streams.hpp"
#include "ads/server_world.hpp"
#include "osm/certificate/kept_certificate.hpp"
#include "osm/certificate/make_manager.hpp"

using namespace osm;
using namespace osm::ads_test;
using namespace std::chrono_literals;
using osm::testing::wait_until;
using translate_test::kClient;

namespace {

const std::vector<std::string> kSecrets{"root-cert", "service-cert"};
const std::vector<std::string> kAssignments{"server/server|14001"};

struct World : ServerWorld {
  ads::AdsServerOptions impatient() {
    ads::AdsServerOptions made = options();
    made.unknown_workload_wait = 200ms;
    return made;
  }
  void start(bool synced = true) {
    if (synced) snapshots.publish(mesh.next());
    ServerWorld::start(impatient(), dependencies());
  }
  Result<std::unique_ptr<ads::AdsServer>> try_start(const std::string& address) {
    ads::AdsServerOptions other = impatient();
    other.address = address;
    return ads::AdsServer::start(other, dependencies());
  }
  std::unique_ptr<AdsClient> client(const CertificatePtr& certificate) {
    return std::make_unique<AdsClient>(connect(certificate));
  }
  grpc::Status status_of(const CertificatePtr& certificate) {
    auto proxy = client(certificate);
    proxy->ask(XdsType::kCluster);
    return proxy->finish();
  }
};

struct Versions {
  std::string clusters, endpoints, listeners, routes, secrets;
};

// The requests of an Envoy that starts.
Versions configure(AdsClient& proxy) {
  Versions versions;
  proxy.ask(XdsType::kCluster);
  versions.clusters = proxy.take(XdsType::kCluster).version_info();
  proxy.ask(XdsType::kSecret, kSecrets);
  versions.secrets = proxy.take(XdsType::kSecret, kSecrets).version_info();
  proxy.ask(XdsType::kEndpoint, kAssignments);
  versions.endpoints = proxy.take(XdsType::kEndpoint, kAssignments).version_info();
  proxy.ask(XdsType::kListener);
  versions.listeners = proxy.take(XdsType::kListener).version_info();
  proxy.ask(XdsType::kRoute, {"rds-outbound.80.server.server.svc.cluster.local"});
  versions.routes = proxy.take(XdsType::kRoute, {"rds-outbound.80.server.server.svc.cluster.local"})
                        .version_info();
  return versions;
}

}  // namespace

TEST_SUITE("ads::AdsServer") {
  TEST_CASE("a proxy is configured, and sees a change of endpoints as one EDS response") {
    World world;
    world.start();
    auto proxy = world.client(world.client_certificate);
    configure(*proxy);
    world.mesh.set_endpoints({"10.1.0.9", "10.1.0.10"});
    world.snapshots.publish(world.mesh.next());
    CHECK(proxy->take(XdsType::kEndpoint, kAssignments).resources_size() == 1);
    CHECK(wait_until([&] {
      const auto proxies = world.server->list_proxies();
      return proxies.size() == 1 && proxies[0].types[2].state == SyncState::kSynced;
    }));
    CHECK(world.metrics.value("osm_response_bytes_total", {{"type", "CDS"}}) > 0);
    CHECK_FALSE(
        world.metrics.observations("osm_push_stage_seconds", {{"stage", "deliver"}}).empty());
    CHECK(world.registry.connected().contains(kClientId));
  }

  TEST_CASE("a server whose strand hangs says so, and only while it does") {
    osm::testing::ManualClock clock;
    osm::testing::ManualExecutor executor{clock};
    RandomRng rng{1};
    osm::testing::CapturingLog log;
    osm::testing::CapturingMetrics metrics;
    TestCa ca{clock};
    SnapshotCell<model::MeshSnapshot> snapshots;
    FakeSecrets secrets{ca};
    FakeRegistry registry;
    const auto server = ads::AdsServer::start(
        {.address = ""},
        {{executor, executor, clock, rng, log, metrics}, snapshots, secrets, registry});
    REQUIRE(server.ok());
    bool asked = false;
    (*server)->list_connected([&](const auto&) {
      asked = true;
      CHECK((*server)->alive().ok());
      clock.advance(30s);
      CHECK_FALSE((*server)->alive().ok());
    });
    executor.run_until_idle();
    CHECK(asked);
    CHECK((*server)->alive().ok());
    static_cast<void>((*server)->shutdown(0ms).ok());
  }

  TEST_CASE("a new stream is published on the replicas' board") {
    World world;
    const auto board = make_local_board("controller-a", world.executor);
    ads::AdsServerDependencies borrowed = world.dependencies();
    borrowed.board = board.get();
    world.snapshots.publish(world.mesh.next());
    world.ServerWorld::start(world.options(), borrowed);
    auto proxy = world.client(world.client_certificate);
    proxy->ask(XdsType::kCluster);
    CHECK(wait_until([&] {
      return board->read(ads::ReplicaStreams::kTopic).value().at("controller-a").starts_with("1 ");
    }));
    world.server.reset();  // before the board
  }

  TEST_CASE("the config dump holds what was acknowledged and no private key") {
    World world;
    world.start();
    auto proxy = world.client(world.client_certificate);
    configure(*proxy);
    const auto dump = world.server->config_dump(kClientId.str());
    REQUIRE_MESSAGE(dump.ok(), dump.error().text());
    CHECK(dump->find("server/server|14001") != std::string::npos);
    CHECK(dump->find("PRIVATE KEY") == std::string::npos);
    CHECK(world.server->config_dump("client/client-vm").ok());
    CHECK(world.server->config_dump("nobody").error().code == ErrorCode::kNotFound);
    CHECK(world.log.all_text().find("PRIVATE KEY") == std::string::npos);
  }

  TEST_CASE("a current proxy that reconnects receives nothing, and a change afterwards at once") {
    World world;
    world.start();
    Versions held;
    {
      auto proxy = world.client(world.client_certificate);
      held = configure(*proxy);
      REQUIRE(wait_until([&] {
        const auto proxies = world.server->list_proxies();
        return proxies.size() == 1 && proxies[0].types[4].state == SyncState::kSynced;
      }));
    }
    const double sent = world.metrics.sum("osm_proxy_response_send_success_count");
    auto proxy = world.client(world.client_certificate);
    proxy->ask(XdsType::kCluster, {}, held.clusters);
    proxy->ask(XdsType::kSecret, kSecrets, held.secrets);
    proxy->ask(XdsType::kEndpoint, kAssignments, held.endpoints);
    proxy->ask(XdsType::kListener, {}, held.listeners);
    proxy->ask(XdsType::kRoute, {"rds-outbound.80.server.server.svc.cluster.local"}, held.routes);
    REQUIRE(wait_until([&] {
      const auto proxies = world.server->list_proxies();
      return proxies.size() == 1 && proxies[0].types[4].state == SyncState::kSynced;
    }));
    CHECK(world.metrics.sum("osm_proxy_response_send_success_count") == sent);
    CHECK(world.metrics.value("osm_proxy_reconnect_count") == 1);
    // The first thing it reads is the change.
    world.mesh.set_endpoints({"10.1.0.11"});
    world.snapshots.publish(world.mesh.next());
    proxy->take(XdsType::kEndpoint, kAssignments);
    world.secrets.rotate(kClient);
    CHECK(proxy->take(XdsType::kSecret, kSecrets).resources_size() == 1);
  }

  TEST_CASE("a client whose last policy is deleted loses its listener when it reconnects") {
    World world;
    world.start();
    auto proxy = world.client(world.client_certificate);
    const Versions held = configure(*proxy);
    world.mesh.allow(false);
    world.snapshots.publish(world.mesh.next());
    const grpc::Status status = proxy->finish();
    CHECK(status.error_code() == grpc::StatusCode::UNAVAILABLE);
    CHECK(status.error_message().find("emptied") == 0);
    auto again = world.client(world.client_certificate);
    again->ask(XdsType::kListener, {}, held.listeners);
    CHECK(again->take(XdsType::kListener).resources_size() == 0);
  }

  TEST_CASE("a workload certificate is refused: xDS and the mesh have different identities") {
    World world;
    world.start();
    const grpc::Status status = world.status_of(world.ca.workload(kClient));
    CHECK(status.error_code() == grpc::StatusCode::PERMISSION_DENIED);
    CHECK(status.error_message().find("wrong-certificate-kind: ") == 0);
    CHECK(world.registry.connected().empty());
  }

  TEST_CASE("a certificate for another account than the workload's is refused") {
    World world;
    world.start();
    // The server's namespace and account with the client's UUID would be another workload; the
    // client's own namespace with another account is a mismatch.
    const grpc::Status status = world.status_of(world.ca.proxy(kClientId, {"client", "other"}));
    CHECK(status.error_code() == grpc::StatusCode::PERMISSION_DENIED);
    CHECK(status.error_message().find("identity-mismatch: ") == 0);
  }

  TEST_CASE("a stream on an old connection of a distrusted certificate is refused") {
    World world;
    world.start();
    const auto connection = world.connect(world.client_certificate);
    AdsClient first(connection);
    first.ask(XdsType::kCluster);
    first.take(XdsType::kCluster);
    world.secrets.set_trusts_peers(
        Error{ErrorCode::kInvalidCertificate, "no root that the mesh trusts now"});
    AdsClient second(connection);
    second.ask(XdsType::kCluster);
    const grpc::Status refused = second.finish();
    CHECK(refused.error_code() == grpc::StatusCode::UNAUTHENTICATED);
    CHECK(refused.error_message().find("no root that the mesh trusts now") != std::string::npos);
    first.ask(XdsType::kSecret, kSecrets);  // it was not superseded; the recall ends it
    first.take(XdsType::kSecret, kSecrets);
  }

  TEST_CASE("an unknown workload is waited for, then sent away") {
    World world;
    world.start();
    const ProxyId late("33333333-3333-4333-8333-333333333333");
    const CertificatePtr certificate = world.ca.proxy(late, kClient);
    const grpc::Status status = world.status_of(certificate);
    CHECK(status.error_code() == grpc::StatusCode::UNAVAILABLE);
    CHECK(status.error_message().find("unknown-proxy: ") == 0);
  }

  TEST_CASE("before the first snapshot a stream is told not-ready") {
    World world;
    world.start(false);
    const grpc::Status status = world.status_of(world.client_certificate);
    CHECK(status.error_code() == grpc::StatusCode::UNAVAILABLE);
    CHECK(status.error_message().find("not-ready: ") == 0);
  }

  TEST_CASE("every method fails without a certificate, with another CA's, and with an ended one") {
    World world;
    world.start();
    const TestCa other(world.clock);
    const CertificatePtr stranger = other.proxy(kClientId, kClient);
    const CertificatePtr ended = world.ca.proxy(kClientId, kClient, std::chrono::seconds(1));
    REQUIRE(wait_until([&] { return world.clock.wall_now() > ended->not_after; }));
    for (const char* method :
         {kStreamMethod,
          "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources",
          "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters",
          "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
          "/grpc.health.v1.Health/Check", "/"}) {
      for (const CertificatePtr& certificate : {CertificatePtr(), stranger, ended}) {
        AdsClient proxy(world.connect(certificate), method);
        proxy.ask(XdsType::kCluster);
        CAPTURE(method);
        CHECK(proxy.finish().error_code() == grpc::StatusCode::UNAVAILABLE);
      }
    }
    CHECK(world.metrics.sum("osm_proxy_xds_request_count") == 0);
  }

  TEST_CASE("the delta method is served beside the state-of-the-world one") {
    World world;
    world.start();
    DeltaClient proxy(
        world.connect(world.client_certificate),
        "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources");
    envoy::service::discovery::v3::DeltaDiscoveryRequest request;
    request.set_type_url(std::string(xds_type_url(XdsType::kCluster)));
    REQUIRE(proxy.send(request));
    const auto response = proxy.read();
    REQUIRE(response);
    CHECK(response->type_url() == xds_type_url(XdsType::kCluster));
    REQUIRE(response->resources_size() > 0);
    CHECK_FALSE(response->resources(0).version().empty());
    const std::vector<Proxy> proxies = world.server->list_proxies();
    REQUIRE(proxies.size() == 1);
    CHECK(proxies[0].xds == XdsVariant::kDelta);
  }

  TEST_CASE("methods other than the two streams are unimplemented") {
    World world;
    world.start();
    for (const char* method :
         {"/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters", "/a/b"}) {
      AdsClient proxy(world.connect(world.client_certificate), method);
      CHECK(proxy.finish().error_code() == grpc::StatusCode::UNIMPLEMENTED);
    }
    CHECK(world.metrics.value("osm_streams_refused_total", {{"code", "unknown-method"}}) == 2);
  }

  TEST_CASE("the newest stream of a proxy certificate supersedes the older one") {
    World world;
    world.start();
    auto older = world.client(world.client_certificate);
    configure(*older);
    auto newer = world.client(world.client_certificate);
    configure(*newer);
    const grpc::Status status = older->finish();
    CHECK(status.error_code() == grpc::StatusCode::ABORTED);
    CHECK(status.error_message().find("superseded: ") == 0);
    CHECK(world.metrics.value("osm_streams_ended_total", {{"code", "superseded"}}) == 1);
    CHECK(world.server->list_proxies().size() == 1);
    CHECK(world.registry.connected().contains(kClientId));
  }

  TEST_CASE("two servers on one port are refused") {
    World world;
    world.start();
    const auto second = world.try_start(world.server->address());
    REQUIRE_FALSE(second.ok());
    CHECK(second.error().code == ErrorCode::kUnavailable);
    CHECK(world.try_start("nonsense").error().code == ErrorCode::kInvalidArgument);
  }

  TEST_CASE("a rotated server certificate is used by the next handshake") {
    World world;
    world.start();
    configure(*world.client(world.client_certificate));
    const TestCa other(world.clock);
    world.server_certificate = other.controller();
    world.secrets.set_trust_bundle(other.root_pem());
    configure(*world.client(other.proxy(kClientId, kClient)));
  }

  TEST_CASE("an open stream survives the renewal of the server's certificate") {
    World world;
    const ProxyId other("33333333-3333-4333-8333-333333333333");
    world.mesh.put(workload(other, kClient, {}));
    world.snapshots.publish(world.mesh.next());
    // As the control plane does it: a kept certificate that the manager renews.
    const auto manager =
        certificate::make_manager({.issuer = world.ca.issuer(kDomain),
                                   .runtime = {world.executor, world.executor, world.clock,
                                               world.rng, world.log, world.metrics}});
    const CommonName name("osm-controller");
    const auto kept = certificate::KeptCertificate::issue(
        *manager, {name, model::controller_spiffe_id(kDomain), certificate::Usage::kController});
    REQUIRE(kept.ok());
    ads::AdsServerOptions options = world.options();
    options.server_certificate = [&] { return (*kept)->load(); };
    world.ServerWorld::start(options, world.dependencies());

    auto open = world.client(world.client_certificate);
    configure(*open);
    const CertificatePtr before = (*kept)->load();
    CHECK(before->chain_pem.starts_with(open->server_pem()));
    REQUIRE(manager->rotate_certificate(name).ok());
    REQUIRE(wait_until([&] { return (*kept)->load() != before; }));

    SUBCASE("the next connection gets the new one") {
      auto next = world.client(world.ca.proxy(other, kClient));
      configure(*next);
      CHECK((*kept)->load()->chain_pem.starts_with(next->server_pem()));
      CHECK_FALSE(before->chain_pem.starts_with(next->server_pem()));
    }
    SUBCASE("no further connection") {}

    // The old stream is the one it was: it is told of changes, and it is answered.
    world.mesh.set_endpoints({"10.1.0.12"});
    world.snapshots.publish(world.mesh.next());
    CHECK(open->take(XdsType::kEndpoint, kAssignments).resources_size() == 1);
    world.secrets.rotate(kClient);
    CHECK(open->take(XdsType::kSecret, kSecrets).resources_size() == 1);
    CHECK(before->chain_pem.starts_with(open->server_pem()));
    CHECK(world.metrics.sum("osm_proxy_reconnect_count") == 0);
    world.server.reset();
  }

  TEST_CASE("shutdown tells connected proxies and ends in time, again and again") {
    for (int round = 0; round < 5; ++round) {
      World world;
      world.start();
      auto proxy = world.client(world.client_certificate);
      configure(*proxy);
      CHECK(world.server->shutdown(20s).ok());
      CHECK(proxy->finish().error_code() == grpc::StatusCode::UNAVAILABLE);
      CHECK(world.server->shutdown(20s).ok());
      CHECK(world.server->list_proxies().empty());
    }
  }

  TEST_CASE("a proxy with a certificate does not count against the bound of its address") {
    for (const char* address : {"127.0.0.1:0", "[::1]:0", "0.0.0.0:0"}) {
      World world;
      world.snapshots.publish(world.mesh.next());
      ads::AdsServerOptions options = world.impatient();
      options.address = address;
      options.connections.unverified_per_address = 1;
      world.ServerWorld::start(options, world.dependencies());
      std::vector<std::unique_ptr<AdsClient>> proxies;
      for (int i = 0; i < 3; ++i) {
        proxies.push_back(world.client(world.client_certificate));
        proxies.back()->ask(XdsType::kCluster);
        proxies.back()->take(XdsType::kCluster);
      }
    }
  }
}
