// Combines EndpointsProviders into one table by service.
//
// The table keeps each provider's last good answer. A provider that is unreachable or throws keeps
// its endpoints, is marked stale or failed, and does not affect the others. A provider that has not
// synced contributes nothing. A ServiceProvider sets the order of precedence for its service. A
// service that a provider knows without endpoints is in the table with none; a service that no
// provider knows is not in the table. The content depends only on the providers' answers and their
// order of precedence, never on the order of events.
//
// Thread: one strand, which also calls the providers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "endpoint/merge.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/object.hpp"
#include "osm/values/service_provider.hpp"

namespace osm::inline v1::endpoint {

class EndpointTable {
 public:
  using Services = std::map<ServiceName, std::shared_ptr<const MergedService>>;

  explicit EndpointTable(std::vector<ProviderEntry> providers);

  // Calls `on_step` before each question about a service, since a read may take long. Not null.
  void on_steps(std::function<void()> on_step) { step_ = std::move(on_step); }

  // Reads has_synced() and healthy() of every provider.
  // Result: true if one has synced since the last call; then every service must be read.
  bool refresh_status();

  // Sets the namespaces whose identities count. Call read() for every service after a change.
  void set_monitored_namespaces(std::set<std::string> namespaces);

  // Sets the declared orders of precedence; other services have the configured one.
  // Result: as read().
  std::set<ServiceName> set_orders(std::map<ServiceName, ServiceProvider> orders);

  // Reads `services` from the synced providers, and retries services at which a provider failed
  // before.
  // Result: the services whose entry appeared, changed or vanished. Others keep their pointers.
  std::set<ServiceName> read(const std::set<ServiceName>& services);

  // Removes services that left the mesh. Result: as read().
  std::set<ServiceName> forget(const std::set<ServiceName>& services);

  const Services& services() const { return services_; }
  // The service's entry; null if no provider knows the service.
  std::shared_ptr<const MergedService> find(const ServiceName& service) const;

  std::vector<ProviderStatus> providers() const;  // in configured order
  // The required providers that have not synced: "endpoints provider vm".
  std::vector<std::string> waiting_for() const;
  // True if a provider failed to answer; then read({}) is worth another try.
  bool has_failures() const;
  // Problems of providers and of services, ordered.
  std::vector<Problem> problems() const;

 private:
  struct Source {
    EndpointsProvider* provider;
    ProviderStatus status;
    std::map<ServiceName, std::vector<Endpoint>> answers;  // answers for the services that it knows
    std::set<ServiceName> outside{};                       // those that are served outside, too
    std::set<ServiceName> unanswered;                      // services at which it threw
  };

  static void ask(Source& source, const ServiceName& service);
  bool merge(const ServiceName& service);
  // A source and the factor for the weights of its endpoints.
  struct Ranked {
    const Source* source;
    std::optional<std::uint32_t> weight;
  };
  std::vector<Ranked> ranked(const ServiceName& service) const;

  std::function<void()> step_ = [] {};
  std::vector<Source> sources_;
  std::set<std::string> namespaces_;
  std::map<ServiceName, ServiceProvider> orders_;
  Services services_;
};

}  // namespace osm::inline v1::endpoint
