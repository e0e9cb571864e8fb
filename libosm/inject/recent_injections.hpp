// The injections of the last seconds, for reinvocationPolicy IfNeeded: an API server calls the
// webhook again if another webhook changed the pod after it. The second request has another UID,
// from which another proxy UUID would follow, with a Secret and a certificate of its own.
//
// A pod in the second request has the UUID and the name of the first one. A copy of an injected pod
// has another name, or comes later, and becomes another proxy.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "inject/admission.hpp"
#include "inject/probes.hpp"
#include "osm/clock.hpp"
#include "osm/ids.hpp"

namespace osm::inline v1::inject {

// Determines the bootstrap Secret of an injected pod, beside the MeshConfig.
struct RecentInjection {
  ProxyId proxy;
  std::string hook_key;
  ServiceAccount account;
  std::vector<Probe> probes;
};

class RecentInjections {
 public:
  // `clock` outlives it.
  explicit RecentInjections(const Clock& clock) : clock_(clock) {}

  // The injection that the pod of `request` has been through; nullopt: none, or too long ago.
  // Thread: any. Blocking: no.
  std::optional<RecentInjection> find(const AdmissionRequest& request);
  // The Secret of `injection` is written, for the pod of `request`. Thread: any. Blocking: no.
  void add(const AdmissionRequest& request, RecentInjection injection);

 private:
  struct Entry {
    SteadyTime at;
    RecentInjection injection;
  };

  const Clock& clock_;
  std::mutex mutex_;                      // guards the rest
  std::map<std::string, Entry> entries_;  // by namespace, name and UUID; InjectionLimits bound them
};

}  // namespace osm::inline v1::inject
