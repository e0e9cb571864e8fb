// Clients and servers get the limits of connections and requests of a Service; a limit of requests
// changes no listener; a path has one bucket whatever policies match.
#include <algorithm>
#include <chrono>

#include "envoy/extensions/filters/http/local_ratelimit/v3/local_rate_limit.pb.h"
#include "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.pb.h"
#include "envoy/extensions/filters/network/local_ratelimit/v3/local_rate_limit.pb.h"
#include "envoy/extensions/filters/network/tcp_proxy/v3/tcp_proxy.pb.h"
#include "envoy/extensions/upstreams/http/v3/http_protocol_options.pb.h"
#include "translate/snapshots.hpp"

using namespace osm;
using namespace osm::translate_test;
using namespace std::chrono_literals;
using HttpLimit = envoy::extensions::filters::http::local_ratelimit::v3::LocalRateLimit;
using NetworkLimit = envoy::extensions::filters::network::local_ratelimit::v3::LocalRateLimit;
using envoy::config::route::v3::FilterConfig;
using envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
using envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
using envoy::extensions::upstreams::http::v3::HttpProtocolOptions;

namespace {

constexpr const char* kFilter = "http_local_rate_limit";
const ServiceName kApex{"server", "apex"};

Mesh with_limits(const UpstreamLimits& limits, Protocol protocol = Protocol::kHttp) {
  Mesh mesh = worked_example(protocol);
  auto entry = server_entry(protocol);
  entry.limits = limits;
  mesh.put(entry);
  return mesh;
}

HttpLocalRateLimit requests(std::uint32_t amount) { return {{amount, 60s, 2}, 429, {}}; }

// The limit of a virtual host or a route; 0: none.
template <class Part>
std::uint32_t tokens(const Part& part) {
  const auto at = part.typed_per_filter_config().find(kFilter);
  if (at == part.typed_per_filter_config().end() || at->second.template Is<FilterConfig>())
    return 0;
  return unpack<HttpLimit>(at->second).token_bucket().max_tokens();
}

std::vector<std::string> filters(const envoy::config::listener::v3::FilterChain& chain) {
  std::vector<std::string> out;
  for (const auto& filter : chain.filters()) out.push_back(filter.name());
  return out;
}

}  // namespace

TEST_SUITE("translate.limits") {
  TEST_CASE("connection settings are the circuit breakers of the clients' clusters") {
    UpstreamLimits limits;
    limits.connections = {1, 2, 3, 4, 5, 1500ms};
    const auto cluster = with_limits(limits).cluster(client_class(), "server/server|14001");
    const auto& most = cluster.circuit_breakers().thresholds(0);
    CHECK(most.max_connections().value() == 1);
    CHECK(most.max_pending_requests().value() == 2);
    CHECK(most.max_requests().value() == 3);
    CHECK(most.max_retries().value() == 4);
    CHECK(cluster.connect_timeout().seconds() == 1);
    CHECK(cluster.connect_timeout().nanos() == 500'000'000);
    const auto options =
        unpack<HttpProtocolOptions>(cluster.typed_extension_protocol_options().begin()->second);
    CHECK(options.common_http_protocol_options().max_requests_per_connection().value() == 5);
    limits.connections = {0, {}, {}, {}, {}, {}};
    const auto closed = with_limits(limits).cluster(client_class(), "server/server|14001");
    CHECK(closed.circuit_breakers().thresholds(0).has_max_connections());
    CHECK(closed.circuit_breakers().thresholds(0).max_connections().value() == 0);
    CHECK(closed.circuit_breakers().thresholds(0).max_requests().value() == 4294967295);
    CHECK(closed.connect_timeout().seconds() == 5);
  }

  TEST_CASE("failing endpoints are ejected where that is wished for") {
    UpstreamLimits limits;
    limits.connections.outliers = OutlierDetection{2, 1500ms, 600s, 50};
    const std::string name = "server/server|14001";
    CHECK_FALSE(worked_example().cluster(client_class(), name).has_outlier_detection());
    for (const Protocol protocol : {Protocol::kHttp, Protocol::kTcp}) {
      const auto cluster = with_limits(limits, protocol).cluster(client_class(), name);
      const auto& detection = cluster.outlier_detection();
      CHECK(detection.consecutive_5xx().value() == 2);
      CHECK(detection.interval().seconds() == 1);
      CHECK(detection.interval().nanos() == 500'000'000);
      CHECK(detection.base_ejection_time().seconds() == 600);
      CHECK(detection.max_ejection_time().seconds() == 600);
      CHECK(detection.max_ejection_percent().value() == 50);
      CHECK(detection.enforcing_success_rate().value() == 0);
    }
  }

  TEST_CASE("an idle time of streams is in the routes of both ends, and no listener changes") {
    UpstreamLimits limits;
    const auto times = [&](Protocol protocol) {
      const Mesh mesh = with_limits(limits, protocol);
      const auto out =
          mesh.routes(client_class(), "rds-outbound.80.server.server.svc.cluster.local")
              .virtual_hosts(0)
              .routes(0);
      const auto in =
          mesh.routes(server_class(protocol), "rds-inbound.14001").virtual_hosts(0).routes(0);
      CHECK(out.route().has_idle_timeout() == in.route().has_idle_timeout());
      CHECK(out.route().idle_timeout().seconds() == in.route().idle_timeout().seconds());
      return in.route().has_idle_timeout() ? in.route().idle_timeout().seconds() : -1;
    };
    CHECK(times(Protocol::kHttp) == -1);  // Envoy's own
    CHECK(times(Protocol::kGrpc) == 0);   // a silent stream lives
    limits.idle.stream = 90s;
    CHECK(times(Protocol::kHttp) == 90);
    CHECK(times(Protocol::kGrpc) == 90);
    limits.idle.stream = 0s;
    CHECK(times(Protocol::kHttp) == 0);
    const Mesh mesh = with_limits(limits), plain = worked_example();
    for (const auto& [of, name] : {std::pair{client_class(), "outbound_10.96.10.7_80"},
                                   std::pair{server_class(), "inbound-listener"}})
      CHECK(mesh.encoded(of, XdsType::kListener, name)->hash ==
            plain.encoded(of, XdsType::kListener, name)->hash);
  }

  TEST_CASE("the server's sidecar closes idle connections to the application, no client's does") {
    UpstreamLimits limits;
    const auto idle = [&](const translate::ProxyClass& of, const char* name) {
      const auto cluster = with_limits(limits).cluster(of, name);
      const auto time =
          unpack<HttpProtocolOptions>(cluster.typed_extension_protocol_options().begin()->second)
              .common_http_protocol_options()
              .idle_timeout();
      return time.seconds() * 1000 + time.nanos() / 1'000'000;
    };
    CHECK(idle(server_class(), "server/server|14001|local") == 1000);
    limits.idle.application = 100ms;
    CHECK(idle(server_class(), "server/server|14001|local") == 100);
    CHECK(idle(client_class(), "server/server|14001") == 0);
  }

  TEST_CASE("an idle time of connections is in the TCP chains of both ends") {
    UpstreamLimits limits;
    limits.idle.connection = 2s;
    const Mesh mesh = with_limits(limits, Protocol::kTcp);
    for (const auto& [of, name] : {std::pair{client_class(), "outbound_10.96.10.7_80"},
                                   std::pair{server_class(Protocol::kTcp), "inbound-listener"}}) {
      const auto chain = mesh.listener(of, name).filter_chains(0);
      const auto proxy = unpack<TcpProxy>(chain.filters(chain.filters_size() - 1).typed_config());
      CHECK(proxy.idle_timeout().seconds() == 2);
    }
  }

  TEST_CASE("a limit of requests is in the routes, and the listener stays equal") {
    UpstreamLimits limits;
    limits.http = {{3, 3600s, 4}, 503, {{"x-limit", "on"}}};
    const Mesh mesh = with_limits(limits);
    const auto plain =
        worked_example().encoded(server_class(), XdsType::kListener, "inbound-listener");
    CHECK(mesh.encoded(server_class(), XdsType::kListener, "inbound-listener")->hash ==
          plain->hash);
    const auto host = mesh.routes(server_class(), "rds-inbound.14001").virtual_hosts(0);
    const auto limit = unpack<HttpLimit>(host.typed_per_filter_config().at(kFilter));
    CHECK(limit.token_bucket().max_tokens() == 7);
    CHECK(limit.token_bucket().tokens_per_fill().value() == 3);
    CHECK(limit.token_bucket().fill_interval().seconds() == 3600);
    CHECK(limit.status().code() == 503);
    CHECK(limit.filter_enabled().default_value().numerator() == 100);
    CHECK(limit.filter_enforced().default_value().numerator() == 100);
    REQUIRE(limit.response_headers_to_add_size() == 1);
    CHECK(limit.response_headers_to_add(0).header().key() == "x-limit");
    const auto& not_found = host.routes(host.routes_size() - 1);
    CHECK(not_found.direct_response().status() == 404);
    const auto& off = not_found.typed_per_filter_config().at(kFilter);
    CHECK(unpack<FilterConfig>(off).disabled());  // a refused request consumes nothing
  }

  TEST_CASE("requests that policy refuses consume nothing: RBAC is before the limit") {
    const auto chain =
        worked_example().listener(server_class(), "inbound-listener").filter_chains(0);
    const auto manager = unpack<HttpConnectionManager>(chain.filters(0).typed_config());
    std::vector<std::string> names;
    for (const auto& filter : manager.http_filters()) names.push_back(filter.name());
    CHECK(names ==
          std::vector<std::string>{"http_header_names", "http_rbac", kFilter, "http_router"});
    const auto open = unpack<HttpLimit>(manager.http_filters(2).typed_config());
    CHECK_FALSE(open.has_token_bucket());
  }

  TEST_CASE("a path has one route and one bucket, before all others, whatever policies match") {
    UpstreamLimits limits;
    limits.http = requests(10);
    limits.paths = {{"/status/slow", requests(1)}, {"/status/.*", requests(4)}};
    Mesh mesh = with_limits(limits);
    const auto shape = [&] {
      std::vector<std::uint32_t> out;
      const auto host = mesh.routes(server_class(), "rds-inbound.14001").virtual_hosts(0);
      for (const auto& route : host.routes()) out.push_back(tokens(route));
      return out;
    };
    CHECK(shape() == std::vector<std::uint32_t>{3, 6, 0, 0});  // one match, and 404
    mesh.put(kServer, {},
             {http_target("a", {kClient}, {{"all", ".*", {}, {}}}),
              http_target("b", {{"x", "x"}}, {{"some", "/status/.*", {"GET", "PUT"}, {}}})});
    CHECK(shape() == std::vector<std::uint32_t>{3, 6, 0, 0});
    const auto host = mesh.routes(server_class(), "rds-inbound.14001").virtual_hosts(0);
    CHECK(host.routes(0).match().path() == "/status/slow");
    CHECK(host.routes(0).route().cluster() == "server/server|14001|local");
    CHECK(tokens(host) == 12);
    mesh.put(kServer, {}, {});
    CHECK(shape() == std::vector<std::uint32_t>{0});  // nobody may call it
    mesh.permissive();
    CHECK(shape() == std::vector<std::uint32_t>{3, 6, 0, 0});
  }

  TEST_CASE("requests that name the apex of a split have the apex's limit") {
    UpstreamLimits own, apexes;
    own.http = requests(5);
    apexes.http = requests(7);
    Mesh mesh = with_limits(own);
    auto entry = *mesh.snapshot.services.find(kServerService);
    entry.apexes = {kApex};
    mesh.put(entry);
    auto apex = server_entry();
    apex.name = kApex;
    apex.cluster_ip = "10.96.0.1";
    apex.limits = apexes;
    mesh.put(apex);
    const auto routes = mesh.routes(server_class(), "rds-inbound.14001");
    CHECK(tokens(routes.virtual_hosts(0)) == 9);  // apex
    CHECK(tokens(routes.virtual_hosts(1)) == 7);  // server
    const auto read = translate::services_read_by(mesh.snapshot, server_class());
    CHECK(std::find(read.begin(), read.end(), kApex) != read.end());
  }

  TEST_CASE("a limit of connections follows RBAC in TCP chains, and is the first filter of HTTP") {
    UpstreamLimits limits;
    limits.tcp = LocalRateLimit{4294967295, 1s, 7};
    const auto tcp = with_limits(limits, Protocol::kTcp)
                         .listener(server_class(Protocol::kTcp), "inbound-listener")
                         .filter_chains(0);
    CHECK(filters(tcp) == std::vector<std::string>{"l4_rbac", "l4_local_rate_limit",
                                                   "envoy.filters.network.tcp_proxy"});
    const auto limit = unpack<NetworkLimit>(tcp.filters(1).typed_config());
    CHECK(limit.token_bucket().max_tokens() == 4294967295);
    CHECK(limit.token_bucket().fill_interval().seconds() == 1);
    CHECK(limit.share_key() == tcp.name());  // another chain of the port goes on with its bucket
    const auto http = with_limits(limits).listener(server_class(), "inbound-listener");
    CHECK(filters(http.filter_chains(0)) ==
          std::vector<std::string>{"l4_local_rate_limit",
                                   "envoy.filters.network.http_connection_manager"});
  }
}
