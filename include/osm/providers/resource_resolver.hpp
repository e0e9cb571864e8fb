// Addresses of a platform's resources: an object of the mesh maps labels to the id of a resource,
// and a resolver turns the id into the addresses behind it. osm/spec/dns_resources.hpp and
// osm/spec/azure_resources.hpp have two; a host may implement its own. Resolvers do not throw.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1 {

// One machine behind a resource.
struct ResourceInstance {
  // Stable while the machine exists, and unique in the resource: lower-case letters, digits and
  // '-'. The workload is <object>-<name>. Empty: the resource is one machine, and the workload has
  // the object's name.
  std::string name{};
  std::string address{};                  // IPv4 or IPv6 literal
  std::optional<Port> port{};             // the platform's own, such as an SRV record's
  std::optional<std::string> zone{};      // default: "local"
  std::optional<std::uint32_t> weight{};  // default: equal
  bool healthy = true;                    // false: known, but gets no traffic

  friend bool operator==(const ResourceInstance&, const ResourceInstance&) = default;
};

// The machines behind a resource.
struct Resolution {
  std::vector<ResourceInstance> instances{};  // ordered by name; may be empty
  // True for a set of machines that has no machine of its own name. False: there is also a workload
  // with the object's name, at the first instance's address.
  bool scales = false;

  friend bool operator==(const Resolution&, const Resolution&) = default;
};

// A fault of a resource, or of the platform.
struct ResourceProblem {
  std::string id;  // empty: the whole platform
  ErrorCode code = ErrorCode::kUnavailable;
  std::string cause;  // the fault and the remedy, without secrets

  friend bool operator==(const ResourceProblem&, const ResourceProblem&) = default;
};

class OSM_API ResourceResolver {
 public:
  // Ends the work under way. Thread: any but those of its callbacks. Blocking: for a callback.
  virtual ~ResourceResolver() = default;

  // A short constant DNS label: "dns", "azure". Thread: any. Blocking: no.
  virtual std::string id() const = 0;

  // Replaces the set of ids to resolve. An id that was there before keeps its answer. It calls no
  // subscriber meanwhile. Thread: any. Blocking: no.
  virtual void follow(std::set<std::string> ids) = 0;

  // Result: the last good answer; nullopt while there is none, or if the id is not followed.
  // Failure: none; while the platform is away or refuses, the last good answer stays.
  // Thread: any. Blocking: no (reads memory).
  virtual std::optional<Resolution> find(const std::string& id) const = 0;

  // True once the platform has answered for each followed id, be it with a refusal that lasts. It
  // stays false while the platform is away, so that no mesh starts with endpoints missing.
  // Thread: any. Blocking: no.
  virtual bool has_synced() const = 0;

  // True while the platform is reachable. Otherwise answers may be stale. Thread: any. Blocking:
  // no.
  virtual bool healthy() const = 0;

  // Present faults, ordered by id. Thread: any. Blocking: no.
  virtual std::vector<ResourceProblem> list_problems() const = 0;

  // Calls `on_change` with the ids whose answer or problem changed; an empty set: has_synced() or
  // healthy() changed. The resolver holds no lock meanwhile.
  // Thread: the resolver's, one call at a time; must not block. Lifetime: until the handle dies.
  virtual Subscription subscribe(
      std::function<void(const std::set<std::string>& ids)> on_change) = 0;
};

}  // namespace osm::inline v1
