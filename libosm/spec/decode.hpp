// Decodes stored objects into the mesh's values. Pure. Each function collects every problem of an
// object; the problems have object and field, but no path and line yet. `cluster_domain`: as in
// ProxySettings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "osm/object.hpp"
#include "osm/spec/kinds.hpp"
#include "osm/values/mesh_config.hpp"
#include "osm/values/mesh_root_certificate.hpp"
#include "osm/values/service.hpp"
#include "osm/values/smi.hpp"

namespace osm::inline v1::spec {

template <class T>
struct Decoded {
  std::optional<T> value;  // absent: the object is invalid and left out
  std::vector<Problem> problems;
};

Decoded<Service> decode_service(const Object& object);
// The same where addresses are allocated: a Service may lack spec.clusterIP, and has no address.
Decoded<Service> decode_unaddressed_service(const Object& object);
Decoded<ServiceAccount> decode_service_account(const Object& object);
Decoded<smi::HttpRouteGroup> decode_http_route_group(const Object& object);
Decoded<smi::TcpRoute> decode_tcp_route(const Object& object);
Decoded<smi::TrafficTarget> decode_traffic_target(const Object& object);
Decoded<smi::TrafficSplit> decode_traffic_split(
    const Object& object, const std::string& cluster_domain = "cluster.local");
Decoded<MeshConfig> decode_mesh_config(const Object& object,
                                       const std::string& cluster_domain = "cluster.local");
Decoded<MeshRootCertificate> decode_root_certificate(const Object& object);
// Decodes a Denylist. It has a value without its invalid elements, unless one of its lists cannot
// be read.
DecodedPolicy decode_denylist(const Object& object);
// Decodes an Egress. Invalid sources, hosts, addresses, ports and HTTPRouteGroups are left out.
DecodedPolicy decode_egress(const Object& object);
// Decodes an IngressBackend. An invalid backend or source is left out.
DecodedPolicy decode_ingress_backend(const Object& object);
// Decodes a Retry. An invalid destination is left out.
DecodedPolicy decode_retry(const Object& object);
// Decodes an UpstreamTrafficSetting.
DecodedPolicy decode_upstream_traffic_setting(const Object& object,
                                              const std::string& cluster_domain = "cluster.local");
// Decodes a Telemetry. Without a valid extensionService nothing is exported.
DecodedPolicy decode_telemetry(const Object& object);
// Decodes an ExtensionService.
DecodedPolicy decode_extension_service(const Object& object);
// Decodes a ServiceProvider.
DecodedPolicy decode_service_provider(const Object& object);

// Reason why `kinds` has no row for an object's apiVersion and kind, with the accepted ones;
// nullopt: it has one.
std::optional<std::string> why_unknown(const Object& object, const Kinds& kinds = mesh_kinds());

// Reason why `regex` cannot be used; nullopt: it can. RE2, as Envoy matches. If the expression
// compiles, its cost is added to `cost`.
std::optional<std::string> why_bad_regex(const std::string& regex, int* cost = nullptr);

}  // namespace osm::inline v1::spec
