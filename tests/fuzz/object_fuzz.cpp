// One object → the decoder of its kind: nothing that is missing, doubled, of another type or out of
// range may do more than leave the object out, with a reason.
//
//   input: '0', an object of the base mesh, then edits; or '1', a kind, then raw JSON.

#include <boost/json.hpp>
#include <set>
#include <string>

#include "fuzz/object_edits.hpp"
#include "machines/azure_resource.hpp"
#include "machines/dns_resource.hpp"
#include "machines/virtual_machine.hpp"
#include "model/ip_address.hpp"
#include "osm/ids.hpp"
#include "osm/spec/kinds.hpp"
#include "osm/values/denylist.hpp"
#include "osm/values/egress.hpp"
#include "osm/values/ingress_backend.hpp"
#include "osm/values/service_provider.hpp"
#include "osm/values/telemetry.hpp"
#include "spec/decode.hpp"
#include "spec/log_format.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

constexpr GroupKind kKinds[] = {
    kinds::kService,        kinds::kServiceAccount,   kinds::kTrafficTarget,
    kinds::kHttpRouteGroup, kinds::kTcpRoute,         kinds::kTrafficSplit,
    kinds::kMeshConfig,     kinds::kVirtualMachine,   kinds::kMeshRootCertificate,
    kinds::kEgress,         kinds::kIngressBackend,   kinds::kRetry,
    kinds::kTelemetry,      kinds::kExtensionService, kinds::kUpstreamTrafficSetting,
    kinds::kDenylist,       kinds::kDnsResource,      kinds::kAzureResource,
    kinds::kServiceProvider};

void check_problems(const Object& object, const std::vector<Problem>& problems, bool valid) {
  require(valid || !problems.empty(), "an object that is left out has a reason", object.key.str());
  for (const Problem& problem : problems) {
    require(problem.object == object.key, "a problem names its object", problem.text());
    require(!problem.cause.empty(), "a problem says what is wrong", problem.text());
  }
}

template <class T>
void check(const Object& object, const T& decoded) {
  check_problems(object, decoded.problems, decoded.value.has_value());
}

template <class Name>
void check_name(const Name& name) {
  require(is_dns_label(name.ns), "a namespace is a DNS label", name.ns);
  require(is_dns_subdomain(name.name), "a name is a DNS name", name.name);
}

// Values that lead to other hosts, or are commands to sidecars.
void check_values(const Policy& policy) {
  if (const auto* server = policy.get<ExtensionService>()) {
    const bool named = server->host.find_first_of(":/ ") == std::string::npos;
    require(!server->host.empty() && (named || model::is_ipv6(server->host)),
            "a collector is a host", server->host);
    require(server->port != Port{}, "a collector has a port");
  }
  if (const auto* telemetry = policy.get<Telemetry>()) {
    if (telemetry->format.kind == AccessLogFormat::Kind::kText)
      require(!spec::why_bad_log_format(telemetry->format.text), "a format has known commands");
    if (!telemetry->open_telemetry) return;
    check_name(telemetry->open_telemetry->service);
    for (const auto& [name, value] : telemetry->open_telemetry->attributes)
      require(!spec::why_bad_log_format(value), "an attribute has known commands", value);
  }
}

// No backend is open by omission, and no name is a workload's.
void check_ingress(const IngressBackend& policy, const std::string& ns) {
  for (const IngressTarget& target : policy.backends) {
    check_name(target.service);
    require(target.service.ns == ns, "a backend is of the object's namespace", target.service.ns);
    require(target.target_port != Port{}, "a backend has a port");
    if (target.tls && target.tls->client_certificate)
      require(!policy.principals.empty(), "a certificate has a name");
    else
      require(policy.limits_addresses, "a caller has an address");
  }
  for (const IngressSourceService& source : policy.services) check_name(source.service);
  for (const std::string& network : policy.networks)
    require(network.find('/') != std::string::npos, "a network has a length", network);
  for (const std::string& name : policy.principals) {
    require(is_dns_subdomain(name) || name.starts_with("spiffe://"), "a name is exact", name);
    const auto path = name.find('/', 9);
    require(path == std::string::npos || !name.substr(path).starts_with("/ns/"),
            "a name is no workload's", name);
  }
}

void check_regexes(const smi::HttpRouteGroup& group) {
  std::set<std::string> names;
  for (const smi::HttpMatch& match : group.matches) {
    require(!match.name.empty() && names.insert(match.name).second, "a name means one match");
    require(!spec::why_bad_regex(match.path_regex), "a path is a regex", match.path_regex);
    for (const auto& [name, regex] : match.headers)
      require(!spec::why_bad_regex(regex), "a header is a regex", regex);
  }
}

// True if the list is absent, null or empty: then it means any.
bool unwritten(const Object& object, const char* name) {
  const auto* root = object.document->if_object();
  const auto* spec = root ? root->if_contains("spec") : nullptr;
  const auto* map = spec ? spec->if_object() : nullptr;
  const auto* list = map ? map->if_contains(name) : nullptr;
  return list == nullptr || list->is_null() || (list->is_array() && list->as_array().empty());
}

void check_egress(const Egress& egress, const Object& object) {
  for (const ServiceIdentity& source : egress.sources)
    require(source.ns == object.key.ns && is_dns_label(source.name),
            "an Egress opens the outside to its own namespace only", source.str());
  require(egress.hosts || unwritten(object, "hosts"), "bad hosts do not mean any host");
  require(egress.route_groups || !egress.setting.empty() || unwritten(object, "matches"),
          "bad matches do not mean every request");
  if (egress.networks)
    for (const Ipv4Network& network : *egress.networks)
      require(network.length > 0 && network.length <= 32 &&
                  (network.length == 32 || network.address << network.length == 0),
              "a network has no host bits");
  if (!egress.hosts) return;
  for (const EgressHost& host : *egress.hosts) {
    require(is_dns_name(host.name.starts_with("*.") ? host.name.substr(2) : host.name),
            "a host is a DNS name or an address", host.name);
    require(!host.name.starts_with("127."), "no host is the sidecar's machine", host.name);
  }
}

void decode(const Object& object) {
  const GroupKind kind = object.key.group_kind();
  const std::string text = boost::json::serialize(*object.document);
  if (kind == kinds::kService) {
    const auto decoded = spec::decode_service(object);
    check(object, decoded);
    if (decoded.value) check_name(decoded.value->name);
  } else if (kind == kinds::kServiceAccount) {
    const auto decoded = spec::decode_service_account(object);
    check(object, decoded);
    if (decoded.value) check_name(*decoded.value);
  } else if (kind == kinds::kTrafficTarget) {
    const auto decoded = spec::decode_traffic_target(object);
    check(object, decoded);
    if (!decoded.value) return;
    check_name(decoded.value->destination);
    for (const ServiceAccount& source : decoded.value->sources) check_name(source);
    require(decoded.value->destination.ns == object.key.ns,
            "a target shapes its own namespace only", text);
  } else if (kind == kinds::kHttpRouteGroup) {
    const auto decoded = spec::decode_http_route_group(object);
    check(object, decoded);
    if (decoded.value) check_regexes(*decoded.value);
  } else if (kind == kinds::kTcpRoute) {
    check(object, spec::decode_tcp_route(object));
  } else if (kind == kinds::kTrafficSplit) {
    const auto decoded = spec::decode_traffic_split(object);
    check(object, decoded);
    if (!decoded.value) return;
    std::int64_t sum = 0;
    for (const smi::SplitBackend& backend : decoded.value->backends) {
      require(backend.weight >= 0, "a weight is not negative", text);
      sum += backend.weight;
    }
    require(sum <= UINT32_MAX, "weights sum to what Envoy can add up", text);
    require(sum > 0 || !decoded.problems.empty(), "weights of 0 are reported", text);
  } else if (kind == kinds::kMeshConfig) {
    const auto decoded = spec::decode_mesh_config(object);
    check(object, decoded);
    if (decoded.value)
      require(decoded.value->certificates.service_validity.count() > 0, "certificates live");
  } else if (kind == kinds::kMeshRootCertificate) {
    const auto decoded = spec::decode_root_certificate(object);
    check(object, decoded);
    if (decoded.value && decoded.value->trust_domain != TrustDomain())  // empty: the mesh's own
      require(is_dns_name(decoded.value->trust_domain.str()), "a trust domain is a DNS name");
  } else if (kind == kinds::kEgress) {
    const spec::DecodedPolicy decoded = spec::decode_egress(object);
    check_problems(object, decoded.problems, decoded.value != nullptr);
    if (decoded.value) check_egress(*decoded.value->get<Egress>(), object);
  } else if (kind == kinds::kIngressBackend) {
    const spec::DecodedPolicy decoded = spec::decode_ingress_backend(object);
    check_problems(object, decoded.problems, decoded.value != nullptr);
    if (decoded.value) check_ingress(*decoded.value->get<IngressBackend>(), object.key.ns);
  } else if (kind == kinds::kDenylist) {
    const spec::DecodedPolicy decoded = spec::decode_denylist(object);
    check_problems(object, decoded.problems, decoded.value != nullptr);
    if (!decoded.value) return;
    const auto* list = decoded.value->get<Denylist>();
    for (const ServiceIdentity& account : list->accounts) check_name(account);
    for (const ProxyId& proxy : list->proxies) require(is_uuid(proxy.str()), "UUIDs are denied");
  } else if (const spec::Kind* known = spec::find_kind(spec::mesh_kinds(), kind);
             known != nullptr && known->decode != nullptr) {
    const spec::DecodedPolicy decoded = known->decode(object, "cluster.local");
    check_problems(object, decoded.problems, decoded.value != nullptr);
    if (decoded.value) check_values(*decoded.value);
  } else if (kind == kinds::kVirtualMachine || kind == kinds::kDnsResource ||
             kind == kinds::kAzureResource) {
    const auto decoded = kind == kinds::kDnsResource     ? dns::decode_dns_resource(object)
                         : kind == kinds::kAzureResource ? azure::decode_azure_resource(object)
                                                         : vm::decode_virtual_machine(object);
    check(object, decoded);
    if (!decoded.value) return;
    check_name(decoded.value->name);
    check_name(decoded.value->account);
    if (decoded.value->proxy_id)
      require(is_uuid(decoded.value->proxy_id->str()), "a proxy's id is a UUID");
    if (kind == kinds::kAzureResource)
      require(azure::resource_id_of(decoded.value->resource).has_value(), "an id can be asked for");
    if (kind == kinds::kDnsResource)
      require(dns::question_of(decoded.value->resource).has_value(), "a name can be asked for");
  }
}

void run(Choices choices) {
  if (choices.flag()) {
    Object object;
    object.key = {kKinds[choices.below(std::size(kKinds))], "b", "fuzz"};
    object.api_version =
        spec::find_kind(spec::mesh_kinds(), object.key.group_kind())->api_version();
    boost::system::error_code fault;
    object.document = std::make_shared<const boost::json::value>(
        boost::json::parse(std::string(choices.rest()), fault));
    if (!fault) decode(object);
    return;
  }
  boost::json::value document = base_objects()[choices.below(base_objects().size())];
  decode(object_of(document));
  for (int edits = 0; edits < 16 && !choices.empty(); ++edits) {
    edit(document, choices);
    decode(object_of(document));
  }
}

const bool kAdded = add("object", [](std::string_view input) { run(Choices(input)); });

}  // namespace
