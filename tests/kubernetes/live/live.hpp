// The API server that KUBERNETES_LIVE_CONFIG, a kubeconfig, leads to.
#pragma once

#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <memory>
#include <string>

#include "kubernetes/client/api.hpp"
#include "kubernetes/client/resources.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/runtime/system.hpp"
#include "osm/runtime/threads.hpp"
#include "osm/testing/capturing_sinks.hpp"

namespace osm::live {

inline constexpr kubernetes::Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap"};

// Whoever KUBERNETES_LIVE_CONFIG, or another variable, says.
class Server {
 public:
  explicit Server(const char* variable = "KUBERNETES_LIVE_CONFIG") {
    const char* path = std::getenv(variable);
    REQUIRE_MESSAGE(path != nullptr, "tests/e2e/kubernetes/client_test.py runs this program");
    auto connected = kubernetes::connect(
        {.kubeconfig = path,
         .io = io_.executor(),
         .runtime = {io_.executor(), blocking_.executor(), clock, rng, log, metrics}});
    REQUIRE_MESSAGE(connected.ok(), (connected.ok() ? "" : connected.error().text()));
    cluster_ = *std::move(connected);
  }
  ~Server() {
    cluster_.reset();
    io_.join();
    blocking_.join();
  }

  kubernetes::Cluster& cluster() { return *cluster_; }
  kubernetes::Api& api() { return cluster_->api(); }

  SystemClock clock;
  RandomRng rng;
  testing::CapturingLog log;
  testing::CapturingMetrics metrics;

 private:
  net::Threads blocking_{1};
  net::Threads io_{1};
  std::unique_ptr<kubernetes::Cluster> cluster_;
};

inline boost::json::object config_map(const std::string& ns, const std::string& name,
                                      const std::string& value) {
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata", {{"name", name}, {"namespace", ns}}},
          {"data", {{"key", value}}}};
}

inline std::string text_at(const boost::json::object& object, std::string_view pointer) {
  boost::system::error_code fault;
  const boost::json::value root(object);
  const auto* value = root.find_pointer(pointer, fault);
  return value == nullptr || !value->is_string() ? std::string() : std::string(value->get_string());
}

inline void make_namespace(kubernetes::Api& api, const std::string& name) {
  const auto made =
      api.create(kubernetes::kNamespaces,
                 {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", name}}}});
  REQUIRE_MESSAGE((made.ok() || made.error().code == ErrorCode::kAlreadyExists),
                  (made.ok() ? "" : made.error().text()));
}

}  // namespace osm::live
