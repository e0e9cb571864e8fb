// The lists of one provider: services with their endpoints, workloads, and the problems of what was
// left out. Plain data; not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "osm/endpoints_provider.hpp"
#include "osm/remote/provider.hpp"

namespace osm::inline v1::remote {

// A service or a workload as it was received. nullopt: it is not on the platform, or was left out
// as a whole.
template <class Value>
struct Received {
  std::optional<Value> value;
  std::vector<Problem> problems;

  friend bool operator==(const Received&, const Received&) = default;
};

// The changes of one message. An entry without a value and without problems removes.
struct Edits {
  std::map<ServiceName, Received<std::vector<Endpoint>>> services;
  std::map<WorkloadName, Received<Workload>> workloads;
  std::vector<Problem> unnamed;  // of what has no canonical name
};

// Names whose answers changed.
struct Changes {
  std::set<ServiceName> services;
  std::set<WorkloadName> workloads;
  bool problems = false;
};

class Content {
 public:
  // Failure: kTooLarge, with the bound; nothing is changed then.
  Status put(Edits edits, const RemoteLimits& limits, Changes& changes);

  std::optional<std::vector<Endpoint>> endpoints(const ServiceName& service) const;
  std::optional<Workload> workload(const WorkloadName& name) const;
  std::vector<Workload> workloads() const;  // ordered
  std::vector<Problem> problems() const;    // ordered; at most kMaxProblems, then one that counts
  std::size_t service_count() const { return services_.size(); }

  // Differences of the answers from those of `before`.
  Changes changes_since(const Content& before) const;

  static constexpr std::size_t kMaxProblems = 100;

 private:
  // Endpoints of a workload are at its address, under its account.
  using Place = std::pair<std::string, ServiceIdentity>;

  Status check(const Edits& edits, const RemoteLimits& limits) const;
  void set_service(const ServiceName& name, Received<std::vector<Endpoint>> received,
                   Changes& changes);
  void set_workload(const WorkloadName& name, Received<Workload> received, Changes& changes);
  void remove_endpoints(const ServiceName& service, const std::vector<Endpoint>& endpoints);

  std::map<ServiceName, Received<std::vector<Endpoint>>> services_;
  std::map<WorkloadName, Received<Workload>> workloads_;
  std::vector<Problem> unnamed_;
  std::size_t endpoint_count_ = 0;
  std::map<Place, std::set<ServiceName>> serving_;
  std::map<Place, std::set<WorkloadName>> working_;
};

}  // namespace osm::inline v1::remote
