#include "admin/handlers.hpp"

#include <chrono>
#include <utility>

#include "admin/admin_json.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/control_plane.hpp"
#include "osm/mesh_cataloger.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/object_store.hpp"
#include "osm/values/denylist.hpp"
#include "osm/values/proxy.hpp"

namespace osm::inline v1::admin {
namespace {

namespace json = boost::json;

std::string_view state_of(const ProviderStatus& provider) {
  if (!provider.failure.empty()) return "failed";
  if (!provider.synced) return "not synced";
  return provider.stale ? "stale" : "current";
}

}  // namespace

Result<net::Response> list_proxies(const net::AdminApiOptions& options, const net::Request&) {
  json::array proxies;
  const SteadyTime now = options.runtime.clock.steady_now();
  for (const Proxy& proxy : options.control_plane.list_proxies())
    proxies.push_back(to_json(proxy, now));
  const MeshCataloger& catalog = options.control_plane.catalog();
  json::array participants;
  for (const ProxyId& proxy : catalog.list_participants()) participants.emplace_back(proxy.str());
  return answer(json::object{{"proxies", std::move(proxies)},
                             {"expected", list(catalog.list_proxy_certificates())},
                             {"participants", std::move(participants)}});
}

Result<net::Response> config_dump(const net::AdminApiOptions& options,
                                  const net::Request& request) {
  OSM_TRY(const std::string name, request.required("name"));
  OSM_TRY(std::string dump, options.control_plane.config_dump(name));
  return net::json_response(std::move(dump));
}

Result<net::Response> list_certificates(const net::AdminApiOptions& options, const net::Request&) {
  json::array certificates;
  for (const auto& certificate : options.certificates.list_certificates())
    certificates.push_back(to_json(*certificate));
  return answer(json::object{{"certificates", std::move(certificates)}});
}

Result<net::Response> list_roots(const net::AdminApiOptions& options, const net::Request&) {
  json::array roots;
  if (options.root_rotation) roots = list(options.root_rotation->status());
  return answer(json::object{{"roots", std::move(roots)}});
}

Result<net::Response> distrust(const net::AdminApiOptions& options, const net::Request& request) {
  OSM_TRY(const std::string name, request.required("root"));
  if (!options.root_rotation)
    return Error{ErrorCode::kNotFound, "root " + name + ": this mesh rotates no roots"};
  OSM_TRY(const DistrustEffect effect,
          options.root_rotation->distrust(name, request.method == "POST"));
  return answer(to_json(effect));
}

Result<net::Response> list_problems(const net::AdminApiOptions& options, const net::Request&) {
  return answer(json::object{
      {"problems",
       list(options.problems ? options.problems() : options.control_plane.status().problems)}});
}

Result<net::Response> list_providers(const net::AdminApiOptions& options, const net::Request&) {
  json::array providers;
  for (const ProviderStatus& provider : options.control_plane.status().providers)
    providers.push_back(json::object{{"name", provider.id},
                                     {"state", state_of(provider)},
                                     {"required", provider.required},
                                     {"failure", provider.failure}});
  return answer(json::object{{"providers", std::move(providers)}});
}

Result<net::Response> list_denied(const net::AdminApiOptions& options, const net::Request&) {
  json::array denied;
  const auto add = [&](const char* kind, const std::string& name, const Denial& denial) {
    denied.push_back(json::object{{"kind", kind},
                                  {"name", name},
                                  {"object", denial.object.str()},
                                  {"reason", denial.reason}});
  };
  const Denials denials = denials_of(options.spec.list_policies());
  for (const auto& [account, denial] : denials.accounts) add("account", account.str(), denial);
  for (const auto& [proxy, denial] : denials.proxies) add("proxy", proxy.str(), denial);
  return answer(json::object{{"denied", std::move(denied)}});
}

Result<net::Response> version(const net::AdminApiOptions& options, const net::Request&) {
  return answer(json::object{{"version", options.version},
                             {"commit", options.commit},
                             {"envoy_api", "v3"},
                             {"mesh", options.objects_in}});
}

Result<net::Response> rotate(const net::AdminApiOptions& options, const net::Request& request) {
  OSM_TRY(const std::string name, request.required("common_name"));
  OSM_TRY(const auto rotated, options.certificates.rotate_certificate(CommonName(name)));
  return answer(to_json(*rotated));
}

// The store reads what was written to the object before the request, so that the answer never
// describes its previous version.
Result<net::Response> object_status(const net::AdminApiOptions& options,
                                    const net::Request& request) {
  OSM_TRY(std::string kind, request.required("kind"));
  OSM_TRY(std::string name, request.required("name"));
  const auto optional = [&](const char* parameter) {
    const auto at = request.query.find(parameter);
    return at == request.query.end() ? std::string() : at->second;
  };
  const std::string group = optional("group");
  const ObjectKey object{{group, kind}, optional("namespace"), std::move(name)};
  if (options.store && !options.store->catch_up(object, std::chrono::seconds(2)))
    return Error{ErrorCode::kUnavailable,
                 object.str() + " has not been read yet as the store has it now; ask again"};
  OSM_TRY(const ObjectStatus status, options.control_plane.object_status(object));
  return answer(to_json(status));
}

}  // namespace osm::inline v1::admin
