// A hub over transports in memory, on a clock and an executor that move when the test says so.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ads/hub.hpp"
#include "ads/memory_stream.hpp"
#include "ads/mesh_fixture.hpp"
#include "envoy/service/discovery/v3/discovery.pb.h"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

namespace osm::ads_test {

inline const std::vector<std::string> kSecretNames{"root-cert", "service-cert"};
inline const std::vector<std::string> kAssignmentNames{"server/server|14001"};
inline const std::vector<std::string> kRouteNames{
    "rds-outbound.80.server.server.svc.cluster.local"};

inline std::string request_bytes(XdsType type, const std::vector<std::string>& names,
                                 const std::string& version = "", const std::string& nonce = "",
                                 const std::string& error = "") {
  envoy::service::discovery::v3::DiscoveryRequest request;
  request.set_type_url(std::string(xds_type_url(type)));
  request.set_version_info(version);
  request.set_response_nonce(nonce);
  if (!error.empty()) request.mutable_error_detail()->set_message(error);
  for (const std::string& name : names) request.add_resource_names(name);
  return request.SerializeAsString();
}

struct HubRig {
  osm::testing::ManualClock clock;
  osm::testing::ManualExecutor executor{clock};
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  RandomRng rng{1};
  Runtime runtime{executor, executor, clock, rng, log, metrics};
  TestCa ca{clock};
  FakeSecrets secrets{ca};
  FakeRegistry registry;
  TestMesh mesh;
  Status admits;                                         // HubDependencies::admits
  std::unique_ptr<ads::ReadinessTable> readiness_table;  // null: nobody asks
  ads::Hub hub;
  Subscription rotations;
  ads::StreamId last_id = 0;

  explicit HubRig(const ads::HubOptions& options = {}, const ResourceHook* hook = nullptr,
                  ReplicaBoard* board = nullptr, bool tells_readiness = false)
      : readiness_table(tells_readiness ? std::make_unique<ads::ReadinessTable>(board, clock)
                                        : nullptr),
        hub(options, {runtime,
                      executor,
                      secrets,
                      registry,
                      hook,
                      board,
                      [this] { return admits; },
                      {},
                      readiness_table.get()}) {
    rotations = secrets.subscribe([this](const std::optional<ServiceIdentity>& identity) {
      executor.post([this, identity] { hub.on_secrets(identity); });
    });
    publish();
  }

  // `ago`: time since the changes were announced to the writer of the mesh.
  void publish(std::chrono::nanoseconds ago = {}) {
    const auto snapshot = mesh.next();
    hub.on_snapshot(snapshot, snapshot->changes, clock.steady_now() - ago);
    executor.run_until_idle();
  }
  double encoded() const { return metrics.sum("osm_resources_encoded_total"); }

  // A verified proxy, whose certificate begins now.
  ads::Peer peer(const ProxyId& id, const ServiceIdentity& account,
                 const std::string& address = "10.0.0.1",
                 std::chrono::seconds life = std::chrono::hours(24)) const {
    return {{id, {account.ns, account.name}},
            CommonName("proxy"),
            "ipv4:" + address + ":40000",
            clock.wall_now(),
            clock.wall_now() + life,
            {},
            kDomain};
  }
};

// Keeps the answer of a unary call.
struct MemoryCall final : ads::UnaryCall {
  void finish(ads::CloseCode finished, const std::string& said, const std::string& sent) override {
    CHECK_FALSE(code);
    code = finished;
    text = said;
    bytes = sent;
  }
  std::optional<ads::CloseCode> code;
  std::string text, bytes;
};

// One proxy at the other end of a MemoryStream.
class RigProxy {
 public:
  RigProxy(HubRig& rig, const ProxyId& id, const ServiceIdentity& account,
           const std::string& address = "10.0.0.1",
           std::chrono::seconds life = std::chrono::hours(24), const TrustDomain& domain = kDomain)
      : rig_(rig), id_(++rig.last_id), stream_(std::make_shared<MemoryStream>(XdsVariant::kSotw)) {
    ads::Peer peer = rig.peer(id, account, address, life);
    peer.trust_domain = domain;
    rig.hub.open(id_, std::move(peer), stream_);
    rig.executor.run_until_idle();
  }

  void ask(XdsType type, std::vector<std::string> names = {}) {
    names_[type] = names;
    say(request_bytes(type, names));
  }
  void ask_for_all() {
    ask(XdsType::kCluster);
    ask(XdsType::kSecret, kSecretNames);
    ask(XdsType::kEndpoint, kAssignmentNames);
    ask(XdsType::kListener);
    ask(XdsType::kRoute, kRouteNames);
  }
  void finish_write() {
    REQUIRE(stream_->writing);
    stream_->writing.reset();
    rig_.hub.on_write_done(id_);
    rig_.executor.run_until_idle();
  }
  // Receives and acknowledges until nothing more comes, or refuses what `refuses` holds for, as if
  // nothing of it had been applied. Result: what came, oldest first.
  std::vector<ads::Response> settle() {
    std::vector<ads::Response> all;
    while (stream_->writing) {
      all.push_back(*stream_->writing);
      finish_write();
      const ads::Response& r = all.back();
      if (stream_->closed) continue;
      if (refuses && refuses(r)) {
        say(request_bytes(r.type, names_[r.type], accepted_[r.type], r.nonce, "not to my taste"));
      } else {
        acknowledge(r);
      }
    }
    return all;
  }
  void acknowledge(const ads::Response& r) {
    accepted_[r.type] = r.version;
    say(request_bytes(r.type, names_[r.type], r.version, r.nonce));
  }
  // Settles. Result: the number of responses of the type.
  std::size_t received(XdsType type) {
    std::size_t count = 0;
    for (const ads::Response& response : settle()) count += response.type == type;
    return count;
  }
  // Refuses a response that it may never have been sent.
  void refuse(XdsType type, const std::string& nonce) {
    say(request_bytes(type, names_[type], accepted_[type], nonce, "not to my taste"));
  }
  void hang_up() {
    rig_.hub.on_closed(id_);
    rig_.executor.run_until_idle();
  }

  std::function<bool(const ads::Response&)> refuses;

  const MemoryStream& stream() const { return *stream_; }
  bool open() const { return !stream_->closed; }
  bool read() const { return stream_->reading; }  // its next message would be

 private:
  void say(const std::string& bytes) {
    REQUIRE(stream_->reading);
    stream_->reading = false;
    rig_.hub.on_request(id_, bytes);
    rig_.executor.run_until_idle();
  }

  HubRig& rig_;
  ads::StreamId id_;
  std::shared_ptr<MemoryStream> stream_;
  std::map<XdsType, std::vector<std::string>> names_;
  std::map<XdsType, std::string> accepted_;
};

}  // namespace osm::ads_test
