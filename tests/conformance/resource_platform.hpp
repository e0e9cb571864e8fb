// DNSResources in a store, and a resolver in memory: each service is a Service object, each of its
// endpoints a resource with one instance. The platform that may be away is the resolver's.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "osm/spec/dns_resources.hpp"
#include "osm/testing/memory_resource_resolver.hpp"
#include "vm_platforms.hpp"

namespace osm::inline v1::testing {

namespace resource_platform {

// The provider together with the MeshSpec it reads Services from.
class DnsWithSpec final : public EndpointsProvider {
 public:
  DnsWithSpec(MemoryResourceResolver& resolver, ObjectStore& store, LogSink& log,
              MetricsSink& metrics)
      : spec_(spec::make_mesh_spec({.store = store, .log = log, .metrics = metrics})),
        dns_(dns::make_dns_provider(
            {resolver, store, *spec_, TrustDomain("cluster.local"), log, metrics})) {}

  std::string id() const override { return dns_->id(); }
  bool has_synced() const override { return dns_->has_synced(); }
  bool healthy() const override { return dns_->healthy(); }
  std::optional<std::vector<Endpoint>> list_endpoints_for_service(
      const ServiceName& service) const override {
    return dns_->list_endpoints_for_service(service);
  }
  Subscription subscribe(std::function<void(const std::vector<ServiceName>&)> on_change) override {
    return dns_->subscribe(std::move(on_change));
  }

 private:
  std::unique_ptr<MeshSpec> spec_;
  std::unique_ptr<dns::DnsProvider> dns_;
};

class DnsPlatform final : public ProviderPlatform {
 public:
  std::unique_ptr<EndpointsProvider> start(const Runtime& runtime) override {
    started_ = true;
    REQUIRE(store_.put_yaml(vm_platform::kShopYaml).ok());
    resolver_.set_synced(reachable_);
    resolver_.set_healthy(reachable_);
    if (reachable_) show_all();
    return std::make_unique<DnsWithSpec>(resolver_, store_, runtime.log, runtime.metrics);
  }
  void set_endpoints(const ServiceName& service, const std::vector<Endpoint>& endpoints) override {
    content_[service] = endpoints;
    if (started_ && reachable_) show(service, endpoints);
  }
  void remove_service(const ServiceName& service) override {
    content_.erase(service);
    if (started_ && reachable_) hide(service, {});
  }
  void set_reachable(bool reachable) override {
    if (std::exchange(reachable_, reachable) == reachable || !started_) return;
    if (reachable) show_all();
    resolver_.set_synced(true);
    resolver_.set_healthy(reachable);
  }

 private:
  static std::string name_of(const ServiceName& service, const Endpoint& endpoint) {
    return vm_platform::machine_name(endpoint, std::hash<ServiceName>{}(service));
  }
  static std::string resource_yaml(const ServiceName& service, const Endpoint& endpoint) {
    const std::string name = name_of(service, endpoint);
    return "{\"apiVersion\": \"workload.openservicemesh.io/v1alpha1\", \"kind\": \"DNSResource\", "
           "\"metadata\": {\"name\": " +
           vm_platform::in_quotes(name) +
           ", \"namespace\": " + vm_platform::in_quotes(endpoint.identity.ns) +
           ", \"labels\": {\"of\": \"s" + std::to_string(std::hash<ServiceName>{}(service)) +
           "\"}}, \"spec\": {\"name\": " + vm_platform::in_quotes(name + ".example") +
           ", \"serviceAccount\": " + vm_platform::in_quotes(endpoint.identity.name) +
           ", \"ports\": [{\"name\": " + vm_platform::in_quotes("p-" + endpoint.service_port) +
           ", \"port\": " + std::to_string(number(endpoint.port)) + "}]}}\n---\n";
  }

  void show_all() {
    for (const auto& [service, keys] : std::map(shown_))
      if (!content_.contains(service)) hide(service, {});
    for (const auto& [service, endpoints] : content_) show(service, endpoints);
  }
  void show(const ServiceName& service, const std::vector<Endpoint>& endpoints) {
    std::string yaml = vm_platform::service_yaml(service, endpoints);
    std::set<ObjectKey> keys{{kinds::kService, service.ns, service.name}};
    for (const Endpoint& endpoint : endpoints) {
      yaml += resource_yaml(service, endpoint);
      keys.insert({kinds::kDnsResource, endpoint.identity.ns, name_of(service, endpoint)});
      resolver_.set("A:" + name_of(service, endpoint) + ".example",
                    Resolution{.instances = {{.address = endpoint.address,
                                              .zone = endpoint.zone,
                                              .weight = endpoint.weight,
                                              .healthy = endpoint.healthy}}});
    }
    if (!store_.put_yaml(yaml).ok()) return;  // not even an object
    hide(service, keys);
    shown_[service] = keys;
  }
  void hide(const ServiceName& service, const std::set<ObjectKey>& but) {
    for (const ObjectKey& key : shown_[service]) {
      if (but.contains(key)) continue;
      store_.remove(key);
      if (key.is(kinds::kDnsResource)) resolver_.set("A:" + key.name + ".example", std::nullopt);
    }
    shown_.erase(service);
  }

  MemoryResourceResolver resolver_{"dns"};
  MemoryObjectStore store_;
  PlatformContent content_;
  std::map<ServiceName, std::set<ObjectKey>> shown_;
  bool started_ = false;
  bool reachable_ = true;
};

}  // namespace resource_platform

inline std::unique_ptr<ProviderPlatform> make_dns_platform() {
  return std::make_unique<resource_platform::DnsPlatform>();
}

}  // namespace osm::inline v1::testing
