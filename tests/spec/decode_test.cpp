// Services and SMI objects are decoded, and each fault is reported with field, line and remedy.
#include "spec/decode.hpp"

#include <doctest/doctest.h>

#include <boost/json/value.hpp>

#include "spec/decode_cases.hpp"

using namespace osm;
using namespace osm::spec;

TEST_SUITE("spec::decode") {
  TEST_CASE("a Service is read with its selector, ports by number, and protocols") {
    const Service service = good(decode_service(object_of("v1", "Service", R"(clusterIP: 10.96.0.7
selector: {app: books, tier: web}
ports:
- {name: metrics, port: 9090, targetPort: metrics, appProtocol: TCP}
- {name: http-api, port: 80, targetPort: 14001, nodePort: 30000}
- {name: grpc-api, port: 81})")));
    CHECK(service.name == ServiceName{"shop", "it"});
    CHECK(service.cluster_ip == "10.96.0.7");
    CHECK_FALSE(service.headless);
    CHECK(service.selector ==
          std::map<std::string, std::string>{{"app", "books"}, {"tier", "web"}});
    REQUIRE(service.ports.size() == 3);
    CHECK(service.ports[0] == ServicePort{"http-api", Port{80}, Port{14001}, Protocol::kHttp});
    CHECK(service.ports[1] == ServicePort{"grpc-api", Port{81}, Port{81}, Protocol::kGrpc});
    CHECK(service.ports[2] ==
          ServicePort{"metrics", Port{9090}, std::string("metrics"), Protocol::kTcp});
    CHECK(good(decode_service(object_of("v1", "Service", "clusterIP: None"))).headless);
  }

  TEST_CASE("an annotation says how paths are read, and the strictest way is the default") {
    const auto paths_of = [](const std::string& text) {
      Object object = object_of("v1", "Service", "clusterIP: None");
      if (!text.empty()) object.annotations["openservicemesh.io/http-paths"] = text;
      return decode_service(object);
    };
    CHECK(good(paths_of("")).http_paths == HttpPaths::kStrict);
    CHECK(good(paths_of("strict")).http_paths == HttpPaths::kStrict);
    CHECK(good(paths_of("normalize")).http_paths == HttpPaths::kNormalize);
    CHECK(good(paths_of("unchecked")).http_paths == HttpPaths::kUnchecked);
    const auto mistyped = paths_of("Unchecked");
    REQUIRE(mistyped.value);
    CHECK(mistyped.value->http_paths == HttpPaths::kStrict);
    REQUIRE(mistyped.problems.size() == 1);
    CHECK(mistyped.problems[0].field == "metadata.annotations[openservicemesh.io/http-paths]");
  }

  TEST_CASE(
      "an annotation lets all header names pass, and the default lets none with underscores") {
    const auto names_of = [](const std::string& text) {
      Object object = object_of("v1", "Service", "clusterIP: None");
      if (!text.empty()) object.annotations["openservicemesh.io/http-header-names"] = text;
      return decode_service(object);
    };
    CHECK(good(names_of("")).header_names == HeaderNames::kStrict);
    CHECK(good(names_of("strict")).header_names == HeaderNames::kStrict);
    CHECK(good(names_of("unchecked")).header_names == HeaderNames::kUnchecked);
    const auto mistyped = names_of("any");
    REQUIRE(mistyped.value);
    CHECK(mistyped.value->header_names == HeaderNames::kStrict);
    REQUIRE(mistyped.problems.size() == 1);
    CHECK(mistyped.problems[0].field ==
          "metadata.annotations[openservicemesh.io/http-header-names]");
  }

  TEST_CASE("a dual-stack Service is dialled by its IPv4 address, whichever is first") {
    for (const char* spec : {"clusterIP: fd00::7\nclusterIPs: ['fd00::7', 10.96.0.7]",
                             "clusterIP: 10.96.0.7\nclusterIPs: [10.96.0.7, 'fd00::7']"}) {
      CAPTURE(spec);
      CHECK(good(decode_service(object_of("v1", "Service", spec))).cluster_ip == "10.96.0.7");
    }
    CHECK(good(decode_service(object_of("v1", "Service", "clusterIP: None\nclusterIPs: [None]")))
              .headless);
    CHECK_FALSE(
        decode_service(object_of("v1", "Service", "clusterIP: fd00::7\nclusterIPs: ['fd00::7']"))
            .value);
  }

  TEST_CASE("a bad Service says which field, which line and what to do") {
    check_wrong<Service>(
        "v1", "Service", decode_service,
        {
            {"ports: []", kField, "spec.clusterIP", 6,
             "allocates addresses only with --service-cidr"},
            {"clusterIP: ''", kField, "spec.clusterIP", 7, "set an IPv4 address"},
            {"clusterIP: fd00::1", kField, "spec.clusterIP", 7, "IPv6"},
            {"clusterIP: 0.0.0.0", kField, "spec.clusterIP", 7, "set an IPv4 address"},
            {"clusterIP: 127.0.0.1", kField, "spec.clusterIP", 7, "that one host has"},
            {"clusterIP: 224.0.0.1", kField, "spec.clusterIP", 7, "that one host has"},
            {"clusterIP: 255.255.255.255", kField, "spec.clusterIP", 7, "that one host has"},
            {"clusterIP: fd00::7\nclusterIPs: ['fd00::7', 0.0.0.0]", kField, "spec.clusterIP", 7,
             "that one host has"},
            {"clusterIP: \"10.96.0.7\\0\"", kField, "spec.clusterIP", 7, ""},
            {"clusterIP: 7", kField, "spec.clusterIP", 7, "must be a string"},
            {"type: ExternalName\nexternalName: a.b", kField, "spec.type", 7, "ExternalName"},
            {"type: Other\nclusterIP: None", kField, "spec.type", 7, "LoadBalancer"},
            {"clusterIP: None\nselector: [a]", kField, "spec.selector", 8, "must be a map"},
            {"clusterIP: None\nselector: {app: 1}", kField, "spec.selector.app", 8, "a string"},
            {"clusterIP: None\nports: {a: 1}", kField, "spec.ports", 8, "must be a list"},
            {"clusterIP: None\nports: [7]", kField, "spec.ports[0]", 8, "must be a map"},
            {"clusterIP: None\nports: [{name: a}]", kField, "spec.ports[0].port", 8, "required"},
            {"clusterIP: None\nports:\n- port: 0", kField, "spec.ports[0].port", 9, "1 to 65535"},
            {"clusterIP: None\nports:\n- port: '80'", kField, "spec.ports[0].port", 9, "number"},
            {"clusterIP: None\nports:\n- port: 80\n  targetPort: 70000", kField,
             "spec.ports[0].targetPort", 10, "1 to 65535"},
            {"clusterIP: None\nports:\n- port: 80\n  targetPort: '8080'", kField,
             "spec.ports[0].targetPort", 10, "unquoted"},
            {"clusterIP: None\nports:\n- {name: a, port: 80}\n- {name: a, port: 81}", kField,
             "spec.ports[1].name", 10, "two ports have this name"},
            {"clusterIP: None\nports:\n- {name: a, port: 80}\n- {name: b, port: 80}", kField,
             "spec.ports[1].port", 10, "two ports have this number"},
            {"clusterIP: None\nports:\n- {name: a, port: 80}\n- {port: 81}", kField,
             "spec.ports[1].name", 10, "required with several ports"},
            {"clusterIP: None\nports:\n- {port: 80, protocol: ICMP}", kField,
             "spec.ports[0].protocol", 9, "TCP, UDP or SCTP"},
            {"clusterIP: None\nports:\n- {port: 80, protocol: UDP}", ErrorCode::kUnusedField,
             "spec.ports[0].protocol", 9, "left out", false},
            {"clusterIP: None\nselectors: {app: a}", ErrorCode::kUnusedField, "spec.selectors", 8,
             "no such field", false},
            {"clusterIP: None\nports:\n- {port: 80, target: 9}", ErrorCode::kUnusedField,
             "spec.ports[0].target", 9, "no such field", false},
            {"clusterIP: None\nports:\n- {port: 80, appProtocol: redis}", kField,
             "spec.ports[0].appProtocol", 9, "tcp-server-first", false},
            {"clusterIP: None\nports:\n- {name: http, port: 80, targetPort: 9}\n"
             "- {name: tcp-x, port: 81, targetPort: 9}",
             ErrorCode::kConflictingProtocol, "spec.ports[1]", 10, "\"http\" already", false},
        });
  }

  TEST_CASE("HTTP and gRPC share a target port, by number and by name") {
    for (const char* target : {"8080", "web"}) {
      CAPTURE(target);
      const std::string to = std::string(", targetPort: ") + target + "}\n";
      const Service service =
          good(decode_service(object_of("v1", "Service",
                                        "clusterIP: None\nports:\n- {name: http, port: 80" + to +
                                            "- {name: grpc-api, port: 81" + to)));
      REQUIRE(service.ports.size() == 2);
      CHECK(service.ports[0].protocol == Protocol::kHttp);
      CHECK(service.ports[1].protocol == Protocol::kGrpc);
    }
  }

  TEST_CASE("a port the mesh cannot carry is left out and the others stay") {
    const auto decoded = decode_service(object_of("v1", "Service", R"(clusterIP: 10.0.0.1
ports:
- {name: dns, port: 53, protocol: UDP}
- {name: dns-tcp, port: 53, appProtocol: tcp}
- {name: odd, port: 90, appProtocol: kubernetes.io/odd})"));
    REQUIRE(decoded.value);
    REQUIRE(decoded.value->ports.size() == 1);
    CHECK(decoded.value->ports[0].name == "dns-tcp");
    CHECK(decoded.problems.size() == 2);
  }

  TEST_CASE("names are checked, and every problem of an object is reported at once") {
    const auto decoded =
        decode_service(object_of("v1", "Service", "clusterIP: x\ntype: 5", "No_Name", "Bad.Ns"));
    CHECK_FALSE(decoded.value);
    std::vector<std::string> fields;
    for (const auto& problem : decoded.problems) fields.push_back(problem.field);
    CHECK(fields == std::vector<std::string>{"metadata.namespace", "metadata.name", "spec.type",
                                             "spec.clusterIP"});
    CHECK_FALSE(decode_service_account(object_of("v1", "ServiceAccount", "{}", "a.b")).value);
    CHECK(good(decode_service_account(object_of("v1", "ServiceAccount", "{}"))) ==
          ServiceAccount{"shop", "it"});
  }

  TEST_CASE("an HTTPRouteGroup is read with headers in SMI's list form and as a map") {
    const auto group =
        good(decode_http_route_group(object_of(kSpecsApi, "HTTPRouteGroup", R"(matches:
- name: buy
  pathRegex: /buy/.*
  methods: [post, GET, GET]
  headers:
  - {User-Agent: a.*, X-Kind: b}
  - {Accept: c}
- name: any
  methods: ['*', GET]
  headers: {Host: d}
- name: all)")));
    REQUIRE(group.matches.size() == 3);
    CHECK(group.matches[0] ==
          smi::HttpMatch{"buy",
                         "/buy/.*",
                         {"GET", "POST"},
                         {{"accept", "c"}, {"user-agent", "a.*"}, {"x-kind", "b"}}});
    CHECK(group.matches[1] == smi::HttpMatch{"any", ".*", {}, {{"host", "d"}}});
    CHECK(group.matches[2] == smi::HttpMatch{"all", ".*", {}, {}});
  }

  TEST_CASE("a bad HTTPRouteGroup or match is left out, so that no typo widens a policy") {
    const std::string huge = "matches:\n- name: a\n  pathRegex: " + std::string(1025, 'x');
    std::vector<Wrong> rows{
        {"{}", kField, "spec.matches", 6, "required"},
        {"matches: all", kField, "spec.matches", 7, "must be a list"},
        {"matches: []\nmatch: []", kField, "spec.match", 8, "no such field"},
    };
    check_wrong<smi::HttpRouteGroup>(kSpecsApi, "HTTPRouteGroup", decode_http_route_group, rows);
    rows = {
        {"matches:\n- pathRegex: /", kField, "spec.matches[0].name", 8, "required"},
        {"matches:\n- name: a\n- name: a", kField, "spec.matches[1].name", 9, "two matches"},
        {"matches:\n- name: a\n  pathRegx: /x", kField, "spec.matches[0].pathRegx", 9,
         "no such field"},
        {"matches:\n- name: a\n  pathRegex: 7", kField, "spec.matches[0].pathRegex", 9,
         "must be a string"},
        {"matches:\n- name: a\n  pathRegex: '/(a'", ErrorCode::kInvalidRegex,
         "spec.matches[0].pathRegex", 9, "not an RE2 regex: missing )"},
        {"matches:\n- name: a\n  pathRegex: '(?!x)'", ErrorCode::kInvalidRegex,
         "spec.matches[0].pathRegex", 9, "not an RE2 regex"},
        {huge, ErrorCode::kInvalidRegex, "spec.matches[0].pathRegex", 9, "1024 bytes"},
        {"matches:\n- name: a\n  pathRegex: '(a{30}){30}(b{30}){30}'", ErrorCode::kInvalidRegex,
         "spec.matches[0].pathRegex", 9, "too costly"},
        {"matches:\n- name: a\n  methods: [GET, FETCH]", kField, "spec.matches[0].methods[1]", 9,
         "not an HTTP method"},
        {"matches:\n- name: a\n  headers:\n  - {a b: c}", kField, "spec.matches[0].headers[0].a b",
         10, "not an HTTP header name"},
        {"matches:\n- name: a\n  headers:\n  - {a: '['}", ErrorCode::kInvalidRegex,
         "spec.matches[0].headers[0].a", 10, "not an RE2 regex"},
        {"matches:\n- name: a\n  headers:\n  - {a: x}\n  - {A: y}", kField,
         "spec.matches[0].headers[1].A", 11, "given twice"},
    };
    for (Wrong& row : rows) row.left_out = false;  // only an element is
    check_wrong<smi::HttpRouteGroup>(kSpecsApi, "HTTPRouteGroup", decode_http_route_group, rows);
  }

  TEST_CASE("a TCPRoute without ports allows any, and its ports are ordered") {
    const auto decode = [](const char* spec) {
      return good(decode_tcp_route(object_of(kSpecsApi, "TCPRoute", spec)));
    };
    CHECK(decode("{}").ports.empty());
    CHECK(decode("matches: {}").ports.empty());
    CHECK(decode("matches: {ports: [3306, 22, 22]}").ports == std::vector{Port{22}, Port{3306}});
    check_wrong<smi::TcpRoute>(
        kSpecsApi, "TCPRoute", decode_tcp_route,
        {{"matches: {ports: x}", kField, "spec.matches.ports", 7, "must be a list"},
         {"matches: {port: [1]}", kField, "spec.matches.port", 7, "no such field"},
         {"matches: {ports: [1, x]}", kField, "spec.matches.ports[1]", 7, "1 to 65535", false},
         {"matches: {ports: [1, null]}", kField, "spec.matches.ports[1]", 7, "port number",
          false}});
  }

  TEST_CASE("a TrafficTarget is read with sources ordered and unique") {
    const auto target = good(decode_traffic_target(
        object_of(kTargetApi, "TrafficTarget",
                  R"(destination: {kind: ServiceAccount, name: books, namespace: shop}
sources:
- {kind: ServiceAccount, name: z, namespace: other}
- {kind: ServiceAccount, name: a, namespace: shop}
- {kind: ServiceAccount, name: z, namespace: other}
rules:
- {kind: HTTPRouteGroup, name: routes, matches: [buy, sell, buy]}
- {kind: TCPRoute, name: tcp})")));
    CHECK(target.destination == ServiceAccount{"shop", "books"});
    CHECK(target.sources == std::vector<ServiceAccount>{{"other", "z"}, {"shop", "a"}});
    REQUIRE(target.rules.size() == 2);
    CHECK(target.rules[0] ==
          smi::TrafficTargetRule{smi::RouteKind::kHttpRouteGroup, "routes", {"buy", "sell"}});
    CHECK(target.rules[1] == smi::TrafficTargetRule{smi::RouteKind::kTcpRoute, "tcp", {}, 1});
  }

  TEST_CASE("a bad TrafficTarget grants nothing") {
    const std::string destination =
        "destination: {kind: ServiceAccount, name: books, namespace: shop}\n";
    const std::string rules = "rules: [{kind: TCPRoute, name: t}]\n";
    const std::string sources = "sources: [{kind: ServiceAccount, name: a, namespace: b}]\n";
    std::vector<std::string> specs;
    const auto spec = [&](std::string text) {
      specs.push_back(std::move(text));
      return specs.back().c_str();
    };
    specs.reserve(32);
    check_wrong<smi::TrafficTarget>(
        kTargetApi, "TrafficTarget", decode_traffic_target,
        {
            {spec(sources + rules), kField, "spec.destination", 6, "required"},
            {spec(destination + rules), kField, "spec.sources", 6, "required"},
            {spec(destination + sources), kField, "spec.rules", 6, "required"},
            {spec(destination + sources + "rules: []"), kField, "spec.rules", 9, "at least one"},
            {spec("destination: {kind: ServiceAccount, name: b, namespace: other}\n" + sources +
                  rules),
             ErrorCode::kCrossNamespace, "spec.destination.namespace", 7, "own namespace, shop"},
            {spec("destination: {kind: ServiceAccount, name: b}\n" + sources + rules), kField,
             "spec.destination.namespace", 7, "required"},
            {spec("destination: {kind: Pod, name: b, namespace: shop}\n" + sources + rules), kField,
             "spec.destination.kind", 7, "ServiceAccount"},
            {spec(destination + rules + "sources:\n- {kind: ServiceAccount, name: a}"), kField,
             "spec.sources[0].namespace", 10, "required", false},
            {spec(destination + rules + "sources:\n- {kind: Group, name: a, namespace: b}"), kField,
             "spec.sources[0].kind", 10, "ServiceAccount", false},
            {spec(destination + rules +
                  "sources:\n- {kind: ServiceAccount, name: '*', namespace: b}"),
             kField, "spec.sources[0].name", 10, "DNS label", false},
            {spec(destination + sources + "rules:\n- {kind: UDPRoute, name: t}"), kField,
             "spec.rules[0].kind", 10, "HTTPRouteGroup or TCPRoute"},
            {spec(destination + sources + "rules:\n- {kind: HTTPRouteGroup, name: t}"),
             ErrorCode::kUnusedField, "spec.rules[0]", 10, "allows no HTTP request", false},
            {spec(destination + sources + "rules:\n- {kind: TCPRoute, name: t, matches: [x]}"),
             ErrorCode::kUnusedField, "spec.rules[0].matches", 10, "no effect", false},
        });
  }

  TEST_CASE("the rules of a TrafficTarget name at most 1024 matches together") {
    const auto decoded = [](int first, int second) {
      const auto rule = [](const std::string& name, int count) {
        std::string text = "- {kind: HTTPRouteGroup, name: " + name + ", matches: [";
        for (int i = 0; i < count; ++i) text += (i > 0 ? ", m" : "m") + std::to_string(i);
        return text + "]}\n";
      };
      return decode_traffic_target(
          object_of(kTargetApi, "TrafficTarget",
                    "destination: {kind: ServiceAccount, name: books, namespace: shop}\n"
                    "sources: [{kind: ServiceAccount, name: a, namespace: b}]\nrules:\n" +
                        rule("one", first) + rule("other", second)));
    };
    CHECK(good(decoded(512, 512)).rules.at(1).matches.size() == 512);
    const auto above = decoded(512, 513);
    CHECK_FALSE(above.value);
    REQUIRE(above.problems.size() == 1);
    CHECK(above.problems[0].code == ErrorCode::kTooLarge);
    CHECK(above.problems[0].field == "spec.rules");
    CHECK(above.problems[0].cause.find("1025 matches, at most 1024") != std::string::npos);
  }

  TEST_CASE("a TrafficSplit's services may be written in every form of their own names") {
    for (const std::string form : {"", ".shop", ".shop.svc", ".shop.svc.cluster.local"}) {
      CAPTURE(form);
      const auto split = good(decode_traffic_split(
          object_of(kSplitApi, "TrafficSplit",
                    "service: books" + form + "\nbackends: [{service: v1" + form +
                        ", weight: 90}, {service: v2" + form + ", weight: 0}]")));
      CHECK(split.service == ServiceName{"shop", "books"});
      CHECK(split.backends == std::vector<smi::SplitBackend>{{"v1", 90}, {"v2", 0, 1}});
    }
  }

  TEST_CASE("a TrafficSplit takes names in the cluster's domain and in cluster.local, no others") {
    const auto decoded = [](const std::string& form) {
      return decode_traffic_split(
          object_of(kSplitApi, "TrafficSplit",
                    "service: books" + form + "\nbackends: [{service: v1" + form + ", weight: 9}]"),
          "k8s.corp.example");
    };
    for (const std::string form :
         {"", ".shop.svc", ".shop.svc.k8s.corp.example", ".shop.svc.cluster.local"}) {
      CAPTURE(form);
      const auto split = good(decoded(form));
      CHECK(split.service == ServiceName{"shop", "books"});
      CHECK(split.backends == std::vector<smi::SplitBackend>{{"v1", 9}});
    }
    for (const std::string form : {".shop.svc.k8s", ".shop.svc.corp.example", ".shop.svc.local",
                                   ".shop.k8s.corp.example", ".shop.svc.k8s.corp.example.x"}) {
      CAPTURE(form);
      const auto refused = decoded(form);
      CHECK_FALSE(refused.value);
      REQUIRE_FALSE(refused.problems.empty());
      CHECK(refused.problems[0].cause.find("api.shop.svc.k8s.corp.example") != std::string::npos);
    }
    CHECK(decoded(".far.svc.k8s.corp.example").problems[0].code == ErrorCode::kCrossNamespace);
  }

  TEST_CASE("a port in a TrafficSplit's services has no effect, which is said") {
    const auto decoded = decode_traffic_split(
        object_of(kSplitApi, "TrafficSplit",
                  "service: books:80\nbackends: [{service: 'v1.shop.svc:8080', weight: 1}]"));
    REQUIRE(decoded.value);
    CHECK(decoded.value->service == ServiceName{"shop", "books"});
    CHECK(decoded.value->backends == std::vector<smi::SplitBackend>{{"v1", 1}});
    std::vector<std::string> fields;
    for (const Problem& problem : decoded.problems) {
      CHECK(problem.code == ErrorCode::kUnusedField);
      CHECK(problem.cause.find("every port") != std::string::npos);
      fields.push_back(problem.field);
    }
    CHECK(fields == std::vector<std::string>{"spec.service", "spec.backends[0].service"});
  }

  TEST_CASE("a bad TrafficSplit is left out") {
    constexpr auto kWeights = ErrorCode::kInvalidWeights;
    check_wrong<smi::TrafficSplit>(
        kSplitApi, "TrafficSplit", by_default(decode_traffic_split),
        {
            {"backends: [{service: v1, weight: 1}]", kField, "spec.service", 6, "required"},
            {"service: a", kField, "spec.backends", 6, "required"},
            {"service: a.other\nbackends: [{service: v1, weight: 1}]", ErrorCode::kCrossNamespace,
             "spec.service", 7, "own namespace, shop"},
            {"service: a.shop.example.com\nbackends: [{service: v1, weight: 1}]", kField,
             "spec.service", 7, "not the name of a Service"},
            {"service: a-0.a.shop.svc\nbackends: [{service: v1, weight: 1}]", kField,
             "spec.service", 7, "one pod of a headless Service"},
            {"service: a:http\nbackends: [{service: v1, weight: 1}]", kField, "spec.service", 7,
             "not the name of a Service"},
            {"service: a\nbackends:\n- {service: v1, weight: -1}", kWeights,
             "spec.backends[0].weight", 9, "from 0"},
            {"service: a\nbackends:\n- {service: v1, weight: 500m}", kWeights,
             "spec.backends[0].weight", 9, "quantities"},
            {"service: a\nbackends:\n- {service: v1, weight: '50'}", kWeights,
             "spec.backends[0].weight", 9, "whole number"},
            {"service: a\nbackends:\n- {service: v1, weight: 1.5}", kWeights,
             "spec.backends[0].weight", 9, "whole number"},
            {"service: a\nbackends:\n- {service: v1}", kWeights, "spec.backends[0].weight", 9,
             "required"},
            {"service: a\nbackends:\n- {weight: 1}", kField, "spec.backends[0].service", 9,
             "required"},
            {"service: a\nbackends:\n- {service: v1, weight: 1}\n- {service: v1.shop, weight: 2}",
             kField, "spec.backends[1].service", 10, "two backends"},
            {"service: a\nbackends: [{service: v1, weight: 1}]\nmatches: []", kField,
             "spec.matches", 9, "no such field"},
        });
  }

  TEST_CASE("a TrafficSplit without a weight above 0 is kept: its Service has no destination") {
    check_wrong<smi::TrafficSplit>(
        kSplitApi, "TrafficSplit", by_default(decode_traffic_split),
        {
            {"service: a\nbackends: []", ErrorCode::kInvalidWeights, "spec.backends", 8, "503",
             false},
            {"service: a\nbackends:\n- {service: v1, weight: 0}", ErrorCode::kInvalidWeights,
             "spec.backends", 8, "sum to 0", false},
        });
  }

  TEST_CASE("a backend whose name is no Service of the namespace is left out of its TrafficSplit") {
    for (const auto& [name, code, cause] :
         {std::tuple("v2.other", ErrorCode::kCrossNamespace, "own namespace, shop"),
          std::tuple("v2-0.v2.shop.svc.cluster.local", kField, "one pod of a headless Service"),
          std::tuple("v_2", kField, "not the name of a Service")}) {
      CAPTURE(name);
      const auto decoded = decode_traffic_split(
          object_of(kSplitApi, "TrafficSplit",
                    std::string("service: a\nbackends:\n- {service: v1, weight: 1}\n- {service: ") +
                        name + ", weight: 9}"));
      REQUIRE(decoded.value);
      CHECK(decoded.value->backends == std::vector<smi::SplitBackend>{{"v1", 1}});
      REQUIRE(decoded.problems.size() == 1);
      CHECK(decoded.problems[0].code == code);
      CHECK(decoded.problems[0].field == "spec.backends[1].service");
      CHECK(decoded.problems[0].cause.find(cause) != std::string::npos);
      CHECK(decoded.problems[0].cause.find("left out") != std::string::npos);
    }
  }

  TEST_CASE("MeshConfig's effective fields are read and the rest is reported as unused") {
    const auto decoded = decode_mesh_config(object_of(kConfigApi, "MeshConfig", R"(traffic:
  enablePermissiveTrafficPolicyMode: true
  enableEgress: true
  useHTTPSIngress: false
certificate: {serviceCertValidityDuration: 1h30m, proxyCertValidityDuration: 240h, certKeyBitSize: 4096, keyAlgorithm: RSA}
sidecar: {configResyncInterval: 30s}
featureFlags: {enableRetryPolicy: true})"));
    REQUIRE(decoded.value);
    CHECK(decoded.value->proxy.permissive);
    CHECK(decoded.value->proxy.egress);
    CHECK(decoded.value->proxy.retries);
    CHECK(decoded.value->certificates.service_validity == std::chrono::minutes(90));
    CHECK(decoded.value->certificates.proxy_validity == std::chrono::hours(240));
    CHECK(decoded.value->certificates.key_type == KeyType::kRsa);
    CHECK(decoded.value->certificates.rsa_bits == 4096);
    CHECK(decode_mesh_config(
              object_of(kConfigApi, "MeshConfig", "certificate: {keyAlgorithm: Ed25519}"))
              .value->certificates.key_type == KeyType::kEd25519);
    REQUIRE(decoded.problems.size() == 2);
    CHECK(decoded.problems[0].field == "spec.traffic.useHTTPSIngress");
    CHECK(decoded.problems[0].cause.find("no such field") != std::string::npos);
    CHECK(decoded.problems[1].field == "spec.sidecar.configResyncInterval");
    CHECK(decoded.problems[1].cause.find("every change as it happens") != std::string::npos);
    for (const auto& problem : decoded.problems) CHECK(problem.code == ErrorCode::kUnusedField);
    CHECK(good(decode_mesh_config(object_of(kConfigApi, "MeshConfig", "{}"))) == MeshConfig{});
  }

  TEST_CASE("MeshConfig has sidecar settings and exclusions") {
    const MeshConfig config =
        good(decode_mesh_config(object_of(kConfigApi, "MeshConfig", R"(sidecar:
  envoyImage: registry.example/envoy:1
  initContainerImage: registry.example/init:1
  logLevel: warn
  enablePrivilegedInitContainer: true
  localProxyMode: PodIP
  maxDataPlaneConnections: 250
  resources:
    limits: {cpu: "1", memory: 128Mi}
    requests: {cpu: 500m, memory: 131072k, ephemeral-storage: 1}
  tlsMinProtocolVersion: TLSv1_3
  tlsMaxProtocolVersion: TLSv1_3
  cipherSuites: [ECDHE-ECDSA-AES128-GCM-SHA256]
  ecdhCurves: [X25519, P-256]
  headers: {maxCount: 300}
traffic:
  outboundIPRangeExclusionList: [192.0.2.0/24, 10.0.0.0/8, 10.0.0.0/8]
  outboundIPRangeInclusionList: [0.0.0.0/0]
  outboundPortExclusionList: [25, 9]
  inboundPortExclusionList: [7]
  inboundIPRangeExclusionList: [172.16.0.0/12]
  networkInterfaceExclusionList: [eth1]
observability: {osmLogLevel: warn})")));
    CHECK(config.injection.sidecar ==
          SidecarConfig{
              .envoy_image = "registry.example/envoy:1",
              .init_container_image = "registry.example/init:1",
              .log_level = "warning",
              .privileged_init_container = true,
              .local_proxy_mode = LocalProxyMode::kPodIp,
              .limits = {{"cpu", "1"}, {"memory", "128Mi"}},
              .requests = {{"cpu", "500m"}, {"memory", "131072k"}, {"ephemeral-storage", "1"}}});
    CHECK(config.proxy.tls == TlsSettings{TlsVersion::kTls13,
                                          TlsVersion::kTls13,
                                          {"ECDHE-ECDSA-AES128-GCM-SHA256"},
                                          {"X25519", "P-256"}});
    CHECK(config.proxy.headers == HeaderLimits{300, 60});
    CHECK(config.injection.exclusions ==
          TrafficExclusions{.inbound_ip_ranges = {"172.16.0.0/12"},
                            .outbound_ip_ranges = {"10.0.0.0/8", "192.0.2.0/24"},
                            .outbound_included_ip_ranges = {"0.0.0.0/0"},
                            .outbound_ports = {Port{9}, Port{25}},
                            .inbound_ports = {Port{7}},
                            .network_interfaces = {"eth1"}});
    CHECK(config.max_proxies == 250);
    CHECK(config.log_level == LogLevel::kWarning);
  }

  TEST_CASE("MeshConfig allots networks to namespaces") {
    const MeshConfig config =
        good(decode_mesh_config(object_of(kConfigApi, "MeshConfig", R"(addresses:
  allotments:
  - {networks: [10.1.2.3/16, 192.0.2.7/32], namespaces: [shop]}
  - {networks: [10.2.0.0/16], namespaces: ["*"]}
  - {networks: [0.0.0.0/0], namespaces: []})")));
    CHECK(config.allotments ==
          std::vector<AddressAllotment>{
              {{{10U << 24 | 1U << 16, 16}, {192U << 24 | 2U << 8 | 7U, 32}}, {"shop"}},
              {{{10U << 24 | 2U << 16, 16}}, {"*"}},
              {{{0, 0}}, {}}});
  }

  TEST_CASE("a bad MeshConfig is refused, not read in part") {
    check_wrong<MeshConfig>(
        kConfigApi, "MeshConfig", by_default(decode_mesh_config),
        {
            {"traffic: {enableEgress: yes}", kField, "spec.traffic.enableEgress", 7,
             "true or false"},
            {"certificate: {serviceCertValidityDuration: 1d}", kField,
             "spec.certificate.serviceCertValidityDuration", 7, "such as 48h"},
            {"certificate: {serviceCertValidityDuration: 5s}", kField,
             "spec.certificate.serviceCertValidityDuration", 7, "from 10s"},
            {"certificate: {certKeyBitSize: 1024}", kField, "spec.certificate.certKeyBitSize", 7,
             "2048 to 4096"},
            {"certificate: {keyAlgorithm: DSA}", kField, "spec.certificate.keyAlgorithm", 7, "RSA"},
            {"certificate: {certKeyBitSize: 2048}", ErrorCode::kUnusedField,
             "spec.certificate.certKeyBitSize", 7, "RSA keys only", false},
            {"sidecar: {headers: {maxKilobytes: 8193}}", kField,
             "spec.sidecar.headers.maxKilobytes", 7, "to 8192"},
            {"addresses: {allotments: [{networks: [10.1.0.0], namespaces: [a]}]}", kField,
             "spec.addresses.allotments[0].networks[0]", 7, "an IPv4 network"},
            {"addresses: {allotments: [{networks: [], namespaces: [a]}]}", kField,
             "spec.addresses.allotments[0].networks", 7, "at least one network"},
            {"addresses: {allotments: [{namespaces: [a]}]}", kField,
             "spec.addresses.allotments[0].networks", 7, "required"},
            {"addresses: {allotments: [{networks: [10.1.0.0/16]}]}", kField,
             "spec.addresses.allotments[0].namespaces", 7, "required"},
            {"addresses: {allotments: [{networks: [10.1.0.0/16], namespaces: [A]}]}", kField,
             "spec.addresses.allotments[0].namespaces[0]", 7, "a DNS label"},
            {"addresses: {allotments: [{networks: [10.1.0.0/16], namespaces: [a], x: 1}]}", kField,
             "spec.addresses.allotments[0].x", 7, "no such field"},
            {"addresses: {allotment: []}", kField, "spec.addresses.allotment", 7, "no such field"},
            {"sidecar: {logLevel: false}", kField, "spec.sidecar.logLevel", 7, "a string"},
            {"sidecar: {logLevel: loud}", kField, "spec.sidecar.logLevel", 7, "one of trace"},
            {"sidecar: {localProxyMode: PodIp}", kField, "spec.sidecar.localProxyMode", 7,
             "Localhost, PodIP"},
            {"sidecar: {maxDataPlaneConnections: -1}", kField,
             "spec.sidecar.maxDataPlaneConnections", 7, "from 0"},
            {"sidecar: {tlsMinProtocolVersion: TLSv1_1}", kField,
             "spec.sidecar.tlsMinProtocolVersion", 7, "TLS_AUTO, TLSv1_2, TLSv1_3"},
            {"sidecar: {tlsMinProtocolVersion: TLSv1_3, tlsMaxProtocolVersion: TLSv1_2}", kField,
             "spec.sidecar.tlsMinProtocolVersion", 7, "set that to TLSv1_3"},
            {"sidecar: {cipherSuites: ['a b']}", kField, "spec.sidecar.cipherSuites[0]", 7,
             "a name such as"},
            {"sidecar: {resources: {limits: {cpu: lots}}}", kField,
             "spec.sidecar.resources.limits.cpu", 7, "a quantity"},
            {"sidecar: {resources: {limits: {cpu: -1}}}", kField,
             "spec.sidecar.resources.limits.cpu", 7, "whole number from 0"},
            {"sidecar: {resources: {limits: {cpu: 0.5}}}", kField,
             "spec.sidecar.resources.limits.cpu", 7, "a string"},
            {"sidecar: {resources: {limits: {cpu: 1}, requests: {cpu: 1001m}}}", kField,
             "spec.sidecar.resources.requests.cpu", 7, "more than the limit, 1"},
            {"sidecar: {resources: {requests: {cpu: 1}, claims: []}}", kField,
             "spec.sidecar.resources.claims", 7, "no such field"},
            {"traffic: {outboundIPRangeExclusionList: [10.0.0.1]}", kField,
             "spec.traffic.outboundIPRangeExclusionList[0]", 7, "an IPv4 network"},
            {"traffic: {outboundIPRangeInclusionList: [10.0.0.0/33]}", kField,
             "spec.traffic.outboundIPRangeInclusionList[0]", 7, "an IPv4 network"},
            {"traffic: {outboundIPRangeInclusionList: [fd00::/8]}", kField,
             "spec.traffic.outboundIPRangeInclusionList[0]", 7, "an IPv4 network"},
            {"traffic: {inboundPortExclusionList: [0]}", kField,
             "spec.traffic.inboundPortExclusionList[0]", 7, "from 1 to 65535"},
            {"traffic: {outboundPortExclusionList: [null]}", kField,
             "spec.traffic.outboundPortExclusionList[0]", 7, "a port number"},
            {"traffic: {networkInterfaceExclusionList: ['eth0 -j ACCEPT']}", kField,
             "spec.traffic.networkInterfaceExclusionList[0]", 7, "a network interface"},
            {"observability: {osmLogLevel: verbose}", kField, "spec.observability.osmLogLevel", 7,
             "one of trace"},
        });
  }

  TEST_CASE("an object of another apiVersion or without a document is refused") {
    Object object = object_of("v1", "Service", "clusterIP: None");
    object.api_version = "v2";
    REQUIRE(decode_service(object).problems.size() == 1);
    CHECK(decode_service(object).problems[0].code == ErrorCode::kUnknownKind);
    object.api_version = "v1";
    object.document = nullptr;
    REQUIRE(decode_service(object).problems.size() == 1);
    CHECK(decode_service(object).problems[0].field == "spec");
  }
}

TEST_SUITE("spec::read_object_file") {
  TEST_CASE("a number that a program wrote as unsigned is a number") {
    Object object = object_of("v1", "Service", "clusterIP: None\nports: [{port: 80}]");
    boost::json::value document = *object.document;
    document.at("spec").at("ports").at(0).as_object()["port"] = std::uint64_t{81};
    object.document = std::make_shared<const boost::json::value>(std::move(document));
    CHECK(good(decode_service(object)).ports.front().port == Port{81});
  }

  TEST_CASE("documents that are no objects are left out, each with its fault, and the rest stays") {
    const ObjectFile file = read_object_file(R"(apiVersion: v1
kind: Service
metadata: {name: a, namespace: b, labels: {v: 1}}
---
just text
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
---
apiVersion: split.smi-spec.io/v1alpha4
kind: TrafficSplit
metadata: {name: a}
---
kind: Service
---
apiVersion: v1
kind: Namespace
metadata: {name: good, labels: {x: "1"}}
)",
                                             "m/a.yaml");
    std::vector<std::string> texts;
    for (const auto& problem : file.problems) texts.push_back(problem.text());
    CHECK(texts[0] ==
          "m/a.yaml:3: Service b/a: metadata.labels.v: must be a string; quote it [invalid-field]");
    CHECK(texts[1].starts_with("m/a.yaml:5: not an object"));
    CHECK(texts[2].starts_with(
        "m/a.yaml:8: Deployment.apps a: kind: the mesh does not use this kind"));
    CHECK(texts[3].find("use split.smi-spec.io/v1alpha2 [unknown-kind]") != std::string::npos);
    CHECK(texts[4].find("apiVersion: required") != std::string::npos);
    CHECK(texts[5].find("metadata: required") != std::string::npos);
    CHECK(texts.size() == 6);
    REQUIRE(file.objects.size() == 1);
    CHECK(file.objects[0]->key == ObjectKey{kinds::kNamespace, "", "good"});
    CHECK(file.objects[0]->labels.at("x") == "1");
  }

  TEST_CASE("the document follows the content and not the place") {
    const auto document = [](const char* text) {
      return *read_object_file(text, "a").objects.at(0)->document;
    };
    const char* one = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n";
    CHECK(document(one) ==
          document("# moved\n\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n"));
    CHECK(document(one) != document("apiVersion: v1\nkind: Namespace\nmetadata: {name: b}\n"));
  }
}
