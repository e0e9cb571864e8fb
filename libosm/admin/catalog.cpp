// Questions to the catalog: policies, services, identities.
#include <string>
#include <utility>
#include <vector>

#include "admin/admin_json.hpp"
#include "admin/handlers.hpp"
#include "osm/control_plane.hpp"
#include "osm/mesh_cataloger.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/object_store.hpp"
#include "osm/values/proxy_id.hpp"

namespace osm::inline v1::admin {
namespace {

namespace json = boost::json;

// The parameter as a name with its namespace. `what`: "a service account"; `form`:
// "<namespace>/<account>".
template <class Name>
Result<Name> name_parameter(const net::Request& request, const std::string& parameter,
                            const std::string& what, const std::string& form) {
  OSM_TRY(const std::string text, request.required(parameter));
  const auto slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size() ||
      text.find('/', slash + 1) != std::string::npos) {
    return Error{ErrorCode::kInvalidArgument,
                 parameter + " '" + text + "' is not " + what + "; write " + form};
  }
  return Name{text.substr(0, slash), text.substr(slash + 1)};
}

Result<ServiceIdentity> identity_parameter(const net::Request& request, const char* parameter) {
  return name_parameter<ServiceIdentity>(request, parameter, "a service account",
                                         "<namespace>/<account>");
}

bool concerns(const Problem& problem, const ServiceIdentity& source,
              const ServiceIdentity& destination) {
  // A file that cannot be read may hold anything.
  return problem.object.kind.empty() || problem.object.ns == source.ns ||
         problem.object.ns == destination.ns;
}

const char* mode_of(const net::AdminApiOptions& options) {
  return options.spec.get_mesh_config().proxy.permissive ? "permissive" : "SMI";
}

json::object policy_json(const net::AdminApiOptions& options, const TrafficPolicy& policy) {
  const auto object =
      options.store
          ? options.store->get({kinds::kTrafficTarget, policy.target.ns, policy.target.name})
          : nullptr;
  return to_json(policy, object ? object->source : ObjectSource{});
}

template <class Name>
json::array name_list(const std::vector<Name>& values) {
  json::array out;
  for (const Name& value : values) out.emplace_back(value.str());
  return out;
}

}  // namespace

Result<net::Response> check_policy(const net::AdminApiOptions& options,
                                   const net::Request& request) {
  OSM_TRY(const ServiceIdentity source, identity_parameter(request, "source"));
  OSM_TRY(const ServiceIdentity destination, identity_parameter(request, "destination"));
  OSM_TRY(const PolicyDecision decision,
          options.control_plane.catalog().check_policy(source, destination));

  json::array deciding;
  for (const TrafficPolicy& policy : decision.deciding)
    deciding.push_back(policy_json(options, policy));
  json::array problems;
  for (const Problem& problem : options.control_plane.status().problems)
    if (concerns(problem, source, destination)) problems.push_back(to_json(problem));
  return answer(json::object{{"allowed", decision.allowed},
                             {"reason", decision.reason},
                             {"mode", mode_of(options)},
                             {"deciding", std::move(deciding)},
                             {"problems", std::move(problems)}});
}

Result<net::Response> list_policies(const net::AdminApiOptions& options, const net::Request&) {
  OSM_TRY(const auto found, options.control_plane.catalog().list_smi_policies());
  json::array policies;
  for (const TrafficPolicy& policy : found) {
    json::object one = policy_json(options, policy);
    one["source"] = policy.source.identity.str();
    one["source_services"] = name_list(policy.source.services);
    one["destination"] = policy.destination.identity.str();
    one["destination_services"] = name_list(policy.destination.services);
    policies.push_back(std::move(one));
  }
  return answer(json::object{{"mode", mode_of(options)}, {"policies", std::move(policies)}});
}

Result<net::Response> find_service(const net::AdminApiOptions& options,
                                   const net::Request& request) {
  OSM_TRY(const auto service,
          name_parameter<ServiceName>(request, "name", "a Service", "<namespace>/<name>"));
  const MeshCataloger& catalog = options.control_plane.catalog();
  OSM_TRY(const auto identities, catalog.list_service_identities_for_service(service));
  OSM_TRY(const auto endpoints, catalog.list_endpoints_for_service(service));
  OSM_TRY(const auto ingress, catalog.get_ingress_policies_for_service(service));
  return answer(json::object{{"service", service.str()},
                             {"identities", name_list(identities)},
                             {"endpoints", list(endpoints)},
                             {"ingress", list(ingress)}});
}

Result<net::Response> find_identity(const net::AdminApiOptions& options,
                                    const net::Request& request) {
  OSM_TRY(const ServiceIdentity identity, identity_parameter(request, "name"));
  const MeshCataloger& catalog = options.control_plane.catalog();
  OSM_TRY(const auto inbound, catalog.list_inbound_service_identities(identity));
  OSM_TRY(const auto outbound, catalog.list_outbound_service_identities(identity));
  OSM_TRY(const auto services, catalog.get_services_for_service_identity(identity));
  return answer(json::object{{"identity", identity.str()},
                             {"mode", mode_of(options)},
                             {"inbound", name_list(inbound)},
                             {"outbound", name_list(outbound)},
                             {"services", list(services)}});
}

Result<net::Response> list_proxy_services(const net::AdminApiOptions& options,
                                          const net::Request& request) {
  OSM_TRY(const std::string ns, request.required("namespace"));
  OSM_TRY(const std::string text, request.required("uuid"));
  const auto proxy = parse_proxy_id(text);
  if (!proxy.ok())
    return Error{
        ErrorCode::kInvalidArgument,
        "uuid '" + text + "' is not a proxy's UUID; `osm proxy list --expected` shows them"};
  const auto services = options.control_plane.catalog().get_services_for_proxy(ns, *proxy);
  // Elsewhere this code refuses a proxy.
  if (!services.ok() && services.error().code == ErrorCode::kUnknownProxy)
    return Error{ErrorCode::kNotFound,
                 services.error().message + "; `osm proxy list --expected` shows UUIDs"};
  if (!services.ok()) return services.error();
  return answer(
      json::object{{"namespace", ns}, {"uuid", proxy->str()}, {"services", list(*services)}});
}

}  // namespace osm::inline v1::admin
