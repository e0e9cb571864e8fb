// The cert-manager under test: the fake one, or the one on the API server that the kubeconfig
// OSM_CONTRACT_KUBECONFIG leads to, with Issuer osm-system/osm-ca and ClusterIssuer osm-ca.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "cert_manager/fake_cert_manager.hpp"
#include "contract/kube_api_server.hpp"
#include "contract/setting.hpp"

namespace osm::contract {

class CertManagerServer {
 public:
  virtual ~CertManagerServer() = default;
  virtual kubernetes::Api& api() = 0;
  virtual const Clock& clock() const = 0;
  // Lets some time pass.
  virtual void pass() = 0;
};

class FakeCertManagerServer final : public CertManagerServer {
 public:
  explicit FakeCertManagerServer(bool approves) { fake_.approves = approves; }
  kubernetes::Api& api() override { return fake_.cluster.memory; }
  const Clock& clock() const override { return fake_.clock; }
  void pass() override { fake_.pass(std::chrono::milliseconds(50)); }

 private:
  cert_manager_test::FakeCertManager fake_;
};

class RealCertManagerServer final : public CertManagerServer {
 public:
  explicit RealCertManagerServer(const std::string& kubeconfig) : server_(kubeconfig) {}
  kubernetes::Api& api() override { return server_.api(); }
  const Clock& clock() const override { return clock_; }
  void pass() override { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }

 private:
  RealApiServer server_;
  SystemClock clock_;
};

// `approves`: cert-manager approves by itself. A real one is started so by kubernetes_test.py.
inline std::unique_ptr<CertManagerServer> make_cert_manager(bool approves) {
  if (const auto kubeconfig = setting("OSM_CONTRACT_KUBECONFIG"))
    return std::make_unique<RealCertManagerServer>(*kubeconfig);
  return std::make_unique<FakeCertManagerServer>(approves);
}

}  // namespace osm::contract
