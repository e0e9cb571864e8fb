// Endpoints from an HTTP inventory service, which answers GET /endpoints with a line for each:
//
//   shop/books 10.0.0.1:8080 http account=books zone=b weight=7
//   shop/books 10.0.0.2:8080 http account=books unhealthy
//   shop/music -
//
// (service, address, port name of the Service, who answers there; "-": no endpoints now).
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "osm/endpoints_provider.hpp"
#include "osm/executor.hpp"
#include "osm/log.hpp"
#include "osm/net/address.hpp"
#include "osm/net/http.hpp"
#include "osm/notifier.hpp"

namespace vendor {

struct InventoryOptions {
  osm::net::Address inventory;
  std::chrono::milliseconds poll_every{1000};
  std::chrono::milliseconds patience{500};  // with one answer
  osm::Executor& executor;                  // polls block it
  osm::LogSink& log;
};

class InventoryProvider final : public osm::EndpointsProvider {
 public:
  explicit InventoryProvider(const InventoryOptions& options);  // starts to poll
  ~InventoryProvider() override;                                // waits for a poll that runs

  std::string id() const override { return "inventory"; }
  bool has_synced() const override;
  bool healthy() const override;
  std::optional<std::vector<osm::Endpoint>> list_endpoints_for_service(
      const osm::ServiceName& service) const override;
  osm::Subscription subscribe(
      std::function<void(const std::vector<osm::ServiceName>&)> on_change) override {
    return changed_.subscribe(std::move(on_change));
  }

 private:
  using Services = std::map<osm::ServiceName, std::vector<osm::Endpoint>>;

  void poll();
  void take(const osm::Result<osm::net::Response>& answer);
  Services parse(const std::string& text) const;
  void poll_again(std::chrono::milliseconds delay);

  const InventoryOptions options_;

  mutable std::mutex mutex_;  // guards what was read; never held while announcing
  Services services_;
  bool synced_ = false;
  bool healthy_ = true;
  osm::Notifier<const std::vector<osm::ServiceName>&> changed_;

  std::mutex timer_mutex_;
  bool stopped_ = false;
  osm::Subscription timer_;
};

}  // namespace vendor
