// The admin API: each route with its handler, and how answers of several controllers make one.
#include <utility>

#include "admin/handlers.hpp"
#include "osm/net/admin_api.hpp"
#include "osm/net/admin_routes.hpp"
#include "osm/net/router.hpp"

namespace osm::inline v1::net {
namespace {

struct Route {
  AdminRoute shown;
  admin::RouteHandler* handler;
};

using enum AdminMerge;
constexpr Route kRoutes[] = {
    {{"GET", "/v1/version", kFirst, "version commit envoy_api mesh"}, admin::version},
    {{"GET", "/v1/proxies", kOwnProxies, "proxies expected participants"}, admin::list_proxies},
    {{"GET", "/v1/proxies/config_dump", kFirst, "configs"}, admin::config_dump},
    {{"GET", "/v1/proxies/services", kFirst, "namespace uuid services"},
     admin::list_proxy_services},
    {{"GET", "/v1/policies", kFirst, "mode policies"}, admin::list_policies},
    {{"GET", "/v1/policy/check", kFirst, "allowed reason mode deciding problems"},
     admin::check_policy},
    {{"GET", "/v1/policy/explain", kFirst, "verdict mode source steps ways problems"},
     admin::explain_call},
    {{"GET", "/v1/graph", kFirst, "mode edges"}, admin::graph},
    {{"GET", "/v1/services", kFirst, "service identities endpoints ingress"}, admin::find_service},
    {{"GET", "/v1/identities", kFirst, "identity mode inbound outbound services"},
     admin::find_identity},
    {{"GET", "/v1/problems", kUnite, "problems"}, admin::list_problems},
    {{"GET", "/v1/providers", kUniteOfEach, "providers"}, admin::list_providers},
    {{"GET", "/v1/status", kFirst,
      "object generation removed phase concerned applied lagging not_connected problems replicas "
      "replicas_behind replicas_unknown replicas_known"},
     admin::object_status},
    {{"GET", "/v1/objects", kFirst, "objects"}, admin::list_objects},
    {{"POST", "/v1/objects/apply", kFirst, "written objects"}, admin::apply_objects},
    {{"POST", "/v1/objects/delete", kFirst, "written objects"}, admin::delete_objects},
    {{"GET", "/v1/certificates", kUnite, "certificates"}, admin::list_certificates},
    {{"POST", "/v1/certificates/rotate", kFirst,
      "common_name spiffe_id usage serial_number fingerprint not_before not_after"},
     admin::rotate},
    {{"GET", "/v1/denied", kFirst, "denied"}, admin::list_denied},
    // Only the controller that takes the steps of a rotation knows what a root waits for.
    {{"GET", "/v1/roots", kUniteByName, "roots"}, admin::list_roots},
    {{"GET", "/v1/roots/distrust", kUnite, "signs proxies bundles some"}, admin::distrust},
    {{"POST", "/v1/roots/distrust", kFirst, "signs proxies bundles some"}, admin::distrust},
    {{"GET", "/v1/vm/subject", kFirst,
      "namespace name uuid common_name spiffe_id key_algorithm rsa_key_bits"},
     admin::vm_subject},
    {{"POST", "/v1/vm/bootstrap", kFirst, "uuid common_name served_until not_after files"},
     admin::bootstrap_vm},
    {{"POST", "/v1/vm/tokens", kFirst, "id secret expires join_port server_name roots"},
     admin::vm_token},
    {{"GET", "/v1/vm/drained", kUnite, "drained controllers"}, admin::vm_drained},
    {{"POST", "/v1/vm/drain", kFirst, "namespace name drained uuid"}, admin::drain_vm},
};

}  // namespace

std::vector<AdminRoute> admin_routes() {
  std::vector<AdminRoute> routes;
  for (const Route& route : kRoutes) routes.push_back(route.shown);
  return routes;
}

Handler make_admin_api(const AdminApiOptions& options) {
  Router router;
  for (const auto& [shown, handler] : kRoutes) {
    const auto answer = [options, handler = handler](const Request& request) {
      Result<Response> response = handler(options, request);
      return response.ok() ? *std::move(response) : error_response(response.error());
    };
    std::string path(shown.path);
    if (shown.method == "GET")
      router.get(std::move(path), answer);
    else
      router.post(std::move(path), answer);
  }
  return router;
}

}  // namespace osm::inline v1::net
