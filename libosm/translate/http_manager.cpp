#include "translate/http_manager.hpp"

#include "envoy/extensions/filters/http/rbac/v3/rbac.pb.h"
#include "envoy/extensions/filters/http/router/v3/router.pb.h"
#include "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.pb.h"
#include "translate/access_log.hpp"
#include "translate/pack_any.hpp"

namespace osm::translate {
namespace {

namespace hcm = envoy::extensions::filters::network::http_connection_manager::v3;
namespace http_rbac = envoy::extensions::filters::http::rbac::v3;
namespace core = envoy::config::core::v3;

constexpr const char* kHttpManagerFilter = "envoy.filters.network.http_connection_manager";

// Stream and request timeouts are Envoy's: none for requests, 5 minutes for an idle stream.
hcm::HttpConnectionManager manager(const std::string& route_name, Direction direction) {
  hcm::HttpConnectionManager out;
  out.set_stat_prefix("mesh-http-conn-manager." + route_name);
  out.set_codec_type(hcm::HttpConnectionManager::AUTO);
  auto& rds = *out.mutable_rds();
  rds.set_route_config_name(route_name);
  rds.mutable_config_source()->mutable_ads();
  rds.mutable_config_source()->set_resource_api_version(core::ApiVersion::V3);
  out.add_upgrade_configs()->set_upgrade_type("websocket");
  out.set_server_header_transformation(hcm::HttpConnectionManager::PASS_THROUGH);
  *out.add_access_log() = access_log(direction);
  return out;
}

void add_router(hcm::HttpConnectionManager& out) {
  auto& router = *out.add_http_filters();
  router.set_name("http_router");
  *router.mutable_typed_config() = pack_any(envoy::extensions::filters::http::router::v3::Router());
}

// Denies: rules without policies allow nobody, while no rules at all would allow everybody. The
// virtual host says who may pass, so that a route without a say of its own stays closed.
void add_closed_rbac(hcm::HttpConnectionManager& out) {
  http_rbac::RBAC closed;
  closed.mutable_rules()->set_action(envoy::config::rbac::v3::RBAC::ALLOW);
  auto& filter = *out.add_http_filters();
  filter.set_name(kHttpRbacFilter);
  *filter.mutable_typed_config() = pack_any(closed);
}

envoy::config::listener::v3::Filter filter_of(const hcm::HttpConnectionManager& manager) {
  envoy::config::listener::v3::Filter filter;
  filter.set_name(kHttpManagerFilter);
  *filter.mutable_typed_config() = pack_any(manager);
  return filter;
}

}  // namespace

envoy::config::listener::v3::Filter outbound_http_manager(const std::string& route_name) {
  auto out = manager(route_name, Direction::kOutbound);
  add_router(out);
  return filter_of(out);
}

envoy::config::listener::v3::Filter inbound_http_manager(const std::string& route_name) {
  auto out = manager(route_name, Direction::kInbound);
  // Policies speak of paths: they must see the one path that the application will see.
  out.mutable_normalize_path()->set_value(true);
  out.set_merge_slashes(true);
  out.set_path_with_escaped_slashes_action(hcm::HttpConnectionManager::REJECT_REQUEST);
  // The application learns who calls from here alone; what a caller claims is taken away.
  out.set_forward_client_cert_details(hcm::HttpConnectionManager::SANITIZE_SET);
  out.mutable_set_current_client_cert_details()->set_uri(true);
  add_closed_rbac(out);
  add_router(out);
  return filter_of(out);
}

}  // namespace osm::translate
