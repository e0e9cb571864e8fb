#include "osm/spec/kinds.hpp"

#include <algorithm>
#include <type_traits>

#include "machines/azure_resource.hpp"
#include "machines/dns_resource.hpp"
#include "machines/virtual_machine.hpp"
#include "osm/ids.hpp"
#include "osm/values/service_provider.hpp"
#include "osm/values/telemetry.hpp"
#include "spec/decode.hpp"

namespace osm::inline v1::spec {
namespace {

// Calls a function of decode.hpp, with the cluster's domain if it reads host names of Services.
template <auto kDecode>
auto decoded(const Object& object, const std::string& cluster_domain) {
  if constexpr (std::is_invocable_v<decltype(kDecode), const Object&, const std::string&>)
    return kDecode(object, cluster_domain);
  else
    return kDecode(object);
}

template <auto kDecode>
std::vector<Problem> faults(const Object& object, const std::string& cluster_domain) {
  return decoded<kDecode>(object, cluster_domain).problems;
}

Kinds table() {
  using enum Scope;
  using enum Review;
  return {
      {.name = kinds::kNamespace,
       .version = "v1",
       .plural = "namespaces",
       .alias = "ns",
       .scope = kCluster},
      {.name = kinds::kService,
       .version = "v1",
       .plural = "services",
       .alias = "svc",
       .may_be_left_out = true,
       .check = faults<decode_unaddressed_service>},
      {.name = kinds::kServiceAccount,
       .version = "v1",
       .plural = "serviceaccounts",
       .check = faults<decode_service_account>},
      {.name = kinds::kTrafficTarget,
       .version = "v1alpha3",
       .plural = "traffictargets",
       .alias = "tt",
       .status = true,
       .review = kWrites,
       .may_be_left_out = true,
       .check = faults<decode_traffic_target>},
      {.name = kinds::kHttpRouteGroup,
       .version = "v1alpha4",
       .plural = "httproutegroups",
       .alias = "htr",
       .status = true,
       .review = kWrites,
       .may_be_left_out = true,
       .check = faults<decode_http_route_group>},
      {.name = kinds::kTcpRoute,
       .version = "v1alpha4",
       .plural = "tcproutes",
       .alias = "tr",
       .status = true,
       .review = kWrites,
       .may_be_left_out = true,
       .check = faults<decode_tcp_route>},
      {.name = kinds::kTrafficSplit,
       .version = "v1alpha2",
       .plural = "trafficsplits",
       .alias = "ts",
       .status = true,
       .review = kWrites,
       .may_be_left_out = true,
       .check = faults<decode_traffic_split>},
      {.name = kinds::kMeshConfig,
       .version = "v1alpha2",
       .plural = "meshconfigs",
       .alias = "mc",
       .scope = kControlPlane,
       .status = true,
       .review = kWritesAndDeletes,
       .check = faults<decode_mesh_config>},
      {.name = kinds::kMeshRootCertificate,
       .version = "v1alpha2",
       .plural = "meshrootcertificates",
       .scope = kControlPlane,
       .review = kWritesAndDeletes,
       .check = faults<decode_root_certificate>},
      {.name = kinds::kEgress,
       .version = "v1alpha1",
       .plural = "egresses",
       .alias = "egr",
       .status = true,
       .review = kWrites,
       .may_be_left_out = true,
       .decode = decoded<decode_egress>},
      {.name = kinds::kIngressBackend,
       .version = "v1alpha1",
       .plural = "ingressbackends",
       .alias = "ib",
       .status = true,
       .review = kWrites,
       .may_be_left_out = true,
       .decode = decoded<decode_ingress_backend>},
      {.name = kinds::kRetry,
       .version = "v1alpha1",
       .plural = "retries",
       .alias = "rty",
       .status = true,
       .review = kWrites,
       .may_be_left_out = true,
       .decode = decoded<decode_retry>},
      {.name = kinds::kUpstreamTrafficSetting,
       .version = "v1alpha1",
       .plural = "upstreamtrafficsettings",
       .alias = "uts",
       .status = true,
       .review = kWrites,
       .decode = decoded<decode_upstream_traffic_setting>},
      {.name = kinds::kTelemetry,
       .version = "v1alpha1",
       .plural = "telemetries",
       .alias = "tel",
       .scope = kMeshAndControlPlane,
       .status = true,
       .review = kWrites,
       .may_be_left_out = true,
       .decode = decoded<decode_telemetry>},
      {.name = kinds::kExtensionService,
       .version = "v1alpha2",
       .plural = "extensionservices",
       .alias = "extsvc",
       .scope = kMeshAndControlPlane,
       .status = true,
       .review = kWrites,
       .may_be_left_out = true,
       .decode = decoded<decode_extension_service>},
      {.name = kinds::kVirtualMachine,
       .version = "v1alpha1",
       .plural = "virtualmachines",
       .alias = "vm",
       .status = true,
       .review = kWrites,
       .check = faults<vm::decode_virtual_machine>},
      {.name = kinds::kAzureResource,
       .version = "v1alpha1",
       .plural = "azureresources",
       .alias = "az",
       .status = true,
       .review = kWrites,
       .check = faults<azure::decode_azure_resource>},
      {.name = kinds::kDnsResource,
       .version = "v1alpha1",
       .plural = "dnsresources",
       .alias = "dns",
       .status = true,
       .review = kWrites,
       .check = faults<dns::decode_dns_resource>},
      {.name = kinds::kServiceProvider,
       .version = "v1alpha1",
       .plural = "serviceproviders",
       .alias = "sp",
       .status = true,
       .review = kWrites,
       .decode = decoded<decode_service_provider>},
      {.name = kinds::kDenylist,
       .version = "v1alpha1",
       .plural = "denylists",
       .alias = "dl",
       .scope = kControlPlane,
       .status = true,
       .review = kWrites,
       .decode = decoded<decode_denylist>},
  };
}

}  // namespace

std::string Kind::api_version() const {
  return std::string(name.group).append(name.group.empty() ? "" : "/").append(version);
}

const Kinds& mesh_kinds() {
  static const Kinds kAll = table();
  return kAll;
}

Kinds mesh_kinds(std::initializer_list<GroupKind> names) {
  Kinds out;
  for (const GroupKind& name : names)
    if (const Kind* kind = find_kind(mesh_kinds(), name)) out.push_back(*kind);
  return out;
}

const Kind* find_kind(const Kinds& kinds, const GroupKind& name) {
  const auto at =
      std::find_if(kinds.begin(), kinds.end(), [&](const Kind& kind) { return kind.name == name; });
  return at == kinds.end() ? nullptr : &*at;
}

Status check_place(const ObjectKey& key) {
  const Kind* const kind = find_kind(mesh_kinds(), key.group_kind());
  const bool cluster = kind && kind->scope == Scope::kCluster;
  const char* fault = nullptr;
  if (cluster && !key.ns.empty())
    fault = ": metadata.namespace: this kind has none; leave it out";
  else if (!cluster && key.ns.empty())
    fault = ": metadata.namespace: required";
  else if ((!cluster && !is_dns_label(key.ns)) || !is_dns_subdomain(key.name))
    fault = ": metadata: its namespace or name is no DNS name (lower case, digits, '-')";
  return fault ? Status(Error{ErrorCode::kInvalidArgument, key.str() + fault}) : Status();
}

std::optional<std::string> why_unknown(const Object& object, const Kinds& kinds) {
  std::string all;
  std::string versions;
  for (const Kind& known : kinds) {
    all.append(all.empty() ? "" : ", ").append(known.name.kind);
    if (known.name.kind != object.key.kind) continue;
    if (known.api_version() == object.api_version) return std::nullopt;
    versions.append(versions.empty() ? "" : " or ").append(known.api_version());
  }
  if (versions.empty()) return "the mesh does not use this kind; it reads " + all;
  return "apiVersion " + object.api_version + " of " + object.key.kind + " is not supported; use " +
         versions;
}

}  // namespace osm::inline v1::spec
