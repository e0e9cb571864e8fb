// The inventory provider against the conformance suite: its report, and 0 if it holds.
#include <iostream>
#include <map>
#include <memory>
#include <mutex>

#include "inventory_provider.hpp"
#include "osm/net/http_server.hpp"
#include "osm/net/router.hpp"
#include "osm/runtime/json_log.hpp"
#include "osm/runtime/system.hpp"
#include "osm/runtime/threads.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/provider_conformance.hpp"

namespace {

// A real inventory service on a port of its own, which can be filled and broken.
class InventoryPlatform final : public osm::testing::ProviderPlatform {
 public:
  InventoryPlatform() {
    auto started = osm::net::HttpServer::start(
        {.listen = {.host = "127.0.0.1", .port = 0}}, threads_.executor(), threads_.executor(),
        [this](const osm::net::Request&) { return answer(); }, log_);
    if (!started.ok()) throw std::runtime_error(started.error().text());
    server_ = std::move(started).value();
  }

  std::unique_ptr<osm::EndpointsProvider> start(const osm::Runtime& runtime) override {
    return std::make_unique<vendor::InventoryProvider>(vendor::InventoryOptions{
        .inventory = server_->address(), .executor = runtime.executor, .log = runtime.log});
  }
  void set_endpoints(const osm::ServiceName& service,
                     const std::vector<osm::Endpoint>& endpoints) override {
    std::string lines = endpoints.empty() ? service.str() + " -\n" : "";
    for (const osm::Endpoint& endpoint : endpoints) {
      lines += service.str() + ' ' + endpoint.address + ':' +
               std::to_string(osm::number(endpoint.port)) + ' ' + endpoint.service_port;
      const osm::ServiceIdentity& who = endpoint.identity;
      lines += " account=" + (who.ns == service.ns ? who.name : who.str());
      if (endpoint.zone) lines += " zone=" + *endpoint.zone;
      if (endpoint.weight) lines += " weight=" + std::to_string(*endpoint.weight);
      lines += endpoint.healthy ? "\n" : " unhealthy\n";
    }
    std::lock_guard lock(mutex_);
    lines_[service] = lines;
  }
  void remove_service(const osm::ServiceName& service) override {
    std::lock_guard lock(mutex_);
    lines_.erase(service);
  }
  void set_reachable(bool reachable) override {
    std::lock_guard lock(mutex_);
    reachable_ = reachable;
  }

 private:
  osm::net::Response answer() {
    std::lock_guard lock(mutex_);
    if (!reachable_) return osm::net::text_response("down for maintenance", 503);
    std::string text;
    for (const auto& [service, lines] : lines_) text += lines;
    return osm::net::text_response(text);
  }

  std::mutex mutex_;
  std::map<osm::ServiceName, std::string> lines_;
  bool reachable_ = true;
  osm::testing::CapturingLog log_;
  osm::net::Threads threads_{1};
  std::unique_ptr<osm::net::HttpServer> server_;
};

}  // namespace

int main() {
  const osm::testing::ConformanceReport report =
      osm::testing::check_provider([] { return std::make_unique<InventoryPlatform>(); });
  std::cout << report.text();
  return report.passed() ? 0 : 1;
}
