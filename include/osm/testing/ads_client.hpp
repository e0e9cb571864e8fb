// A proxy without Envoy: connects to a control plane over gRPC with mutual TLS, subscribes to
// resources, and accepts or refuses what comes. For tests of a ResourceHook, and of whatever else
// decides what proxies are sent. Speaks the state-of-the-world variant of xDS.
//
//   auto proxy = osm::testing::AdsClient::join(*mesh, *certificates, workload).value();
//   auto listeners = proxy->fetch(osm::XdsType::kListener).value();
//   auto status = listeners.get<envoy::config::listener::v3::Listener>("vendor-status");
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/result.hpp"
#include "osm/values/proxy.hpp"

namespace osm::inline v1 {
class ControlPlane;  // osm/control_plane.hpp
}

namespace osm::inline v1::testing {

// One response of the control plane.
struct AdsResponse {
  XdsType type{};
  std::string version;
  std::string nonce;
  std::map<std::string, std::string> resources;  // serialized Envoy protos by name

  // The resource of that name as a message of its type; nullopt: it is not there, or is none.
  template <class Message>
  std::optional<Message> get(const std::string& name) const {
    const auto found = resources.find(name);
    Message message;
    if (found == resources.end() || !message.ParseFromString(found->second)) return std::nullopt;
    return message;
  }
};

// Identity of the proxy, and the server it connects to.
struct AdsClientOptions {
  std::string address;           // ControlPlane::ads_address()
  std::string chain_pem;         // certificate of the proxy, leaf first
  std::string key_pem;           // its private key, PKCS#8
  std::string trust_bundle_pem;  // roots to verify the server with
};

// One stream. All functions: Thread: one call at a time. Failure, beside what is said there:
// kUnavailable with gRPC's code and text once the stream has ended.
class OSM_API AdsClient {
 public:
  virtual ~AdsClient() = default;  // ends the stream

  // Opens the stream. A server that refuses the proxy says so to the calls that follow.
  // Blocking: no.
  static std::unique_ptr<AdsClient> connect(const AdsClientOptions& options);

  // Requests a certificate as the proxy of `workload`, and connects with it.
  // Failure: the manager's. Blocking: until the CA answers. Thread: not of the executors.
  static Result<std::unique_ptr<AdsClient>> join(ControlPlane& mesh,
                                                 const certificate::Manager& certificates,
                                                 const Workload& workload);

  // Asks for the resources of a type; replaces the names asked for before. Empty: all of them,
  // which only clusters and listeners can be asked for. Blocking: no.
  virtual Status subscribe(XdsType type, const std::vector<std::string>& names = {}) = 0;

  // The next response of the type, neither accepted nor refused.
  // Failure: kDeadlineExceeded. Blocking: up to `timeout`.
  virtual Result<AdsResponse> next(XdsType type, std::chrono::milliseconds timeout = kTimeout) = 0;

  // Answers a response: applied / refused for the reason `detail` (a NACK). Blocking: no.
  virtual Status accept(const AdsResponse& response) = 0;
  virtual Status refuse(const AdsResponse& response, const std::string& detail) = 0;

  // subscribe(), next() and accept(). Failure: as theirs.
  Result<AdsResponse> fetch(XdsType type, const std::vector<std::string>& names = {});

  // Accepts responses of the type until one satisfies `condition`. Failure: as next()'s.
  Result<AdsResponse> wait_for(XdsType type,
                               const std::function<bool(const AdsResponse&)>& condition,
                               std::chrono::milliseconds timeout = kTimeout);

  static constexpr std::chrono::seconds kTimeout{10};
};

}  // namespace osm::inline v1::testing
