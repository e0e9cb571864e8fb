// The API servers under test: the fakes of tests/kubernetes, or the one that the kubeconfig
// OSM_CONTRACT_KUBECONFIG leads to. See README.md for the other settings.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "contract/setting.hpp"
#include "kubernetes/client/api.hpp"
#include "kubernetes/client/memory_api.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/client/watch_server.hpp"
#include "kubernetes/mesh_resources.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/net/http.hpp"
#include "osm/runtime/system.hpp"
#include "osm/runtime/threads.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

namespace osm::contract {

namespace json = boost::json;
using kubernetes::Resource;

// "" if there is no such text.
inline std::string text_at(const json::object& object, const std::string& pointer) {
  boost::system::error_code fault;
  const json::value root(object);
  const json::value* const value = root.find_pointer(pointer, fault);
  return value == nullptr || !value->is_string() ? "" : json::value_to<std::string>(*value);
}
inline json::value value_at(const json::object& object, const std::string& pointer) {
  boost::system::error_code fault;
  const json::value root(object);
  const json::value* const value = root.find_pointer(pointer, fault);
  return value == nullptr ? json::value() : *value;
}
inline std::string version_of(const json::object& object) {
  return text_at(object, "/metadata/resourceVersion");
}

inline json::object config_map(const std::string& ns, const std::string& name,
                               const std::string& value, const json::object& labels = {}) {
  json::object metadata{{"namespace", ns}, {"name", name}};
  if (!labels.empty()) metadata["labels"] = labels;
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata", std::move(metadata)},
          {"data", {{"key", value}}}};
}
inline json::object traffic_target(const std::string& ns, const std::string& name,
                                   const std::string& account) {
  const json::object rule{
      {"kind", "HTTPRouteGroup"}, {"name", "routes"}, {"matches", json::array{"books"}}};
  return {{"apiVersion", kubernetes::kTrafficTargets.api_version()},
          {"kind", "TrafficTarget"},
          {"metadata", {{"namespace", ns}, {"name", name}}},
          {"spec",
           {{"destination", {{"kind", "ServiceAccount"}, {"name", account}, {"namespace", ns}}},
            {"sources", json::array()},
            {"rules", json::array{rule}}}}};
}

class KubeServer {
 public:
  virtual ~KubeServer() = default;
  virtual std::string name() const = 0;
  virtual kubernetes::Api& api() = 0;
  virtual void make_namespace(const std::string& ns) = 0;
  // Creates the object, or replaces it. Result: its version.
  virtual std::string put(const Resource& resource, const json::object& object) {
    auto made = api().create(resource, object);
    if (!made.ok() && made.error().code == ErrorCode::kAlreadyExists)
      made = api().update(resource, object);
    REQUIRE_MESSAGE(made.ok(), (made.ok() ? "" : made.error().text()));
    return version_of(*made);
  }
  virtual void remove(const Resource& resource, const std::string& ns, const std::string& name) {
    const Status removed = api().remove(resource, ns, name);
    REQUIRE_MESSAGE(removed.ok(), (removed.ok() ? "" : removed.error().text()));
  }
  // Forgets the pages of lists that are being read.
  virtual void forget_pages() = 0;
  // A version of TrafficTargets whose later changes are forgotten.
  virtual std::string forgotten_version() = 0;
  // Ends watches as after WatchRequest::timeout; a real server waits for that.
  virtual void time_out_watches() {}

  // Waits for callbacks: a fake runs them here.
  virtual bool wait_until(const std::function<bool()>& condition) = 0;
  // Waits for what must not come.
  virtual void linger() = 0;
};

class MemoryApiServer final : public KubeServer {
 public:
  std::string name() const override { return "MemoryApi"; }
  kubernetes::Api& api() override { return memory_; }
  void make_namespace(const std::string&) override {}
  void forget_pages() override { memory_.compact(); }
  std::string forgotten_version() override {
    const std::string before = memory_.version();
    memory_.compact();
    return before;
  }
  void time_out_watches() override { memory_.time_out_watches(); }
  bool wait_until(const std::function<bool()>& condition) override { return condition(); }
  void linger() override {}

 private:
  testing::ManualClock clock_;
  kubernetes_test::MemoryApi memory_{clock_};
};

// Has no writing calls: only for lists and watches.
class WatchOnlyServer final : public KubeServer {
 public:
  std::string name() const override { return "WatchServer"; }
  kubernetes::Api& api() override { return server_; }
  void make_namespace(const std::string&) override {}
  std::string put(const Resource& resource, const json::object& object) override {
    server_.put(resource, text_at(object, "/metadata/namespace"), text_at(object, "/metadata/name"),
                object);
    return server_.version();
  }
  void remove(const Resource& resource, const std::string& ns, const std::string& name) override {
    server_.remove(resource, ns, name);
  }
  void forget_pages() override { server_.compact(); }
  std::string forgotten_version() override {
    const std::string before = server_.version();
    server_.compact();
    return before;
  }
  void time_out_watches() override { server_.time_out_watches(); }
  bool wait_until(const std::function<bool()>& condition) override {
    executor_.run_until_idle();
    return condition();
  }
  void linger() override { executor_.run_until_idle(); }

 private:
  testing::ManualClock clock_;
  testing::ManualExecutor executor_{clock_};
  kubernetes_test::WatchServer server_{executor_};
};

class RealApiServer final : public KubeServer {
 public:
  explicit RealApiServer(const std::string& kubeconfig) {
    auto connected = kubernetes::connect(
        {.kubeconfig = kubeconfig,
         .io = io_.executor(),
         .runtime = {io_.executor(), blocking_.executor(), clock_, rng_, log_, metrics_}});
    REQUIRE_MESSAGE(connected.ok(), (connected.ok() ? "" : connected.error().text()));
    cluster_ = *std::move(connected);
  }
  ~RealApiServer() override {
    cluster_.reset();
    io_.join();
    blocking_.join();
  }

  std::string name() const override { return "kube-apiserver"; }
  kubernetes::Api& api() override { return cluster_->api(); }
  void make_namespace(const std::string& ns) override {
    const auto made =
        api().create(kubernetes::kNamespaces,
                     {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", ns}}}});
    REQUIRE_MESSAGE(made.ok(), (made.ok() ? "" : made.error().text()));
  }
  void forget_pages() override {
    const json::object found = etcd("range", {{"key", "YW55"}, {"limit", 1}});
    etcd("compaction", {{"revision", found.at("header").at("revision")}, {"physical", true}});
  }
  // The server has watched TrafficTargets only since their CRD was made.
  std::string forgotten_version() override { return "1"; }
  bool wait_until(const std::function<bool()>& condition) override {
    for (int i = 0; i < 1000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  void linger() override { std::this_thread::sleep_for(std::chrono::milliseconds(300)); }

 private:
  static json::object etcd(const std::string& path, const json::object& body) {
    const auto answer = net::http_call(
        {.address = net::parse_address(required_setting("OSM_CONTRACT_KUBE_ETCD")).value(),
         .method = "POST",
         .target = "/v3/kv/" + path,
         .body = json::serialize(body)});
    REQUIRE_MESSAGE(answer.ok(), (answer.ok() ? "" : answer.error().text()));
    REQUIRE_MESSAGE(answer->status == 200, answer->body);
    return json::parse(answer->body).as_object();
  }

  SystemClock clock_;
  RandomRng rng_;
  testing::CapturingLog log_;
  testing::CapturingMetrics metrics_;
  net::Threads blocking_{1};
  net::Threads io_{1};
  std::unique_ptr<kubernetes::Cluster> cluster_;
};

using KubeServers = std::vector<std::unique_ptr<KubeServer>>;

// Servers whose every call is under test.
inline KubeServers kube_servers() {
  KubeServers all;
  if (const auto kubeconfig = setting("OSM_CONTRACT_KUBECONFIG"))
    all.push_back(std::make_unique<RealApiServer>(*kubeconfig));
  else
    all.push_back(std::make_unique<MemoryApiServer>());
  return all;
}
// And those that lists and watches are tested of.
inline KubeServers watch_servers() {
  KubeServers all = kube_servers();
  if (!setting("OSM_CONTRACT_KUBECONFIG")) all.push_back(std::make_unique<WatchOnlyServer>());
  return all;
}

// The error of an answer that must be one.
template <class Answer>
Error error_of(const Answer& answer) {
  REQUIRE_FALSE(answer.ok());
  return answer.error();
}
template <class T>
T value_of(Result<T> answer) {
  REQUIRE_MESSAGE(answer.ok(), (answer.ok() ? "" : answer.error().text()));
  return *std::move(answer);
}

}  // namespace osm::contract
