#include <map>
#include <string>

#include "envoy/config/listener/v3/listener.pb.h"
#include "envoy/extensions/filters/http/rbac/v3/rbac.pb.h"
#include "envoy/extensions/filters/http/router/v3/router.pb.h"
#include "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.pb.h"
#include "translate/grpc.hpp"
#include "translate/http_manager.hpp"
#include "translate/input.hpp"
#include "translate/pack_any.hpp"
#include "translate/rbac.hpp"
#include "translate/tls.hpp"

namespace osm::inline v1::translate {
namespace {

namespace hcm = envoy::extensions::filters::network::http_connection_manager::v3;

// gRPC refuses the whole listener for a rule about these headers.
bool knows_header(const std::string& name) {
  return !name.starts_with("grpc-") && name != ":scheme";
}

// Leaves out rules that gRPC cannot check: they allow nothing. A grant without rules would allow
// everything, so it goes with its last rule.
Authorization checkable(Authorization authorization) {
  std::erase_if(authorization.grants, [](Grant& grant) {
    if (grant.routes.empty()) return false;
    std::erase_if(grant.routes, [](const PathMatch& route) {
      for (const auto& [name, regex] : route.headers)
        if (!knows_header(name)) return true;
      return false;
    });
    return grant.routes.empty();
  });
  return authorization;
}

// A listener of the server. gRPC asks for it by the address that the application listens on.
struct GrpcServerListenerValues {
  static constexpr XdsType kType = XdsType::kListener;
  static constexpr std::string_view kKind = "grpc-server-listener";

  std::string address;
  Port port{};
  Authorization authorization;
  bool checks_paths = true;

  Encoding encode(const std::string& name) const {
    hcm::HttpConnectionManager manager;
    auto& host = *manager.mutable_route_config()->add_virtual_hosts();
    manager.mutable_route_config()->set_name(name);
    host.set_name("grpc_virtual-host|*");
    host.add_domains("*");
    auto& route = *host.add_routes();
    route.mutable_match()->set_prefix("/");
    route.mutable_non_forwarding_action();
    // Rules without policies deny everything.
    envoy::extensions::filters::http::rbac::v3::RBAC rbac;
    *rbac.mutable_rules() =
        rbac_rules(authorization, checks_paths ? MatchedPaths::kNormalForm : MatchedPaths::kAny);
    set_extension(*manager.add_http_filters(), kHttpRbacFilter, rbac);
    set_extension(*manager.add_http_filters(), "http_router",
                  envoy::extensions::filters::http::router::v3::Router());

    envoy::config::listener::v3::Listener out;
    out.set_name(name);
    auto& at = *out.mutable_address()->mutable_socket_address();
    at.set_address(address);
    at.set_port_value(number(port));
    auto& chain = *out.mutable_default_filter_chain();
    chain.set_name(name);
    set_extension(*chain.add_filters(), "envoy.filters.network.http_connection_manager", manager);
    chain.mutable_transport_socket()->set_name(kGrpcTransportSocket);
    *chain.mutable_transport_socket()->mutable_typed_config() = grpc_downstream_tls();
    return {deterministic_bytes(pack_any(out)), {}};
  }
};

void add_server_listeners(const ClassView& view, std::vector<InputPtr>& inputs) {
  std::map<Port, bool> ports;  // with whether paths must be in normal form
  for (const ServedPort& served : view.served) {
    if (served.port.target_port == Port{0} || !is_for_grpc_libraries(served.port)) continue;
    ports[served.port.target_port] |= served.http_paths != HttpPaths::kUnchecked;
  }
  for (const auto& [port, checks_paths] : ports) {
    const Authorization authorization = checkable(http_authorization(view, port));
    const std::string suffix = ':' + std::to_string(number(port));
    inputs.push_back(
        make_input("grpc/server/0.0.0.0" + suffix,
                   GrpcServerListenerValues{"0.0.0.0", port, authorization, checks_paths}));
    inputs.push_back(make_input("grpc/server/[::]" + suffix,
                                GrpcServerListenerValues{"::", port, authorization, checks_paths}));
  }
}

}  // namespace

std::vector<InputPtr> grpc_listener_inputs(const ClassView& view) {
  std::vector<InputPtr> inputs;
  add_grpc_client_listeners(view, inputs);
  add_server_listeners(view, inputs);
  return inputs;
}

}  // namespace osm::inline v1::translate
