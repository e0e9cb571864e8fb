// Routes follow splits and targets, and RBAC closes every path that no target opens.
#include "envoy/config/route/v3/route.pb.h"

#include <re2/re2.h>

#include <algorithm>
#include <set>

#include "envoy/extensions/filters/http/rbac/v3/rbac.pb.h"
#include "translate/snapshots.hpp"

using namespace osm;
using namespace osm::translate_test;
using envoy::config::route::v3::VirtualHost;
using envoy::extensions::filters::http::rbac::v3::RBACPerRoute;

namespace {

envoy::config::rbac::v3::RBAC rules_of(const VirtualHost& host) {
  return unpack<RBACPerRoute>(host.typed_per_filter_config().at("http_rbac")).rbac().rules();
}

std::vector<std::string> host_names(const RouteConfiguration& routes) {
  std::vector<std::string> out;
  for (const auto& host : routes.virtual_hosts()) out.push_back(host.name());
  return out;
}

const ServiceName kApex{"server", "apex"}, kV1{"server", "v1"}, kV2{"server", "v2"};

model::ServiceEntry service(const ServiceName& name, const std::string& address,
                            std::vector<MeshService> ports) {
  model::ServiceEntry entry;
  entry.name = name;
  entry.cluster_ip = address;
  entry.ports = std::move(ports);
  entry.identities = {kServer};
  return entry;
}

using Split = std::vector<WeightedCluster>;

Mesh split_mesh(Split backends) {
  Mesh mesh;
  auto apex = service(kApex, "10.96.0.1", {port(kApex, 80, 14001)});
  apex.split = std::move(backends);
  mesh.put(apex);
  mesh.put(service(kV1, "10.96.0.2", {port(kV1, 80, 14001)}));
  mesh.put(service(kV2, "10.96.0.3", {port(kV2, 80, 14002), port(kV2, 81, 14003)}));
  mesh.put(kClient, {upstream(kApex, {kServer}), {kV1, false, true, {}}, {kV2, false, true, {}}});
  return mesh;
}

}  // namespace

TEST_SUITE("translate::route outbound") {
  TEST_CASE(
      "a service is found by its names in their order, from another namespace without short ones") {
    const auto routes =
        worked_example().routes(client_class(), "rds-outbound.80.server.server.svc.cluster.local");
    REQUIRE(host_names(routes) ==
            std::vector<std::string>{"outbound_virtual-host|server.server.svc.cluster.local"});
    const auto& domains = routes.virtual_hosts(0).domains();
    CHECK(std::vector<std::string>(domains.begin(), domains.end()) ==
          std::vector<std::string>{
              "server.server", "server.server:80", "server.server.svc", "server.server.svc:80",
              "server.server.svc.cluster", "server.server.svc.cluster:80",
              "server.server.svc.cluster.local", "server.server.svc.cluster.local:80"});
    const auto& route = routes.virtual_hosts(0).routes(0);
    CHECK(route.match().prefix() == "/");
    CHECK(route.route().cluster() == "server/server|14001");
    CHECK(route.route().has_timeout());
    CHECK(route.route().timeout().seconds() == 0);
    CHECK_FALSE(routes.validate_clusters().value());
  }

  TEST_CASE(
      "the cluster's domain ends the full names, for clients and servers, and no other does") {
    for (const std::string domain : {"example.internal", "k8s.corp.example"}) {
      CAPTURE(domain);
      auto mesh = worked_example();
      mesh.snapshot.config.proxy.cluster_domain = domain;
      const std::string full = "server.server.svc." + domain;
      const std::vector<std::string> names{
          "server.server", "server.server:80", "server.server.svc", "server.server.svc:80", full,
          full + ":80"};
      const auto outbound =
          mesh.routes(client_class(), "rds-outbound.80.server.server.svc.cluster.local");
      REQUIRE(outbound.virtual_hosts_size() == 1);
      const auto& called = outbound.virtual_hosts(0).domains();
      CHECK(std::vector<std::string>(called.begin(), called.end()) == names);
      const auto inbound = mesh.routes(server_class(), "rds-inbound.14001");
      REQUIRE(inbound.virtual_hosts_size() == 2);
      const auto& served = inbound.virtual_hosts(0).domains();
      REQUIRE(served.size() == 8);  // the short name, too
      CHECK(std::vector<std::string>(served.begin() + 2, served.end()) == names);
    }
  }

  TEST_CASE("short names resolve within the namespace only, in permissive mode too") {
    auto mesh = worked_example();
    mesh.permissive();
    const translate::ProxyClass neighbour{{"server", "neighbour"}, {}};
    CHECK(mesh.routes(neighbour, "rds-outbound.80.server.server.svc.cluster.local")
              .virtual_hosts(0)
              .domains(0) == "server");
    CHECK(mesh.routes(client_class(), "rds-outbound.80.server.server.svc.cluster.local")
              .virtual_hosts(0)
              .domains(0) == "server.server");
  }

  TEST_CASE("a split sends by weight to the backends' ports of the dialled number") {
    const auto mesh = split_mesh({{kV1, 90}, {kV2, 10}});
    const auto routes =
        mesh.routes(client_class(), "rds-outbound.80.apex.server.svc.cluster.local");
    REQUIRE(routes.virtual_hosts_size() == 1);
    const auto& clusters = routes.virtual_hosts(0).routes(0).route().weighted_clusters().clusters();
    REQUIRE(clusters.size() == 2);
    CHECK(clusters[0].name() == "server/v1|14001");
    CHECK(clusters[0].weight().value() == 90);
    CHECK(clusters[1].name() == "server/v2|14002");
    CHECK(clusters[1].weight().value() == 10);
  }

  TEST_CASE("a backend without the port, without weight or not allowed is left out of a split") {
    auto mesh = split_mesh({{kV1, 50}, {{"server", "gone"}, 10}, {kV2, 0}});
    CHECK(mesh.routes(client_class(), "rds-outbound.80.apex.server.svc.cluster.local")
              .virtual_hosts(0)
              .routes(0)
              .route()
              .cluster() == "server/v1|14001");
    mesh.put(service(kV1, "10.96.0.2", {port(kV1, 8080, 14001)}));
    CHECK(mesh.routes(client_class(), "rds-outbound.80.apex.server.svc.cluster.local")
              .virtual_hosts(0)
              .routes(0)
              .direct_response()
              .status() == 503);
  }

  TEST_CASE("a split without a destination answers 503, and never from the apex's own endpoints") {
    for (const Split& split : {Split{}, Split{{kV1, 0}, {kV2, 0}}}) {
      const auto routes =
          split_mesh(split).routes(client_class(), "rds-outbound.80.apex.server.svc.cluster.local");
      CHECK(routes.virtual_hosts(0).routes(0).direct_response().status() == 503);
    }
  }

  TEST_CASE("TCP ports have no routes") {
    CHECK(worked_example(Protocol::kTcp).names(client_class(), XdsType::kRoute).empty());
  }

  TEST_CASE("a host that two services could be called is the service that is dialled") {
    Mesh mesh;
    // "a.b" is the pod-like name of one service and the name.namespace of the other.
    mesh.put(service({"aaa", "a.b"}, "10.96.0.1", {port({"aaa", "a.b"}, 80, 1)}));
    mesh.put(service({"b", "a"}, "10.96.0.2", {port({"b", "a"}, 80, 1)}));
    mesh.permissive();
    for (const auto& [fqdn, cluster] : {std::pair("a.b.aaa.svc.cluster.local", "aaa/a.b|1"),
                                        {"a.b.svc.cluster.local", "b/a|1"}}) {
      const auto routes = mesh.routes({{"aaa", "x"}, {}}, "rds-outbound.80." + std::string(fqdn));
      REQUIRE(routes.virtual_hosts_size() == 1);
      const auto& domains = routes.virtual_hosts(0).domains();
      CHECK(std::count(domains.begin(), domains.end(), "a.b") == 1);
      CHECK(routes.virtual_hosts(0).routes(0).route().cluster() == cluster);
    }
  }
}

TEST_SUITE("translate::route inbound") {
  TEST_CASE("a target with TCPRoutes grants HTTP on their ports only") {
    auto mesh = worked_example();
    const RoutePolicy everything{"all", ".*", {}, {}};
    mesh.put(kServer, {},
             {on_ports({Port{14001}}, http_target("bounded", {kClient}, {everything})),
              on_ports({}, http_target("open", {{"x", "x"}}, {everything})),
              http_target("web", {{"y", "y"}}, {everything})});
    const translate::ProxyClass of{
        kServer, {port(kServerService, 80, 14001), port(kServerService, 90, 9090)}};
    const auto granted = [&](const std::string& name) {
      const auto rules = rules_of(mesh.routes(of, name).virtual_hosts(0));
      std::set<std::string> out;
      for (const auto& [target, policy] : rules.policies()) out.insert(target);
      return out;
    };
    CHECK(granted("rds-inbound.14001") ==
          std::set<std::string>{"server/bounded", "server/open", "server/web"});
    CHECK(granted("rds-inbound.9090") == std::set<std::string>{"server/open", "server/web"});
  }

  TEST_CASE("a virtual host routes requests of any target and answers 404 to the rest") {
    const auto routes = worked_example().routes(server_class(), "rds-inbound.14001");
    REQUIRE(host_names(routes) ==
            std::vector<std::string>{"inbound_virtual-host|server.server.svc.cluster.local",
                                     "inbound_virtual-host|*"});
    const auto& host = routes.virtual_hosts(0);
    CHECK(host.domains(0) == "server");
    CHECK(host.domains(1) == "server:80");
    CHECK(host.domains_size() == 10);
    REQUIRE(host.routes_size() == 2);
    CHECK(host.routes(0).match().prefix() == "/status/");
    CHECK(host.routes(0).match().headers(0).string_match().exact() == "GET");
    CHECK(host.routes(0).route().cluster() == "server/server|14001|local");
    CHECK(host.routes(1).direct_response().status() == 404);
  }

  TEST_CASE("permissive mode admits any workload of the trust domain to any path") {
    auto mesh = worked_example();
    mesh.permissive();
    const auto routes = mesh.routes(server_class(), "rds-inbound.14001");
    const auto& host = routes.virtual_hosts(0);
    CHECK(host.routes(0).match().prefix() == "/");
    CHECK(host.routes(0).route().cluster() == "server/server|14001|local");
    const auto rules = rules_of(host);
    REQUIRE(rules.policies().size() == 1);
    CHECK(
        rules.policies().begin()->second.principals(0).authenticated().principal_name().prefix() ==
        "spiffe://cluster.local/ns/");
  }

  TEST_CASE("rules speak of every trust domain that is allowed, accepted now or not") {
    auto mesh = worked_example();
    mesh.domains({"new.example"});
    mesh.snapshot.allowed_domains = {TrustDomain("cluster.local"), TrustDomain("new.example")};
    const auto names = [&] {
      std::vector<std::string> out;
      const auto rules =
          rules_of(mesh.routes(server_class(), "rds-inbound.14001").virtual_hosts(0));
      REQUIRE(rules.policies().size() == 1);
      for (const auto& principal : rules.policies().begin()->second.principals()) {
        const auto& name = principal.authenticated().principal_name();
        out.push_back(name.exact().empty() ? name.prefix() + "*" : name.exact());
      }
      return out;
    };
    CHECK(names() == std::vector<std::string>{"spiffe://cluster.local/ns/client/sa/client",
                                              "spiffe://new.example/ns/client/sa/client"});
    mesh.permissive();
    CHECK(names() ==
          std::vector<std::string>{"spiffe://cluster.local/ns/*", "spiffe://new.example/ns/*"});
  }

  TEST_CASE("each target is a policy of its own, so that overlapping ones add up") {
    auto mesh = worked_example();
    mesh.put(kServer, {},
             {http_target("all", {kClient}, {{"all", ".*", {}, {}}}),
              http_target("read", {{"x", "x"}, {"y", "y"}}, {{"get", ".*", {"GET", "HEAD"}, {}}})});
    const auto routes = mesh.routes(server_class(), "rds-inbound.14001");
    const auto rules = rules_of(routes.virtual_hosts(0));
    REQUIRE(rules.policies().size() == 2);
    CHECK(rules.policies().at("server/all").permissions(0).any());
    const auto& read = rules.policies().at("server/read");
    CHECK(read.principals_size() == 2);
    CHECK(read.permissions(0).or_rules().rules_size() == 2);
    // One route is enough where one match covers everything.
    CHECK(routes.virtual_hosts(0).routes(0).match().prefix() == "/");
  }

  TEST_CASE("a path rule refuses other forms of a path, unless the Service leaves them unchecked") {
    auto mesh = worked_example();
    mesh.put(
        kServer, {},
        {http_target("t", {kClient},
                     {{"any", ".*", {}, {}}, {"one", "/one", {}, {}}, {"all", "/a/.*", {}, {}}})});
    const auto permissions = [&] {
      const auto routes = mesh.routes(server_class(), "rds-inbound.14001");
      return rules_of(routes.virtual_hosts(0)).policies().at("server/t").permissions();
    };
    CHECK(permissions()[0].any());
    CHECK(permissions()[1].url_path().path().exact() == "/one");
    REQUIRE(permissions()[2].and_rules().rules_size() == 2);
    CHECK(permissions()[2].and_rules().rules(0).url_path().path().prefix() == "/a/");
    const RE2 other_forms(
        permissions()[2].and_rules().rules(1).not_rule().url_path().path().safe_regex().regex());
    REQUIRE(other_forms.ok());
    for (const char* path :
         {"/a//b", "//a/b", "/a/./b", "/a/../b", "/a/..", "/a/.", "/a/b\\c", "/a/%2e%2e/b",
          "/a/b%2Fc", "/a/b%5cc", "/a/%61", "/a/%5A", "/a/%7e", "/a/%2D", "/a/%39", "/a/%5f"})
      CHECK_MESSAGE(RE2::FullMatch(path, other_forms), path);
    for (const char* path : {"/a/b", "/a/b/", "/a/.b", "/a/b.", "/a/..b", "/a/b..", "/a/...",
                             "/a/%20b", "/a/%252e", "/a/%3A", "/a/%40", "/a/%5B", "/a/%60",
                             "/a/%7B", "/a/%C3%A9", "/a/b;c", "/a/%2", "/a/%2C"})
      CHECK_FALSE_MESSAGE(RE2::FullMatch(path, other_forms), path);
    auto entry = server_entry();
    entry.http_paths = HttpPaths::kUnchecked;
    mesh.put(entry);
    CHECK(permissions()[2].url_path().path().prefix() == "/a/");
  }

  TEST_CASE("path, methods and headers of one match must all hold") {
    auto mesh = worked_example();
    mesh.put(kServer, {},
             {http_target("t", {kClient},
                          {{"m", "/b(o|a)oks", {"GET"}, {{"host", "a"}, {"x-user", ".*"}}}})});
    const auto routes = mesh.routes(server_class(), "rds-inbound.14001");
    const auto& match = routes.virtual_hosts(0).routes(0).match();
    CHECK(match.safe_regex().regex() == "/b(o|a)oks");
    CHECK(match.headers_size() == 3);
    const auto rules = rules_of(routes.virtual_hosts(0));
    CHECK(rules.policies().at("server/t").permissions(0).and_rules().rules_size() == 5);
  }

  TEST_CASE("without permissions there is no policy, and the filter's rules deny") {
    auto mesh = worked_example();
    mesh.put(kServer, {}, {http_target("t", {}, {{"m", ".*", {}, {}}})});
    const auto routes = mesh.routes(server_class(), "rds-inbound.14001");
    const auto& host = routes.virtual_hosts(0);
    const auto per_route = unpack<RBACPerRoute>(host.typed_per_filter_config().at("http_rbac"));
    CHECK(per_route.rbac().has_rules());
    CHECK(per_route.rbac().rules().policies().empty());
  }

  TEST_CASE("only routes that answer by themselves are exempt from the rules") {
    const auto routes = worked_example().routes(server_class(), "rds-inbound.14001");
    for (const auto& host : routes.virtual_hosts())
      for (const auto& route : host.routes())
        CHECK(route.typed_per_filter_config().count("http_rbac") ==
              (route.has_direct_response() ? 1 : 0));
  }

  TEST_CASE("the apex of a split is served under its own names by the backend's workload") {
    auto mesh = worked_example();
    auto entry = server_entry();
    entry.apexes = {kApex};
    mesh.put(entry);
    const auto routes = mesh.routes(server_class(), "rds-inbound.14001");
    REQUIRE(host_names(routes) ==
            std::vector<std::string>{"inbound_virtual-host|apex.server.svc.cluster.local",
                                     "inbound_virtual-host|server.server.svc.cluster.local",
                                     "inbound_virtual-host|*"});
    CHECK(routes.virtual_hosts(0).domains(1) == "apex:80");
    CHECK(routes.virtual_hosts(0).routes(0).route().cluster() == "server/server|14001|local");
  }

  TEST_CASE("an apex that selects the workload too is one virtual host, served as itself") {
    Mesh mesh;
    auto leaf = service(kV1, "10.96.0.2", {port(kV1, 80, 14001)});
    leaf.apexes = {kApex};
    mesh.put(leaf);
    mesh.put(service(kApex, "10.96.0.1", {port(kApex, 80, 14001)}));
    mesh.permissive();
    const translate::ProxyClass own{kServer, {{port(kApex, 80, 14001)}, {port(kV1, 80, 14001)}}};
    const auto routes = mesh.routes(own, "rds-inbound.14001");
    REQUIRE(routes.virtual_hosts_size() == 3);
    CHECK(routes.virtual_hosts(0).routes(0).route().cluster() == "server/apex|14001|local");
  }

  TEST_CASE("two service ports on one target port merge their domains") {
    auto mesh = worked_example();
    const translate::ProxyClass own{
        kServer, {{port(kServerService, 80, 14001)}, {port(kServerService, 8080, 14001)}}};
    const auto routes = mesh.routes(own, "rds-inbound.14001");
    REQUIRE(routes.virtual_hosts_size() == 2);
    CHECK(routes.virtual_hosts(0).domains_size() == 15);
    CHECK(routes.virtual_hosts(0).domains(2) == "server:8080");
  }
}
