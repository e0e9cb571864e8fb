// UUIDs of proxies, for providers of platforms that run proxies (Workload::proxy_id).
#pragma once

#include <string_view>

#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"

namespace osm::inline v1 {

// UUID of the proxy of the workload with this name: UUIDv5 of "<trust domain>/<namespace>/<name>".
// It is the same for ever, so a platform need not keep UUIDs: the VM provider uses it for a machine
// without spec.proxyUUID. The trust domain is the one that the mesh began with.
// Thread: any. Blocking: no.
OSM_API ProxyId derived_proxy_id(const TrustDomain& domain, const WorkloadName& workload);

// The proxy's UUID that a platform keeps as text. Failure: kInvalidField, if it is not a UUID in
// lower case. Thread: any. Blocking: no.
OSM_API Result<ProxyId> parse_proxy_id(std::string_view text);

}  // namespace osm::inline v1
