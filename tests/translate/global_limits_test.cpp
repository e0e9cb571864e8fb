// A rate-limit server is asked about the requests and connections of its Service, and of no other;
// descriptors change no listener.
#include <chrono>

#include "envoy/extensions/filters/http/ratelimit/v3/rate_limit.pb.h"
#include "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.pb.h"
#include "envoy/extensions/filters/network/ratelimit/v3/rate_limit.pb.h"
#include "envoy/extensions/upstreams/http/v3/http_protocol_options.pb.h"
#include "translate/snapshots.hpp"

using namespace osm;
using namespace osm::translate_test;
using namespace std::chrono_literals;
using HttpLimit = envoy::extensions::filters::http::ratelimit::v3::RateLimit;
using LimitPerRoute = envoy::extensions::filters::http::ratelimit::v3::RateLimitPerRoute;
using NetworkLimit = envoy::extensions::filters::network::ratelimit::v3::RateLimit;
using envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
using envoy::extensions::upstreams::http::v3::HttpProtocolOptions;

namespace {

using Kind = RateLimitEntry::Kind;

const std::string kOwnFilter = "http_global_rate_limit|server/server";
const ServiceName kApex{"server", "apex"};
const RateLimitServer kCounter{"limiter.example", Port{8081}, "shop", 1500ms, false};
const RateLimitEntry kAll{Kind::kGenericKey, "", "all", "", {}};
const RateLimitEntry kUser{Kind::kRequestHeader, "user", "", "x-user", {}};

Mesh with_limits(const UpstreamLimits& limits, Protocol protocol = Protocol::kHttp) {
  Mesh mesh = worked_example(protocol);
  auto entry = server_entry(protocol);
  entry.limits = limits;
  mesh.put(entry);
  return mesh;
}

UpstreamLimits counted() {
  UpstreamLimits limits;
  limits.global_http = {kCounter, true, 503};
  limits.descriptors = {{kAll}};
  return limits;
}

HttpConnectionManager manager(const Mesh& mesh) {
  const auto chain = mesh.listener(server_class(), "inbound-listener").filter_chains(0);
  return unpack<HttpConnectionManager>(chain.filters(chain.filters_size() - 1).typed_config());
}

std::vector<std::string> filters(const HttpConnectionManager& manager) {
  std::vector<std::string> out;
  for (const auto& filter : manager.http_filters()) out.push_back(filter.name());
  return out;
}

std::string hash(const Mesh& mesh, XdsType type, const std::string& name) {
  return mesh.encoded(server_class(), type, name)->hash.hex();
}

}  // namespace

TEST_SUITE("translate.global_limits") {
  TEST_CASE("requests are counted after RBAC and the local limit, where their Service says so") {
    const Mesh mesh = with_limits(counted());
    const auto out = manager(mesh);
    REQUIRE(filters(out) == std::vector<std::string>{"http_header_names", "http_rbac",
                                                     "http_local_rate_limit", kOwnFilter,
                                                     "http_router"});
    CHECK(out.http_filters(3).disabled());
    const auto limit = unpack<HttpLimit>(out.http_filters(3).typed_config());
    CHECK(limit.domain() == "shop");
    CHECK(limit.timeout().seconds() == 1);
    CHECK(limit.timeout().nanos() == 500'000'000);
    CHECK(limit.failure_mode_deny());
    CHECK(limit.rate_limited_status().code() == 503);
    CHECK(limit.enable_x_ratelimit_headers() == HttpLimit::DRAFT_VERSION_03);
    CHECK(limit.rate_limit_service().grpc_service().envoy_grpc().cluster_name() ==
          "rate-limit|limiter.example|8081");
    const auto host = mesh.routes(server_class(), "rds-inbound.14001").virtual_hosts(0);
    CHECK(host.typed_per_filter_config().at(kOwnFilter).Is<LimitPerRoute>());
    REQUIRE(host.rate_limits_size() == 1);
    CHECK(host.rate_limits(0).actions(0).generic_key().descriptor_value() == "all");
    for (const auto& route : host.routes()) CHECK(route.route().rate_limits_size() == 0);
    CHECK(filters(manager(worked_example())) ==
          std::vector<std::string>{"http_header_names", "http_rbac", "http_local_rate_limit",
                                   "http_router"});
  }

  TEST_CASE("a change of descriptors changes routes only") {
    UpstreamLimits limits = counted();
    const Mesh before = with_limits(limits);
    limits.descriptors = {{kUser}};
    limits.paths = {{"/lane", {}, {{kAll, kUser}}}};
    const Mesh after = with_limits(limits);
    CHECK(hash(before, XdsType::kListener, "inbound-listener") ==
          hash(after, XdsType::kListener, "inbound-listener"));
    CHECK(hash(before, XdsType::kRoute, "rds-inbound.14001") !=
          hash(after, XdsType::kRoute, "rds-inbound.14001"));
  }

  TEST_CASE("a path has descriptors in place of the Service's") {
    UpstreamLimits limits = counted();
    limits.http = HttpLocalRateLimit{{5, 60s, 0}, 429, {}};
    limits.paths = {{"/lane", {}, {{kAll, kUser}}}};
    const auto host =
        with_limits(limits).routes(server_class(), "rds-inbound.14001").virtual_hosts(0);
    const auto& lane = host.routes(0);
    REQUIRE(lane.match().path() == "/lane");
    CHECK(lane.typed_per_filter_config().empty());  // the Service's local limit counts
    REQUIRE(lane.route().rate_limits_size() == 1);
    CHECK(lane.route().rate_limits(0).actions_size() == 2);
    limits.global_http.reset();
    const auto none =
        with_limits(limits).routes(server_class(), "rds-inbound.14001").virtual_hosts(0);
    CHECK(none.rate_limits_size() == 0);
    CHECK(none.routes(0).route().rate_limits_size() == 0);
    CHECK_FALSE(none.typed_per_filter_config().contains(kOwnFilter));
  }

  TEST_CASE("every kind of entry is an action of Envoy's") {
    using Header = HeaderCondition::Kind;
    UpstreamLimits limits = counted();
    limits.descriptors = {{{Kind::kGenericKey, "k", "v", "", {}},
                           {Kind::kRemoteAddress, "", "", "", {}},
                           kUser,
                           {Kind::kHeaderValueMatch,
                            "k",
                            "v",
                            "",
                            {{"a", Header::kExact, "1"},
                             {"a", Header::kPrefix, "2"},
                             {"a", Header::kSuffix, "3"},
                             {"a", Header::kContains, "4"},
                             {"a", Header::kRegex, "5"},
                             {"a", Header::kPresent, ""},
                             {"a", Header::kAbsent, ""}},
                            false}}};
    const auto host =
        with_limits(limits).routes(server_class(), "rds-inbound.14001").virtual_hosts(0);
    const auto& actions = host.rate_limits(0).actions();
    CHECK(actions[0].generic_key().descriptor_key() == "k");
    CHECK(actions[1].has_remote_address());
    CHECK(actions[2].request_headers().header_name() == "x-user");
    CHECK(actions[2].request_headers().descriptor_key() == "user");
    const auto& match = actions[3].header_value_match();
    CHECK(match.descriptor_key() == "k");
    CHECK_FALSE(match.expect_match().value());
    CHECK(match.headers(0).string_match().exact() == "1");
    CHECK(match.headers(1).string_match().prefix() == "2");
    CHECK(match.headers(2).string_match().suffix() == "3");
    CHECK(match.headers(3).string_match().contains() == "4");
    CHECK(match.headers(4).string_match().safe_regex().regex() == "5");
    CHECK(match.headers(5).present_match());
    CHECK(match.headers(6).has_present_match());
    CHECK_FALSE(match.headers(6).present_match());
  }

  TEST_CASE("requests to an apex are counted by the apex's server, and by no other") {
    Mesh mesh = with_limits(counted());
    auto entry = *mesh.snapshot.services.find(kServerService);
    entry.apexes = {kApex};
    mesh.put(entry);
    auto apex = server_entry();
    apex.name = kApex;
    apex.cluster_ip = "10.96.0.1";
    apex.limits = counted();
    apex.limits->global_http->server.host = "other.example";
    mesh.put(apex);
    const std::string of_apex = "http_global_rate_limit|server/apex";
    CHECK(filters(manager(mesh)) == std::vector<std::string>{"http_header_names", "http_rbac",
                                                             "http_local_rate_limit", of_apex,
                                                             kOwnFilter, "http_router"});
    const auto hosts = mesh.routes(server_class(), "rds-inbound.14001").virtual_hosts();
    CHECK(hosts[0].typed_per_filter_config().contains(of_apex));
    CHECK_FALSE(hosts[0].typed_per_filter_config().contains(kOwnFilter));
    CHECK(hosts[1].typed_per_filter_config().contains(kOwnFilter));
    CHECK_FALSE(hosts[1].typed_per_filter_config().contains(of_apex));
    const auto names = mesh.names(server_class(), XdsType::kCluster);
    for (const char* host : {"limiter", "other"})
      CHECK(std::count(names.begin(), names.end(),
                       std::string("rate-limit|") + host + ".example|8081") == 1);
  }

  TEST_CASE("a server asks before it accepts a connection, and its clients do not") {
    UpstreamLimits limits;
    limits.global_tcp = {kCounter, {{{"a", "b"}, {"c", "d"}}, {{"e", "f"}}}};
    for (const Protocol protocol : {Protocol::kTcp, Protocol::kHttp}) {
      const Mesh mesh = with_limits(limits, protocol);
      const auto chain = mesh.listener(server_class(protocol), "inbound-listener").filter_chains(0);
      const int at = is_http(protocol) ? 0 : 1;  // after RBAC of TCP
      CHECK(chain.filters(at).name() == "l4_global_rate_limit");
      const auto limit = unpack<NetworkLimit>(chain.filters(at).typed_config());
      CHECK(limit.domain() == "shop");
      CHECK(limit.failure_mode_deny());
      REQUIRE(limit.descriptors_size() == 2);
      CHECK(limit.descriptors(0).entries(1).key() == "c");
      CHECK(limit.descriptors(0).entries(1).value() == "d");
      const auto cluster = mesh.cluster(server_class(protocol), "rate-limit|limiter.example|8081");
      CHECK(cluster.type() == Cluster::STRICT_DNS);
      const auto options =
          unpack<HttpProtocolOptions>(cluster.typed_extension_protocol_options().begin()->second);
      CHECK(options.explicit_http_config().has_http2_protocol_options());
      for (const std::string& name : mesh.names(client_class(), XdsType::kCluster))
        CHECK_FALSE(name.starts_with("rate-limit"));
    }
  }
}
