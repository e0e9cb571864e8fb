// Host names of Services in the DNS of a cluster.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "osm/ids.hpp"

namespace osm::inline v1::model {

// Domain of a cluster's DNS if nothing else is configured. Objects may use it in every cluster.
inline constexpr std::string_view kDefaultClusterDomain = "cluster.local";

// The host names by which clients call a Service, the shortest first. The name alone
// (`short_name`) is the Service's in its own namespace only. Through the search list of a pod
// (<namespace>.svc.<domain>, svc.<domain>, <domain>) exactly these resolve. OSM v1.2 also had
// "<name>.<namespace>.svc.cluster", which its only domain keeps.
inline std::vector<std::string> host_names(const ServiceName& service, bool short_name,
                                           const std::string& cluster_domain) {
  std::vector<std::string> names;
  if (short_name) names.push_back(service.name);
  const std::string name = service.name + '.' + service.ns;
  names.push_back(name);
  names.push_back(name + ".svc");
  if (cluster_domain == kDefaultClusterDomain) names.push_back(name + ".svc.cluster");
  names.push_back(name + ".svc." + cluster_domain);
  return names;
}

// True if `suffix` may follow "<name>.<namespace>" where an object names a Service: "", ".svc" and
// ".svc.<domain>". Objects that were written for another cluster say ".svc.cluster.local", which
// therefore means this cluster too.
inline bool names_service(std::string_view suffix, std::string_view cluster_domain) {
  if (suffix.empty() || suffix == ".svc") return true;
  if (!suffix.starts_with(".svc.")) return false;
  suffix.remove_prefix(5);
  return suffix == cluster_domain || suffix == kDefaultClusterDomain;
}

}  // namespace osm::inline v1::model
