// Nothing but the front door, implemented and used: compiled without exceptions and without RTTI.
#include <cstdio>
#include <memory>
#include <string>

#include "osm/certificate/directory_ca.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/control_plane.hpp"
#include "osm/inject/interception.hpp"
#include "osm/inject/vm_bootstrap.hpp"
#include "osm/runtime/system.hpp"

namespace {

class Inventory final : public osm::EndpointsProvider {
 public:
  std::string id() const override { return "inventory"; }
  bool has_synced() const override { return true; }
  bool healthy() const override { return true; }
  std::optional<std::vector<osm::Endpoint>> list_endpoints_for_service(
      const osm::ServiceName& service) const override {
    if (service.name != "store") return std::nullopt;
    return std::vector<osm::Endpoint>(1);
  }
  osm::Subscription subscribe(
      std::function<void(const std::vector<osm::ServiceName>&)> /*on_change*/) override {
    return {};
  }
};

class Log final : public osm::LogSink {
 public:
  bool enabled(osm::LogLevel) const override { return true; }
  void write(osm::LogLevel, std::string_view, std::span<const osm::LogField>) override { ++lines_; }
  int lines() const { return lines_; }

 private:
  int lines_ = 0;
};

// An error comes back as a value through OSM_TRY.
osm::Result<std::string> refused() {
  OSM_TRY(const auto name, osm::parse_service_name("shop", "no such name"));
  return name.str();
}

bool all_well() {
  Inventory inventory;
  Log log;
  osm::LogSink& sink = log;
  sink.info("hello");
  const auto endpoints = inventory.list_endpoints_for_service({"shop", "store"});
  const auto name = osm::parse_service_name("Shop", "Store");
  const auto checked = osm::check_endpoint({"shop", "store"}, endpoints->front());
  osm::SystemClock clock;
  const auto ca = osm::certificate::load_or_create_directory_ca(
      {.directory = "front-door-ca", .trust_domain = osm::TrustDomain("x"), .clock = clock});
  return log.lines() == 1 && name.ok() && name->str() == "shop/store" && !checked.ok() &&
         !refused().ok() && ca.ok() && !(*ca)->trust_bundle_pem().empty();
}

}  // namespace

int main() {
  std::puts(all_well() ? "front_door: ok" : "front_door: failed");
  return all_well() ? 0 : 1;
}
