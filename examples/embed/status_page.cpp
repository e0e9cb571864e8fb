#include "status_page.hpp"

#include <envoy/extensions/filters/http/router/v3/router.pb.h>
#include <envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.pb.h>

namespace vendor {
namespace {

namespace hcm = envoy::extensions::filters::network::http_connection_manager::v3;

hcm::HttpConnectionManager page(const std::string& text) {
  hcm::HttpConnectionManager manager;
  manager.set_stat_prefix("vendor_status");
  auto& host = *manager.mutable_route_config()->add_virtual_hosts();
  host.set_name("status");
  host.add_domains("*");
  auto& route = *host.add_routes();
  route.mutable_match()->set_prefix("/");
  route.mutable_direct_response()->set_status(200);
  route.mutable_direct_response()->mutable_body()->set_inline_string(text);
  auto& router = *manager.add_http_filters();
  router.set_name("envoy.filters.http.router");
  router.mutable_typed_config()->PackFrom(envoy::extensions::filters::http::router::v3::Router());
  return manager;
}

}  // namespace

osm::Status StatusPage::apply(const osm::ProxyGroup& group, osm::EnvoyResources& resources) const {
  auto& listener = resources.listeners.emplace_back();
  listener.set_name("vendor-status");
  auto& address = *listener.mutable_address()->mutable_socket_address();
  address.set_address("127.0.0.1");
  address.set_port_value(16000);
  auto& filter = *listener.add_filter_chains()->add_filters();
  filter.set_name("envoy.filters.network.http_connection_manager");
  filter.mutable_typed_config()->PackFrom(page("sidecar of " + group.identity.str() + "\n"));
  return {};
}

}  // namespace vendor
