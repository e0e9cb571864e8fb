// Many EndpointsProviders as one table by service.
//
// The table remembers each provider's last good answer: a provider that cannot be reached or throws
// keeps its endpoints, is marked stale or failed, and disturbs no other. A provider that has not
// synced contributes nothing. A service that a provider knows without endpoints is in the table
// with none; a service that no provider knows is not in it. What the table holds depends on the
// providers' answers and their configured order only, never on the order of events.
//
// Lives on one strand; calls into providers from there.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "endpoint/merge.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::endpoint {

class EndpointTable {
 public:
  using Services = std::map<ServiceName, std::shared_ptr<const MergedService>>;

  explicit EndpointTable(std::vector<ProviderEntry> providers);

  // Asks every provider whether it has synced and is healthy.
  // Result: whether one has synced since the last call, so that every service must be read.
  bool refresh_status();

  // Identities of other namespaces are nobody's: read() every service after a change.
  void set_monitored_namespaces(std::set<std::string> namespaces);

  // Asks the synced providers about `services`, and again about those where one failed before.
  // Result: the services whose entry appeared, changed or vanished. Others keep their pointers.
  std::set<ServiceName> read(const std::set<ServiceName>& services);

  // Services that left the mesh. Result: as read().
  std::set<ServiceName> forget(const std::set<ServiceName>& services);

  const Services& services() const { return services_; }
  // Null when no provider knows the service.
  std::shared_ptr<const MergedService> find(const ServiceName& service) const;

  std::vector<ProviderStatus> providers() const;  // in configured order
  // "endpoints provider vm": the required ones that have not synced.
  std::vector<std::string> waiting_for() const;
  // Whether a provider failed to answer, so that read({}) is worth trying again.
  bool has_failures() const;
  // Of providers and of services, ordered.
  std::vector<Problem> problems() const;

 private:
  struct Source {
    EndpointsProvider* provider;
    ProviderStatus status;
    std::map<ServiceName, std::vector<Endpoint>> answers;  // of services it knows
    std::set<ServiceName> unanswered;                      // it threw when asked
  };

  static void ask(Source& source, const ServiceName& service);
  bool merge(const ServiceName& service);

  std::vector<Source> sources_;
  std::set<std::string> namespaces_;
  Services services_;
};

}  // namespace osm::inline v1::endpoint
