#include "osm/net/admin_api.hpp"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "admin/admin_json.hpp"
#include "admin/object_status.hpp"
#include "admin/vm_bootstrap.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/control_plane.hpp"
#include "osm/mesh_cataloger.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/net/router.hpp"
#include "osm/object_store.hpp"
#include "osm/runtime/json_log.hpp"
#include "osm/values/proxy.hpp"

namespace osm::inline v1::admin {
namespace {

namespace json = boost::json;

net::Response answer(const json::value& value) {
  return net::json_response(json::serialize(value) + '\n');
}

template <class T>
json::array list(const std::vector<T>& values) {
  json::array out;
  for (const T& value : values) out.push_back(to_json(value));
  return out;
}

net::Response list_proxies(const net::AdminApiOptions& options) {
  json::array proxies;
  const SteadyTime now = options.runtime.clock.steady_now();
  for (const Proxy& proxy : options.control_plane.list_proxies())
    proxies.push_back(to_json(proxy, now));
  return answer(
      json::object{{"proxies", std::move(proxies)},
                   {"expected", list(options.control_plane.catalog().list_proxy_certificates())}});
}

net::Response config_dump(const net::AdminApiOptions& options, const net::Request& request) {
  const auto name = request.required("name");
  if (!name.ok()) return net::error_response(name.error());
  auto dump = options.control_plane.config_dump(*name);
  if (!dump.ok()) return net::error_response(dump.error());
  return net::json_response(*std::move(dump));
}

Result<ServiceIdentity> identity_parameter(const net::Request& request, const char* name) {
  OSM_TRY(const std::string text, request.required(name));
  const auto slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size() ||
      text.find('/', slash + 1) != std::string::npos) {
    return Error{ErrorCode::kInvalidArgument,
                 std::string(name) + " '" + text +
                     "' is not a service account; write <namespace>/<account>"};
  }
  return ServiceIdentity{text.substr(0, slash), text.substr(slash + 1)};
}

bool concerns(const Problem& problem, const ServiceIdentity& source,
              const ServiceIdentity& destination) {
  // A file that cannot be read may hold anything.
  return problem.object.kind.empty() || problem.object.ns == source.ns ||
         problem.object.ns == destination.ns;
}

net::Response check_policy(const net::AdminApiOptions& options, const net::Request& request) {
  const auto source = identity_parameter(request, "source");
  if (!source.ok()) return net::error_response(source.error());
  const auto destination = identity_parameter(request, "destination");
  if (!destination.ok()) return net::error_response(destination.error());
  const auto decision = options.control_plane.catalog().check_policy(*source, *destination);
  if (!decision.ok()) return net::error_response(decision.error());

  json::array deciding;
  for (const TrafficPolicy& policy : decision->deciding) {
    const auto object =
        options.store ? options.store->get({"TrafficTarget", policy.target.ns, policy.target.name})
                      : nullptr;
    deciding.push_back(to_json(policy, object ? object->source : ObjectSource{}));
  }
  json::array problems;
  for (const Problem& problem : options.control_plane.status().problems)
    if (concerns(problem, *source, *destination)) problems.push_back(to_json(problem));
  return answer(
      json::object{{"allowed", decision->allowed},
                   {"reason", decision->reason},
                   {"mode", options.spec.get_mesh_config().proxy.permissive ? "permissive" : "SMI"},
                   {"deciding", std::move(deciding)},
                   {"problems", std::move(problems)}});
}

net::Response list_certificates(const net::AdminApiOptions& options) {
  json::array certificates;
  for (const auto& certificate : options.certificates.list_certificates())
    certificates.push_back(to_json(*certificate));
  return answer(json::object{{"certificates", std::move(certificates)}});
}

net::Response list_roots(const net::AdminApiOptions& options) {
  json::array roots;
  for (const RootStatus& root :
       options.root_rotation ? options.root_rotation->status() : std::vector<RootStatus>())
    roots.push_back(json::object{{"name", root.name},
                                 {"state", root.state},
                                 {"role", root.role},
                                 {"since", net::rfc3339(root.since)},
                                 {"waiting_for", root.waiting_for},
                                 {"trust_domain", root.trust_domain.str()}});
  return answer(json::object{{"roots", std::move(roots)}});
}

net::Response rotate(const net::AdminApiOptions& options, const net::Request& request) {
  const auto name = request.required("common_name");
  if (!name.ok()) return net::error_response(name.error());
  const auto rotated = options.certificates.rotate_certificate(CommonName(*name));
  if (!rotated.ok()) return net::error_response(rotated.error());
  return answer(to_json(**rotated));
}

}  // namespace

}  // namespace osm::inline v1::admin

namespace osm::inline v1::net {

Handler make_admin_api(const AdminApiOptions& given) {
  using namespace admin;
  AdminApiOptions options = given;
  if (!options.problems)
    options.problems = [&mesh = given.control_plane] { return mesh.status().problems; };
  Router router;
  const auto route = [&](auto handler) {
    return [options, handler](const Request& request) { return handler(options, request); };
  };
  const auto plain = [&](auto handler) {
    return [options, handler](const Request&) { return handler(options); };
  };
  router
      .get("/v1/version",
           [options](const Request&) {
             return answer(boost::json::object{
                 {"version", options.version}, {"commit", options.commit}, {"envoy_api", "v3"}});
           })
      .get("/v1/proxies", plain(list_proxies))
      .get("/v1/proxies/config_dump", route(config_dump))
      .get("/v1/policy/check", route(check_policy))
      .get("/v1/problems",
           [options](const Request&) {
             return answer(boost::json::object{{"problems", list(options.problems())}});
           })
      .get("/v1/status",
           [options](const Request& request) { return object_status(options, request); })
      .get("/v1/certificates", plain(list_certificates))
      .post("/v1/certificates/rotate", route(rotate))
      .get("/v1/roots", plain(list_roots))
      .get("/v1/vm/subject", route(vm_subject))
      .post("/v1/vm/bootstrap", route(bootstrap_vm));
  return router;
}

}  // namespace osm::inline v1::net
