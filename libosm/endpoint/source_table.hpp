// Addresses behind the source Services of IngressBackends, merged over all providers. A provider
// that throws keeps its last answers.
// Thread: one strand, which also calls the providers.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "osm/endpoints_provider.hpp"

namespace osm::inline v1::endpoint {

class SourceTable {
 public:
  using Addresses = std::map<ServiceName, std::set<std::string>>;

  explicit SourceTable(const std::vector<ProviderEntry>& providers);

  // Calls `on_step` before each question about a Service, since a read may take long. Not null.
  void on_steps(std::function<void()> on_step) { step_ = std::move(on_step); }

  // Follows exactly `wanted`, and reads those that are new or in `announced` (all of them, if
  // `all`). Result: true if an address came or went.
  bool read(const std::set<ServiceName>& wanted, const std::set<ServiceName>& announced, bool all);

  // True if a provider threw when it was last asked for a followed Service; read() asks it again.
  bool has_failures() const;

  // The last exception's text of each provider, in their order; empty for those that answered.
  std::vector<std::string> failures() const;

  // Every followed Service has an entry.
  const Addresses& addresses() const { return merged_; }

 private:
  struct Source {
    EndpointsProvider* provider;
    Addresses answers{};
    std::set<ServiceName> unanswered{};  // asked again at the next read()
    std::string thrown{};                // while some are unanswered
  };

  void ask(Source& source, const ServiceName& service);

  std::function<void()> step_ = [] {};
  std::vector<Source> sources_;
  Addresses merged_;
};

}  // namespace osm::inline v1::endpoint
