// Proxies whose readiness the test decides.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "model/proxy_readiness.hpp"
#include "osm/notifier.hpp"

namespace osm::inline v1::catalog::values {

class FakeReadiness final : public model::ProxyReadiness {
 public:
  // The proxy is connected and has acknowledged nothing.
  void connect(const model::ProxyKey& proxy) { acknowledged_[proxy] = std::nullopt; }
  void disconnect(const model::ProxyKey& proxy) { acknowledged_.erase(proxy); }
  void acknowledge(const model::ProxyKey& proxy, model::Serving serving) {
    acknowledged_[proxy] = std::move(serving);
    ready_.notify();
  }

  model::Readiness readiness_of(const model::ProxyKey& proxy,
                                const model::Serving& serving) const override {
    const auto at = acknowledged_.find(proxy);
    if (at == acknowledged_.end()) return model::Readiness::kUnknown;
    return at->second == serving ? model::Readiness::kReady : model::Readiness::kNotReady;
  }
  Subscription subscribe(std::function<void()> on_ready) override {
    return ready_.subscribe(std::move(on_ready));
  }

 private:
  std::map<model::ProxyKey, std::optional<model::Serving>> acknowledged_;
  Notifier<> ready_;
};

}  // namespace osm::inline v1::catalog::values
