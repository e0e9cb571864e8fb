// The server over real gRPC and mutual TLS on loopback, and everything it borrows.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "ads/ads_server.hpp"
#include "ads/grpc_client.hpp"
#include "ads/mesh_fixture.hpp"
#include "lib/run.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/thread_executor.hpp"

namespace osm::ads_test {

struct ServerWorld {
  SystemClock clock;
  RandomRng rng{osm::testing::seed()};
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  TestCa ca{clock};
  osm::testing::ThreadExecutor executor{2};
  SnapshotCell<model::MeshSnapshot> snapshots;
  FakeSecrets secrets{ca};
  FakeRegistry registry;
  TestMesh mesh;
  CertificatePtr server_certificate = ca.controller();
  CertificatePtr client_certificate = ca.proxy(kClientId, translate_test::kClient);
  std::unique_ptr<ads::AdsServer> server;

  ads::AdsServerDependencies dependencies() {
    return {{executor, executor, clock, rng, log, metrics}, snapshots, secrets, registry};
  }
  ads::AdsServerOptions options() {
    ads::AdsServerOptions options;
    options.address = "127.0.0.1:0";
    options.server_certificate = [this] { return server_certificate; };
    return options;
  }
  void start(const ads::AdsServerOptions& options, const ads::AdsServerDependencies& borrowed) {
    auto started = ads::AdsServer::start(options, borrowed);
    REQUIRE_MESSAGE(started.ok(), started.error().text());
    server = std::move(*started);
  }
  std::shared_ptr<grpc::Channel> connect(const CertificatePtr& certificate) const {
    return channel(server->address(), secrets.trust_bundle_pem(), certificate.get());
  }
};

}  // namespace osm::ads_test
