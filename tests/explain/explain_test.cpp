// The explanation of a call names the object that decides, or the one that is missing.
// tests/security/oracle_test.py compares the same answers with real Envoys.
#include "explain/explain.hpp"

#include "explained_shop.hpp"
#include "osm/values/egress.hpp"
#include "osm/values/retry.hpp"
#include "osm/values/upstream_traffic_setting.hpp"

using namespace osm;
using namespace osm::explain;
using namespace osm::explain::values;

TEST_SUITE("explain") {
  TEST_CASE("a Service whose address belongs to another namespace is said to have none") {
    Shop shop;
    Service older = service("older", "10.1.0.1");
    older.name.ns = "other";
    shop.spec.put(older);
    const Service newer = *shop.spec.get_service(service_name("api"));
    Service made = newer;
    made.created.order = 7;
    shop.spec.put(made);
    const auto told = shop.call("shop/web", "shop/api");
    CHECK(told.verdict() == CallVerdict::kDenied);
    CHECK(begins(decision(told), "destination denies Service shop/api: it has no address"));
  }

  TEST_CASE("an allowed request names the TrafficTarget, its rule and the match") {
    Shop shop;
    const auto told = shop.call("shop/web", "shop/api");
    CHECK(told.verdict() == CallVerdict::kAllowed);
    CHECK(decision(told) ==
          "server allows TrafficTarget shop/web-reads: it allows shop/web GET /read (match read of "
          "HTTPRouteGroup shop/books)");
    CHECK(told.ways.front().steps.back().field == "spec.rules[0]");
    CHECK(told.ways.front().account == identity("api"));
    CHECK(told.ways.front().port == port(8080));
    CHECK(told.ways.front().addresses == std::vector<std::string>{"10.0.0.1"});
  }

  TEST_CASE("a rule is named as the author counts, also right after an edit") {
    Shop shop;
    const auto named = [&](const char* path) {
      return shop.call("shop/web", "shop/api", 80, path).ways.front().steps.back().field;
    };
    smi::TrafficTarget reads = target("web-reads", "api", {"web"},
                                      {http_rule("books", {"read"}), http_rule("books", {"list"})});
    shop.spec.put(reads);
    CHECK(named("/read") == "spec.rules[0]");
    CHECK(named("/list") == "spec.rules[1]");
    for (smi::TrafficTargetRule& rule : reads.rules) ++rule.place;  // one before them was left out
    shop.spec.put(reads);
    CHECK(named("/read") == "spec.rules[1]");
    CHECK(named("/list") == "spec.rules[2]");
    CHECK(shop.mesh->changes.empty());
  }

  TEST_CASE("a refused request names the nearest match and the part that differs") {
    Shop shop;
    const auto method = shop.call("shop/web", "shop/api", 80, "/read", "POST");
    CHECK(method.verdict() == CallVerdict::kDenied);
    CHECK(status(method) == 404);
    CHECK(has(decision(method),
              "server denies TrafficTarget shop/web-reads: it allows shop/web GET "
              "/read (match read of HTTPRouteGroup shop/books), but the method "
              "POST is not GET"));
    const auto others = shop.call("shop/web", "shop/api", 80, "/list");
    CHECK(status(others) == 403);  // a route that another source has
    CHECK(has(decision(others), "the path /list does not match /read"));
  }

  TEST_CASE("a missing TrafficTarget is named with the accounts it would need") {
    Shop shop;
    const auto told = shop.call("shop/web", "shop/db");
    CHECK(told.verdict() == CallVerdict::kDenied);
    CHECK(begins(decision(told),
                 "client denies -: no TrafficTarget names shop/web as a source and "
                 "shop/db as its destination: add one to namespace shop"));
    CHECK(has(decision(told), "nearest: TrafficTarget shop/web-reads lets shop/web call shop/api"));
  }

  TEST_CASE("a TrafficTarget without a TCPRoute is the reason of a closed TCP connection") {
    Shop shop;
    const auto told = shop.call("shop/web", "shop/api", 3306);
    CHECK(told.verdict() == CallVerdict::kDenied);
    CHECK(told.ways.front().answer.text() == "the connection is closed");
    CHECK(begins(decision(told), "server denies TrafficTarget shop/web-reads: it has no TCPRoute"));
    shop.spec.put(target("web-reads", "api", {"web"}, {tcp_rule("sql")}));
    CHECK(shop.call("shop/web", "shop/api", 3306).verdict() == CallVerdict::kAllowed);
  }

  TEST_CASE("TCPRoutes bound HTTP grants to their ports") {
    Shop shop;
    shop.spec.put(
        target("web-reads", "api", {"web"}, {http_rule("books", {"read"}), tcp_rule("sql")}));
    const auto told = shop.call("shop/web", "shop/api");
    CHECK(told.verdict() == CallVerdict::kDenied);
    CHECK(has(decision(told),
              "its TCPRoutes bound it to port 3306 of the workload, and this is "
              "port 8080"));
  }

  TEST_CASE("a target whose TCPRoute is missing says so") {
    Shop shop;
    shop.spec.put(target("to-db", "db", {"web"}, {http_rule("books", {"read"}), tcp_rule("gone")}));
    CHECK(begins(decision(shop.call("shop/web", "shop/db")),
                 "client denies TrafficTarget shop/to-db: it names shop/web and shop/db but grants "
                 "nothing"));
  }

  TEST_CASE("permissive mode is named as the reason") {
    Shop shop;
    shop.configure(true, false);
    CHECK(has(decision(shop.call("shop/web", "shop/db", 80, "/any", "DELETE")),
              "the mesh is in permissive mode"));
  }

  TEST_CASE("a split names its object and has a way for each backend") {
    Shop shop;
    shop.spec.put(service("all", "10.1.0.3"));
    shop.vm.set_endpoints(service_name("all"), {served_at("10.0.0.1", "api")});
    shop.spec.put(split("halves", "all", {{"api", 1}, {"db", 1}, {"gone", 1}}));
    const auto told = shop.call("shop/web", "shop/all");
    CHECK(told.verdict() == CallVerdict::kDepends);
    REQUIRE(told.ways.size() == 2);
    CHECK(told.ways[0].answer.allowed);
    CHECK(told.ways[0].service == service_name("api"));
    CHECK(told.ways[1].answer.status == 503);
    CHECK(told.ways[1].steps.back().stage == "endpoints");
    CHECK(told.steps.back().object.str() == "TrafficSplit shop/halves");
  }

  TEST_CASE("a split and the objects of its Services are named as they are in force") {
    Shop shop;
    MeshConfig config;
    config.proxy.retries = true;
    shop.spec.set_mesh_config(config);
    shop.spec.put(service("all", "10.1.0.3"));
    shop.vm.set_endpoints(service_name("all"), {served_at("10.0.0.1", "api")});
    shop.spec.put(split("b-all", "all", {{"api", 1}}));
    shop.spec.put(split("a-all", "all", {{"api", 3}}));  // the first by name
    const auto retries = [&](const char* name, const char* service) {
      shop.spec.put(Policy({kinds::kRetry, kNs, name},
                           Retry{identity("web"), {service_name(service)}, {.retry_on = "5xx"}}));
    };
    retries("r2", "all");
    retries("r1", "all");
    retries("r0", "api");  // of calls to the backend itself
    const auto limited = [&](const char* name, const char* service, bool connections) {
      UpstreamLimits limits;
      limits.http.emplace().rate = {.amount = 5, .unit = std::chrono::seconds(1)};
      if (connections) limits.tcp = LocalRateLimit{.amount = 9, .unit = std::chrono::seconds(1)};
      shop.spec.put(Policy({kinds::kUpstreamTrafficSetting, kNs, name},
                           UpstreamTrafficSetting{service_name(service), limits}));
    };
    limited("s2", "all", false);
    limited("s1", "all", false);
    const auto objects = [](const std::vector<ExplainedStep>& steps, const char* stage) {
      std::set<std::string> out;
      for (const ExplainedStep& step : steps)
        if (step.stage == stage) out.insert(step.object.str() + ' ' + step.field);
      return out;
    };
    using Names = std::set<std::string>;
    auto told = shop.call("shop/web", "shop/all");
    CHECK(objects(told.steps, "split") == Names{"TrafficSplit shop/a-all spec.backends"});
    CHECK(objects(told.steps, "limits") ==
          Names{"Retry shop/r1 spec.retryPolicy", "UpstreamTrafficSetting shop/s1 spec"});
    REQUIRE(told.ways.size() == 1);
    CHECK(objects(told.ways[0].steps, "limits").empty());
    limited("s3", "api", false);  // its requests name the backend, and these name the apex
    CHECK(objects(shop.call("shop/web", "shop/all").ways[0].steps, "limits").empty());
    limited("s3", "api", true);
    CHECK(objects(shop.call("shop/web", "shop/all").ways[0].steps, "limits") ==
          Names{"UpstreamTrafficSetting shop/s3 spec"});
    CHECK(objects(shop.call("shop/web", "shop/api").steps, "limits") ==
          Names{"Retry shop/r0 spec.retryPolicy", "UpstreamTrafficSetting shop/s3 spec"});
    shop.spec.remove({kinds::kTrafficSplit, kNs, "a-all"});
    CHECK(objects(shop.call("shop/web", "shop/all").steps, "split") ==
          Names{"TrafficSplit shop/b-all spec.backends"});
  }

  TEST_CASE("behind a split and a misspelt account the missing TrafficTarget is named") {
    Shop shop;
    shop.spec.put(service("all", "10.1.0.3"));
    shop.vm.set_endpoints(service_name("all"), {served_at("10.0.0.1", "api")});
    shop.spec.put(split("halves", "all", {{"api", 1}, {"db", 1}}));
    shop.spec.put(target("web-sees-db", "db", {"weeb"}, {http_rule("books", {"read"})}));
    const auto told = shop.call("shop/web", "shop/all");
    REQUIRE(told.ways.size() == 2);
    const ExplainedStep& missing = told.ways[1].steps.back();
    CHECK(told.ways[1].answer.status == 503);
    CHECK(missing.stage == "endpoints");
    CHECK(begins(missing.text,
                 "no TrafficTarget names shop/web as a source and shop/db as its destination: add "
                 "one to namespace shop; nearest: TrafficTarget shop/web-sees-db lets shop/weeb "
                 "call shop/db"));

    // One of two accounts behind a Service may be called.
    shop.vm.set_endpoints(service_name("api"),
                          {served_at("10.0.0.1", "api"), served_at("10.0.0.2", "db")});
    const auto partly = shop.call("shop/web", "shop/api");
    CHECK(partly.verdict() == CallVerdict::kAllowed);
    CHECK(partly.steps.back().effect == StepEffect::kNotes);
    CHECK(has(partly.steps.back().text, "TrafficTarget shop/web-sees-db lets shop/weeb"));
    shop.vm.set_endpoints(service_name("api"), {served_at("10.0.0.1", "api", 8080, "http", false),
                                                served_at("10.0.0.2", "db")});
    const auto unhealthy = decision(shop.call("shop/web", "shop/api"));
    CHECK(has(unhealthy, "no TrafficTarget names shop/web as a source and shop/db"));
    CHECK(has(unhealthy, "workloads of the accounts that it may call are not healthy"));
  }

  TEST_CASE("a call that is permitted waits until the client is told") {
    Shop shop;
    shop.spec.put(target("web-db", "db", {"web"}, {http_rule("books", {"read"})}));
    CHECK(shop.call("shop/web", "shop/db").verdict() == CallVerdict::kAllowed);
    model::MeshSnapshot mesh = *shop.mesh;
    auto untold = std::make_shared<model::IdentityPolicy>(*mesh.policies.find(identity("web")));
    untold->upstreams = std::make_shared<const std::vector<model::Upstream>>();
    mesh.policies = mesh.policies.with(std::move(untold));
    shop.mesh = std::make_shared<const model::MeshSnapshot>(mesh);
    CHECK(begins(decision(shop.call("shop/web", "shop/db")),
                 "client denies TrafficTarget shop/web-db: it permits the call, and clients are "
                 "told of it when the proxies of its servers have acknowledged it"));
    mesh.config.proxy.permissive = mesh.smi_upstreams = true;
    shop.mesh = std::make_shared<const model::MeshSnapshot>(mesh);
    CHECK(has(decision(shop.call("shop/web", "shop/db")), ": the mesh becomes permissive, and"));
  }

  TEST_CASE("an instance is called at its own port, whatever the Service's target port is") {
    Shop shop;
    shop.vm.set_endpoints(service_name("api"), {served_at("10.0.0.1", "api", 21007)});
    const auto told = shop.call("shop/web", "shop/api");
    CHECK(told.verdict() == CallVerdict::kAllowed);
    CHECK(told.ways.front().port == port(21007));
    CHECK(told.ways.front().text() == "policy lets the call reach 10.0.0.1:21007");
  }

  TEST_CASE("a way says what policy allows, and whose proxies are not connected") {
    ExplainedWay way;
    way.port = port(80);
    CHECK(way.text() == "the connection is closed");
    way.answer.allowed = true;
    CHECK(way.text() == "policy lets the call leave the mesh");
    way.addresses = {"pay.example.com"};
    CHECK(way.text() == "policy lets the call leave the mesh to pay.example.com:80");
    way.account = identity("api");
    way.addresses = {"10.0.0.1"};
    way.not_connected = way.addresses;
    CHECK(way.text() == "policy lets the call reach 10.0.0.1:80, whose proxy is not connected");
    way.addresses = {"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"};
    CHECK(
        way.text() ==
        "policy lets the call reach 10.0.0.1:80, 10.0.0.2:80, 10.0.0.3:80 and 2 more; the proxies "
        "of 10.0.0.1 are not connected");
    way.not_connected = way.addresses;
    CHECK(has(way.text(), "and 2 more, whose proxies are not connected"));
    way.addresses.clear();
    CHECK(way.text() == "policy lets the call reach workloads of shop/api at port 80");
  }

  TEST_CASE("a split without weights answers 503, and its object is the reason") {
    Shop shop;
    shop.spec.put(split("none", "api", {{"db", 0}}));
    const auto told = shop.call("shop/web", "shop/api");
    CHECK(status(told) == 503);
    CHECK(begins(decision(told), "split denies TrafficSplit shop/none"));
  }

  TEST_CASE("a Service without workloads answers 503") {
    Shop shop;
    shop.vm.set_endpoints(service_name("api"), {});
    const auto told = shop.call("shop/web", "shop/api");
    CHECK(status(told) == 503);
    CHECK(begins(decision(told), "endpoints denies Service shop/api"));
  }

  TEST_CASE("a Denylist is named, for the source and for the workloads") {
    Shop shop;
    Denylist list{.reason = "stolen", .accounts = {identity("web")}, .proxies = {}};
    shop.spec.put(Policy({kinds::kDenylist, "osm-system", "lost"}, list));
    CHECK(begins(decision(shop.call("shop/web", "shop/api")),
                 "source denies Denylist osm-system/lost"));
    list.accounts = {identity("api")};
    shop.spec.put(Policy({kinds::kDenylist, "osm-system", "lost"}, list));
    CHECK(begins(decision(shop.call("shop/web", "shop/api")),
                 "endpoints denies Denylist osm-system/lost"));
    CHECK(begins(decision(shop.call("shop/web", "account:shop/api", 8080)),
                 "destination denies Denylist osm-system/lost"));
    CHECK(begins(decision(shop.call("shop/db", "shop/api")),  // no TrafficTarget names it either
                 "client denies Denylist osm-system/lost"));
  }

  TEST_CASE("a host that is no name of the dialled Service answers 404") {
    Shop shop;
    for (const char* host : {"books.example", "db.shop", "10.1.0.1", "api.shop:81"}) {
      const auto told = shop.call("shop/web", "shop/api", 80, "/read", "GET", host);
      CHECK(status(told) == 404);
      CHECK(begins(decision(told), "host denies Service shop/api: the host "));
    }
    for (const char* host : {"api", "API.shop:80", "api.shop.svc", "api.shop.svc.cluster.local"})
      CHECK(shop.call("shop/web", "shop/api", 80, "/read", "GET", host).verdict() ==
            CallVerdict::kAllowed);
  }

  TEST_CASE("a full host name ends with the domain of the cluster's DNS") {
    Shop shop;
    MeshConfig config;
    config.proxy.cluster_domain = "example.internal";
    shop.spec.set_mesh_config(config);
    for (const char* host : {"api.shop.svc", "api.shop.svc.example.internal:80"})
      CHECK(shop.call("shop/web", "shop/api", 80, "/read", "GET", host).verdict() ==
            CallVerdict::kAllowed);
    CHECK(shop.call("shop/web", "api.shop.svc.example.internal").verdict() ==
          CallVerdict::kAllowed);
    for (const char* host : {"api.shop.svc.cluster.local", "api.shop.svc.cluster",
                             "api.shop.svc.example", "api.shop.svc.other.internal"})
      CHECK(status(shop.call("shop/web", "shop/api", 80, "/read", "GET", host)) == 404);
  }

  TEST_CASE("sources and destinations are found by their names") {
    Shop shop;
    for (const char* source : {"shop/web", "account:shop/web", "shop/web-1", "workload:shop/web-1"})
      for (const char* destination :
           {"shop/api", "service:shop/api", "api", "api.shop.svc.cluster.local", "host:api.shop"})
        CHECK(shop.call(source, destination).verdict() == CallVerdict::kAllowed);
    CHECK(shop.call("shop/web", "10.1.0.1", 80, "/read", "GET", "api.shop").verdict() ==
          CallVerdict::kAllowed);
    CHECK(shop.call("shop/web", "account:shop/api", 8080).verdict() == CallVerdict::kAllowed);
    CHECK(has(decision(shop.call("shop/web", "shop/apj")), "Service shop/apj is not in the mesh"));
    CHECK(has(decision(shop.call("shop/web", "far/api")), "namespace far is not in the mesh"));
    CHECK(has(decision(shop.call("shop/web", "shop/api", 81)), "it has no port 81"));
    CHECK(has(decision(shop.call("shop/web", "account:shop/api", 81)), "no Service leads to"));
  }

  TEST_CASE("a question that cannot be answered is an error with a remedy") {
    Shop shop;
    const auto fault = [&](CallQuestion question) {
      const auto answer = shop.ask(std::move(question));
      REQUIRE_FALSE(answer.ok());
      return answer.error();
    };
    CHECK(fault({.source = "shop/nobody", .destination = "shop/api"}).code == ErrorCode::kNotFound);
    for (const char* source : {"web", "shop/", "/web", "a/b/c", "workload:shop", ""})
      CHECK(fault({.source = source, .destination = "shop/api"}).code ==
            ErrorCode::kInvalidArgument);
    for (const char* destination : {"a/b/c", "shop/", "host:shop/api", "service:api", ""})
      CHECK(fault({.source = "shop/web", .destination = destination, .port = port(80)}).code ==
            ErrorCode::kInvalidArgument);
    CHECK(has(fault({.source = "shop/web", .destination = "shop/api"}).message,
              "has the ports 80 (http), 3306 (tcp); say which one (--port)"));
    CHECK(has(fault({.source = "shop/web", .destination = "shop/api", .path = "read"}).message,
              "does not begin with '/'"));
  }

  TEST_CASE("outside of the mesh, egress decides") {
    Shop shop;
    CHECK(begins(decision(shop.call("shop/web", "203.0.113.7", 443)), "egress denies -: "));
    shop.configure(false, true);
    CHECK(shop.call("shop/web", "pay.example.com", 443).verdict() == CallVerdict::kAllowed);
    CHECK(has(decision(shop.call("shop/web", "10.0.0.1", 8080)),
              "is the address of workload shop/api-1"));
  }

  TEST_CASE("an Egress is named with the host, the address or the request that it does not open") {
    Shop shop;
    Egress pay;
    pay.sources = {identity("web")};
    pay.hosts = std::vector<EgressHost>{{"pay.example.com", std::nullopt},
                                        {"*.books.example", std::nullopt}};
    pay.ports = {{port(80), EgressProtocol::kHttp}, {port(443), EgressProtocol::kHttps}};
    pay.route_groups = std::vector<std::string>{"books"};
    shop.spec.put(Policy({kinds::kEgress, kNs, "pay"}, pay));
    Egress store;
    store.sources = {identity("web")};
    store.networks = std::vector<Ipv4Network>{{0xC0000200, 24}};  // 192.0.2.0
    store.ports = {{port(5432), EgressProtocol::kTcp}};
    shop.spec.put(Policy({kinds::kEgress, kNs, "store"}, store));
    Egress elsewhere;
    elsewhere.sources = {identity("web")};
    elsewhere.hosts = std::vector<EgressHost>{{"far.example", port(9000)}};
    elsewhere.ports = {{port(9000), EgressProtocol::kTcp}, {port(9002), EgressProtocol::kHttp}};
    shop.spec.put(Policy({kinds::kEgress, kNs, "elsewhere"}, elsewhere));
    const auto told = [&](const char* host, int at, const char* path = "/read") {
      return shop.call("shop/web", host, at, path);
    };
    CHECK(begins(decision(told("pay.example.com", 80)), "egress allows Egress shop/pay"));
    CHECK(begins(decision(told("a.b.books.example", 80)), "egress allows Egress shop/pay"));
    CHECK(begins(decision(told("pay.example.com", 443)), "egress allows Egress shop/pay"));
    CHECK(begins(decision(told("192.0.2.7", 5432)), "egress allows Egress shop/store"));
    CHECK(status(told("pay.example.com", 80, "/other")) == 404);
    CHECK(has(decision(told("pay.example.com", 80, "/other")), "/other does not match /read"));
    CHECK(status(told("books.example", 80)) == 404);
    CHECK(has(decision(told("books.example", 80)), "not for the host books.example"));
    CHECK(has(decision(told("books.example", 443)), "not for the name books.example"));
    CHECK(begins(decision(told("198.51.100.7", 5432)),
                 "egress denies Egress shop/store: it opens port 5432 of other addresses only"));
    CHECK(status(told("far.example", 9002)) == 0);  // its one host has another port: no chain
    CHECK(begins(decision(told("pay.example.com", 8080)), "egress denies -: "));
    CHECK(begins(decision(shop.call("shop/batch", "pay.example.com", 80)), "egress denies -: "));
  }

  TEST_CASE("an IngressBackend is named for a gateway, with the source that is missing") {
    Shop shop;
    shop.admit_gateways();
    IngressBackend named;
    named.backends = {{.service = service_name("db"),
                       .target_port = port(8080),
                       .tls = IngressTls{true, {"*.example.com"}}}};
    named.principals = {"gateway.example"};
    shop.spec.put(Policy({kinds::kIngressBackend, kNs, "named"}, named));
    const auto told = shop.call("gateway:198.51.100.7", "shop/api", 8080);
    CHECK(told.source.empty());
    CHECK(begins(decision(told), "ingress allows IngressBackend shop/open"));
    CHECK(told.ways.front().addresses == std::vector<std::string>{"10.0.0.1"});
    CHECK(shop.call("gateway:198.51.100.7", "10.0.0.1", 8080).verdict() == CallVerdict::kAllowed);
    const auto stranger = shop.call("gateway:203.0.113.7", "shop/api", 8080);
    CHECK(status(stranger) == 403);
    CHECK(begins(decision(stranger), "ingress denies IngressBackend shop/open: none of its IPR"));
    Service normalizing = service("api", "10.1.0.1");
    normalizing.http_paths = HttpPaths::kNormalize;
    shop.spec.put(normalizing);  // paths are looked at before the address
    const auto escaped = shop.call("gateway:203.0.113.7", "shop/api", 8080, "/a%2Fb");
    CHECK(status(escaped) == 400);
    CHECK(begins(decision(escaped), "ingress denies Service shop/api: the Service normalizes"));
    const auto upgraded = shop.ask({.source = "gateway:198.51.100.7",
                                    .destination = "shop/api",
                                    .port = port(8080),
                                    .headers = {{"connection", "upgrade"}, {"upgrade", "x"}}});
    REQUIRE(upgraded.ok());
    CHECK(begins(decision(*upgraded), "ingress denies -: the request asks for an upgrade to x"));
    CHECK(has(decision(shop.call("gateway:198.51.100.7", "shop/api", 80)),
              "80 is a port of Service shop/api, and gateways dial its target port 8080"));
    const auto tls = [&](const std::string& certificate, const std::string& host) {
      auto answer = shop.ask({.source = "gateway:203.0.113.7",
                              .destination = "shop/db",
                              .port = port(8080),
                              .host = host,
                              .certificate = certificate});
      REQUIRE(answer.ok());
      return *std::move(answer);
    };
    CHECK(tls("gateway.example", "a.example.com").verdict() == CallVerdict::kAllowed);
    CHECK(has(decision(tls("other.example", "a.example.com")), "other.example is none of them"));
    CHECK(has(decision(tls("", "a.example.com")), "the caller has none"));
    CHECK(has(decision(tls("gateway.example", "example.com")), "the server name example.com"));
  }

  TEST_CASE("a headless Service's workloads are dialled by address, at either port") {
    Shop shop;
    shop.spec.put(service("peer", "", {service_port("http", 80, 8080)}));
    shop.vm.set_endpoints(service_name("peer"),
                          {served_at("10.0.0.5", "api"), served_at("10.0.0.6", "db")});
    for (const int at : {80, 8080}) {
      CHECK(shop.call("shop/web", "10.0.0.5", at).verdict() == CallVerdict::kAllowed);
      CHECK(shop.call("shop/web", "10.0.0.6", at).verdict() == CallVerdict::kDenied);
    }
    CHECK(shop.call("shop/web", "shop/peer").verdict() == CallVerdict::kDepends);
  }

  TEST_CASE("of two Egresses of one account the one that allows the request is named") {
    Shop shop;
    shop.configure(false, false);
    smi::HttpRouteGroup a = routes("g1", {"a"}), b = routes("g2", {"b"});
    shop.spec.put(a);
    shop.spec.put(b);
    Egress first;
    first.sources = {identity("web")};
    first.ports = {{port(80), EgressProtocol::kHttp}};
    first.hosts = {{{"pay.example.com", {}}, {"other.example.com", {}}}};
    first.route_groups = {{"g1"}};
    Egress second = first;
    second.hosts = {{{"pay.example.com", {}}}};
    second.route_groups = {{"g2"}};
    shop.spec.put(Policy({kinds::kEgress, kNs, "first"}, first));
    shop.spec.put(Policy({kinds::kEgress, kNs, "second"}, second));
    CHECK(begins(decision(shop.call("shop/web", "pay.example.com.", 80, "/b")),
                 "egress allows Egress shop/second"));
    CHECK(begins(decision(shop.call("shop/web", "Pay.example.com:80", 80, "/a")),
                 "egress allows Egress shop/first"));
    smi::HttpRouteGroup far = routes("g0", {"c"});
    far.matches.front().methods = {"PUT"};
    shop.spec.put(far);
    Egress third = second;
    third.route_groups = {{"g0"}};
    shop.spec.put(Policy({kinds::kEgress, kNs, "third"}, third));
    const auto refused = shop.call("shop/web", "pay.example.com", 80, "/c", "POST");
    CHECK(
        begins(decision(refused), "egress denies Egress shop/third"));  // it lacks the method only
    CHECK(has(decision(refused), "matches this one: the method POST is not PUT"));
  }

  TEST_CASE("retries and limits are notes with their objects") {
    Shop shop;
    MeshConfig config;
    config.proxy.retries = true;
    shop.spec.set_mesh_config(config);
    shop.spec.put(Policy({kinds::kRetry, kNs, "again"},
                         Retry{identity("web"), {service_name("api")}, {.retry_on = "5xx"}}));
    UpstreamLimits limits;
    limits.http.emplace().rate = {.amount = 5, .unit = std::chrono::seconds(1)};
    shop.spec.put(Policy({kinds::kUpstreamTrafficSetting, kNs, "slow"},
                         UpstreamTrafficSetting{service_name("api"), limits}));
    std::set<std::string> objects;
    for (const ExplainedStep& step : shop.call("shop/web", "shop/api").steps)
      if (step.effect == StepEffect::kNotes) objects.insert(step.object.str());
    CHECK(objects == std::set<std::string>{"Retry shop/again", "UpstreamTrafficSetting shop/slow"});
  }

  TEST_CASE("servers that may refuse a call are notes with their addresses") {
    Shop shop;
    MeshConfig config;
    config.proxy.external_authorization = {.enabled = true, .address = "authorizer.example"};
    shop.spec.set_mesh_config(config);
    UpstreamLimits limits;
    limits.global_http.emplace().server = {"limiter.example", port(8081), "mesh"};
    limits.descriptors.emplace_back().emplace_back().kind = RateLimitEntry::Kind::kRemoteAddress;
    shop.spec.put(Policy({kinds::kUpstreamTrafficSetting, kNs, "counted"},
                         UpstreamTrafficSetting{service_name("api"), limits}));
    std::string notes;
    for (const ExplainedStep& step : shop.call("shop/web", "shop/api").steps)
      if (step.effect == StepEffect::kNotes) notes += step.text + '\n';
    CHECK(has(notes, "the authorizer at authorizer.example"));
    CHECK(has(notes, "the rate-limit server limiter.example:8081 may refuse requests with 429"));
  }

  TEST_CASE("objects that are left out of the namespaces concerned are quoted") {
    Shop shop;
    const auto problem = [](const char* ns) {
      return Problem{
          .object = {kinds::kTrafficTarget, ns, "bad"}, .path = {}, .field = {}, .cause = "broken"};
    };
    shop.left_out = {problem(kNs), problem("elsewhere"), problem("far")};
    CHECK(shop.call("shop/web", "shop/db").problems == std::vector<Problem>{problem(kNs)});
    CHECK(shop.call("shop/web", "api.far").problems ==
          std::vector<Problem>{problem(kNs), problem("far")});
  }
}
