// Names of Services on a machine: the same in its hosts file and in its Envoy's DNS.
#pragma once

#include <string>
#include <vector>

#include "osm/ids.hpp"
#include "osm/values/workload.hpp"

namespace osm::inline v1::model {

// The annotation by which a VirtualMachine asks its Envoy to answer for the names. A provider of
// machines passes it on as a label of the workload.
inline constexpr const char* kDnsAnnotation = "openservicemesh.io/dns";
inline constexpr const char* kDnsEnabled = "enabled";
inline constexpr const char* kDnsChoice =
    "must be enabled; leave the annotation out to keep the machine's name servers";

// Pods have the DNS of their cluster.
inline bool asks_for_dns(const Workload& workload) {
  const auto label = workload.labels.find(kDnsAnnotation);
  return workload.kind == WorkloadKind::kMachine && label != workload.labels.end() &&
         label->second == kDnsEnabled;
}

// Names of a Service as a machine of namespace `ns` resolves them: those of its own namespace also
// by short name.
inline std::vector<std::string> machine_names(const ServiceName& service, const std::string& ns,
                                              const std::string& cluster_domain) {
  const std::string name = service.name + '.' + service.ns;
  std::vector<std::string> names{name, name + ".svc", name + ".svc." + cluster_domain};
  if (service.ns == ns) names.insert(names.begin(), service.name);
  return names;
}

}  // namespace osm::inline v1::model
