#include "fuzz/object_edits.hpp"

#include <array>
#include <boost/json.hpp>
#include <cstdint>
#include <limits>
#include <string_view>
#include <variant>

#include "spec/yaml.hpp"

namespace osm::fuzz {
namespace {

namespace json = boost::json;

// Two namespaces, every kind, every optional field once. Names are short: seeds refer to them.
constexpr std::string_view kBaseMesh = R"(
apiVersion: v1
kind: Namespace
metadata: {name: a, labels: {openservicemesh.io/monitored-by: osm}}
---
apiVersion: v1
kind: Namespace
metadata: {name: b, labels: {openservicemesh.io/monitored-by: osm}, annotations: {note: x}}
---
apiVersion: config.openservicemesh.io/v1alpha2
kind: MeshConfig
metadata: {name: osm-mesh-config, namespace: osm-system}
spec:
  traffic:
    enablePermissiveTrafficPolicyMode: false
    enableEgress: true
    outboundIPRangeExclusionList: [10.0.0.0/8]
    outboundIPRangeInclusionList: [0.0.0.0/0]
    outboundPortExclusionList: [25]
    inboundPortExclusionList: [7]
    inboundIPRangeExclusionList: [192.0.2.0/24]
    networkInterfaceExclusionList: [eth1]
  certificate: {serviceCertValidityDuration: 24h, proxyCertValidityDuration: 240h, certKeyBitSize: 2048, keyAlgorithm: RSA}
  sidecar:
    envoyImage: e
    initContainerImage: i
    logLevel: error
    enablePrivilegedInitContainer: false
    localProxyMode: PodIP
    maxDataPlaneConnections: 9
    resources: {limits: {cpu: 1}, requests: {cpu: 500m}}
    tlsMinProtocolVersion: TLSv1_2
    tlsMaxProtocolVersion: TLSv1_3
    cipherSuites: [ECDHE-ECDSA-AES128-GCM-SHA256]
    ecdhCurves: [X25519]
    headers: {maxCount: 200, maxKilobytes: 90}
  observability: {osmLogLevel: info}
  addresses: {allotments: [{networks: [10.96.0.0/16, 10.1.0.0/16], namespaces: [a, b]}, {networks: [192.0.2.0/24], namespaces: ['*']}]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: client, namespace: a}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: server, namespace: b}
---
apiVersion: v1
kind: Service
metadata: {name: client, namespace: a}
spec:
  clusterIP: 10.96.0.1
  selector: {app: client}
  ports: [{name: http, port: 80, targetPort: 8080, protocol: TCP}]
---
apiVersion: v1
kind: Service
metadata: {name: server, namespace: b}
spec:
  clusterIP: 10.96.0.2
  selector: {app: server}
  ports:
  - {name: http, port: 80, targetPort: web, protocol: TCP, appProtocol: http}
  - {name: tcp-db, port: 5432, targetPort: 5432}
  - {name: grpc-api, port: 90, targetPort: 9090}
---
apiVersion: v1
kind: Service
metadata: {name: server-v2, namespace: b}
spec:
  clusterIP: 10.96.0.3
  selector: {app: server, version: v2}
  ports:
  - {name: http, port: 80, targetPort: 8081}
  - {name: tcp-server-first-mail, port: 25, targetPort: 2525}
---
apiVersion: v1
kind: Service
metadata: {name: headless, namespace: b}
spec:
  clusterIP: None
  selector: {app: server}
  ports: [{name: http, port: 8082, targetPort: 8082}]
---
apiVersion: v1
kind: Service
metadata: {name: apex, namespace: b}
spec:
  clusterIP: 10.96.0.4
  ports: [{name: http, port: 80}]
---
apiVersion: workload.openservicemesh.io/v1alpha1
kind: VirtualMachine
metadata: {name: client, namespace: a, labels: {app: client}}
spec: {address: 10.1.0.1, serviceAccount: client}
---
apiVersion: workload.openservicemesh.io/v1alpha1
kind: VirtualMachine
metadata: {name: server, namespace: b, labels: {app: server}}
spec:
  address: 10.1.0.2
  serviceAccount: server
  proxyUUID: 6f2c1a58-9a53-4a5f-8f5c-0d5a3b7e61f0
  ports: [{name: web, port: 8080}]
---
apiVersion: workload.openservicemesh.io/v1alpha1
kind: VirtualMachine
metadata: {name: server2, namespace: b, labels: {app: server, version: v2}}
spec: {address: 10.1.0.3, serviceAccount: server, ports: [{name: web, port: 8088}]}
---
apiVersion: specs.smi-spec.io/v1alpha4
kind: HTTPRouteGroup
metadata: {name: routes, namespace: b}
spec:
  matches:
  - name: books
    methods: [GET, HEAD]
    pathRegex: /books/.*
    headers: [{user-agent: ".*-http-client/*.*"}, {x-tenant: "[a-z]+"}]
  - {name: all, pathRegex: ".*", methods: ["*"]}
---
apiVersion: specs.smi-spec.io/v1alpha4
kind: TCPRoute
metadata: {name: db, namespace: b}
spec: {matches: {name: db, ports: [5432, 2525]}}
---
apiVersion: access.smi-spec.io/v1alpha3
kind: TrafficTarget
metadata: {name: buy, namespace: b}
spec:
  destination: {kind: ServiceAccount, name: server, namespace: b}
  sources: [{kind: ServiceAccount, name: client, namespace: a}]
  rules:
  - {kind: HTTPRouteGroup, name: routes, matches: [books]}
  - {kind: TCPRoute, name: db}
---
apiVersion: split.smi-spec.io/v1alpha2
kind: TrafficSplit
metadata: {name: split, namespace: b}
spec:
  service: apex
  backends: [{service: server, weight: 90}, {service: server-v2, weight: 10}]
---
apiVersion: config.openservicemesh.io/v1alpha2
kind: MeshRootCertificate
metadata: {name: mesh, namespace: osm-system}
spec:
  trustDomain: cluster.local
  role: active
  provider: {tresor: {ca: {secretRef: {name: mesh, namespace: osm-system}}}}
---
apiVersion: config.openservicemesh.io/v1alpha2
kind: MeshRootCertificate
metadata: {name: vault, namespace: osm-system}
spec:
  role: passive
  provider:
    vault:
      host: v
      port: 8200
      protocol: https
      mount: pki
      role: mesh
      namespace: a
      token: {secretKeyRef: {name: a, key: b, namespace: osm-system}}
      caBundle: "-----BEGIN CERTIFICATE-----"
---
apiVersion: config.openservicemesh.io/v1alpha2
kind: MeshRootCertificate
metadata: {name: issuer, namespace: osm-system}
spec:
  role: inactive
  provider: {certManager: {issuerName: ca, issuerKind: Issuer, issuerGroup: cert-manager.io}}
---
apiVersion: policy.openservicemesh.io/v1alpha1
kind: Egress
metadata: {name: out, namespace: b}
spec:
  sources: [{kind: ServiceAccount, name: server, namespace: b}]
  hosts: [a.example, "*.a.example", "c.example:80"]
  ipAddresses: [10.0.0.0/8, 192.0.2.1/32]
  ports:
  - {number: 80, protocol: http}
  - {number: 443, protocol: https}
  - {number: 25, protocol: tcp-server-first}
  matches:
  - {apiGroup: specs.smi-spec.io/v1alpha4, kind: HTTPRouteGroup, name: routes}
  - {apiGroup: policy.openservicemesh.io/v1alpha1, kind: UpstreamTrafficSetting, name: limits}
---
apiVersion: policy.openservicemesh.io/v1alpha1
kind: IngressBackend
metadata: {name: in, namespace: b}
spec:
  backends:
  - {name: server, port: {number: 80, protocol: http}}
  - name: server
    port: {number: 443, protocol: https}
    tls: {skipClientCertValidation: true, sniHosts: [a.b]}
  sources:
  - {kind: Service, name: client, namespace: a}
  - {kind: IPRange, name: 10.0.0.0/8}
  - {kind: AuthenticatedPrincipal, name: client.a}
---
apiVersion: policy.openservicemesh.io/v1alpha1
kind: Retry
metadata: {name: again, namespace: a}
spec:
  source: {kind: ServiceAccount, name: client, namespace: a}
  destinations: [{kind: Service, name: server, namespace: b}]
  retryPolicy:
    {retryOn: "5xx,reset", perTryTimeout: 1s, numRetries: 2, retryBackoffBaseInterval: 25ms}
---
apiVersion: policy.openservicemesh.io/v1alpha1
kind: Telemetry
metadata: {name: log, namespace: b}
spec:
  selector: {app: server}
  accessLog:
    format: '{"code": "%RESPONSE_CODE%", "to": {"path": "%REQ(:PATH):64%"}}'
    openTelemetry:
      extensionService: {namespace: b, name: collector}
      attributes: {team: books, agent: '%REQ(USER-AGENT)%'}
---
apiVersion: config.openservicemesh.io/v1alpha2
kind: ExtensionService
metadata: {name: collector, namespace: b}
spec: {host: collector.example, port: 4317, protocol: grpc, connectTimeout: 1s}
---
apiVersion: policy.openservicemesh.io/v1alpha1
kind: UpstreamTrafficSetting
metadata: {name: limits, namespace: b}
spec:
  host: server.b
  connectionSettings:
    tcp: {maxConnections: 1, connectTimeout: 5s, idleTimeout: 0s}
    http:
      maxRequests: 1
      maxRequestsPerConnection: 1
      maxPendingRequests: 1
      maxRetries: 1
      streamIdleTimeout: 1h
      applicationIdleTimeout: 1s
    outlierDetection:
      {consecutive5xx: 1, interval: 1s, baseEjectionTime: 1s, maxEjectionPercent: 50}
  rateLimit:
    local:
      tcp: {connections: 1, unit: second, burst: 1}
      http:
        requests: 1
        unit: minute
        burst: 1
        responseStatusCode: 503
        responseHeadersToAdd: [{name: a, value: b}]
    global:
      tcp:
        rateLimitService: {host: limiter, port: 8081}
        domain: a
        descriptors: [{entries: [{key: a, value: b}]}]
        timeout: 1s
        failOpen: false
      http:
        rateLimitService: {host: limiter, port: 8081}
        domain: a
        descriptors:
        - entries:
          - genericKey: {value: a, key: b}
          - remoteAddress: {}
          - requestHeader: {name: a, key: b}
          - headerValueMatch:
              {value: a, key: b, expectMatch: false, headers: [{name: a, prefix: b}]}
        timeout: 1s
        failOpen: true
        enableXRateLimitHeaders: true
        responseStatusCode: 503
  httpRoutes:
  - path: /books/.*
    rateLimit:
      local: {requests: 1, unit: hour}
      global: {descriptors: [{entries: [{remoteAddress: {}}]}]}
---
apiVersion: workload.openservicemesh.io/v1alpha1
kind: ServiceProvider
metadata: {name: order, namespace: b}
spec: {service: server, providers: [{name: kubernetes}, {name: vm, weight: 2}], others: Exclude}
---
apiVersion: workload.openservicemesh.io/v1alpha1
kind: Denylist
metadata: {name: denied, namespace: osm-system}
spec:
  serviceAccounts: [{namespace: b, name: thief}]
  proxyUUIDs: [33333333-3333-4333-8333-333333333333]
  reason: r
---
apiVersion: policy.openservicemesh.io/v1alpha1
kind: Egress
metadata: {name: wide, namespace: b}
spec:
  sources: [{kind: ServiceAccount, name: server, namespace: b}]
  hosts: [a.example]
  ipAddresses: []
  ports: [{number: 443, protocol: https}, {number: 80, protocol: http}]
  matches: []
---
apiVersion: workload.openservicemesh.io/v1alpha1
kind: DNSResource
metadata: {name: named, namespace: b, labels: {app: server}}
spec: {name: _web._tcp.b.example, type: SRV, serviceAccount: server, ports: [{name: web2, port: 8080}]}
---
apiVersion: workload.openservicemesh.io/v1alpha1
kind: AzureResource
metadata: {name: set, namespace: b, labels: {app: server}}
spec:
  resourceID: /subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/x
  serviceAccount: server
  ports: [{name: web, port: 8080}]
)";

constexpr std::array<std::int64_t, 13> kNumbers{0,
                                                1,
                                                2,
                                                80,
                                                8080,
                                                65'535,
                                                65'536,
                                                -1,
                                                100,
                                                std::numeric_limits<std::int32_t>::max(),
                                                1LL << 32,
                                                std::numeric_limits<std::int64_t>::max(),
                                                std::numeric_limits<std::int64_t>::min()};

// Names of the base mesh, so that references still meet; and what validation is there for.
constexpr std::array<std::string_view, 41> kTexts{
    "",
    "a",
    "b",
    "client",
    "server",
    "server-v2",
    "headless",
    "apex",
    "routes",
    "db",
    "books",
    "all",
    "web",
    "http",
    "tcp",
    "grpc",
    "tcp-server-first",
    "TCP",
    "UDP",
    "None",
    "10.96.0.2",
    "10.1.0.2",
    "127.0.0.1",
    "0.0.0.0",
    "255.255.255.255",
    "::1",
    "10.0.0",
    "*",
    ".*",
    "/a|/b",
    "GET",
    "get",
    "HTTPRouteGroup",
    "TCPRoute",
    "ServiceAccount",
    "osm",
    "24h",
    "-1s",
    "99999999999999999999h",
    "(((((((((a{1,9}){1,9}){1,9}){1,9}){1,9}){1,9}){1,9}))",
    "x-www-form.example.com"};

void collect(json::value& value, std::vector<json::value*>& nodes) {
  nodes.push_back(&value);
  if (auto* list = value.if_array())
    for (json::value& item : *list) collect(item, nodes);
  if (auto* map = value.if_object())
    for (auto& member : *map) collect(member.value(), nodes);
}

std::string text_from(Choices& choices) {
  const std::size_t at = choices.below(kTexts.size() + 3);
  if (at < kTexts.size()) return std::string(kTexts[at]);
  if (at == kTexts.size()) return choices.line(300);
  return std::string(choices.below(8) * 40, at == kTexts.size() + 1 ? 'a' : '(');
}

json::value scalar_from(Choices& choices) {
  switch (choices.below(6)) {
    case 0:
      return kNumbers[choices.below(kNumbers.size())];
    case 1:
      return json::value(text_from(choices));
    case 2:
      return choices.flag();
    case 3:
      return 0.5;
    case 4:
      return std::numeric_limits<std::uint64_t>::max();
    default:
      return nullptr;
  }
}

// Takes one member or element away, or puts one in twice.
void edit_container(json::value& container, Choices& choices) {
  const bool remove = choices.flag();
  if (auto* map = container.if_object(); map != nullptr && !map->empty()) {
    auto* const member = map->begin() + choices.below(map->size());
    if (remove) {
      map->erase(member);
    } else {
      const json::value copy = member->value();
      map->insert_or_assign(text_from(choices), copy);
    }
  } else if (auto* list = container.if_array(); list != nullptr && !list->empty()) {
    auto* const item = list->begin() + choices.below(list->size());
    if (remove) {
      list->erase(item);
    } else {
      const json::value copy = *item;
      list->push_back(copy);
    }
  } else {
    container = json::array{scalar_from(choices)};
  }
}

std::map<std::string, std::string> text_map(const json::value* value) {
  std::map<std::string, std::string> texts;
  const auto* map = value != nullptr ? value->if_object() : nullptr;
  if (map == nullptr) return texts;
  for (const auto& [key, item] : *map)
    if (const auto* text = item.if_string()) texts.emplace(key, *text);
  return texts;
}

}  // namespace

const std::vector<json::value>& base_objects() {
  static const std::vector<json::value> objects = [] {
    std::vector<json::value> read;
    for (spec::YamlResult& result : spec::parse_yaml(kBaseMesh)) {
      require(std::holds_alternative<spec::YamlDocument>(result), "the base mesh is YAML");
      read.push_back(std::get<spec::YamlDocument>(std::move(result)).value);
    }
    return read;
  }();
  return objects;
}

void edit(json::value& object, Choices& choices) {
  std::vector<json::value*> nodes;
  collect(object, nodes);
  json::value& node = *nodes[choices.below(nodes.size())];
  switch (choices.below(5)) {
    case 0:
    case 1:
      edit_container(node, choices);
      break;
    case 2:
      node = scalar_from(choices);
      break;
    case 3: {
      const json::value copy = *nodes[choices.below(nodes.size())];
      node = copy;
      break;
    }
    default:
      if (choices.flag()) {
        node = json::object{};
      } else {
        for (std::size_t depth = choices.below(200); depth > 0; --depth)
          node = json::array{std::move(node)};
      }
  }
}

Object object_of(const json::value& document) {
  Object object;
  const auto text = [](const json::value* in, std::string_view name) -> std::string {
    const auto* map = in != nullptr ? in->if_object() : nullptr;
    const auto* member = map != nullptr ? map->if_contains(name) : nullptr;
    const auto* value = member != nullptr ? member->if_string() : nullptr;
    return value != nullptr ? std::string(*value) : std::string();
  };
  const auto* root = document.if_object();
  const json::value* metadata = root != nullptr ? root->if_contains("metadata") : nullptr;
  object.api_version = text(&document, "apiVersion");
  const auto slash = object.api_version.find('/');
  const std::string kind = text(&document, "kind");
  object.key = {
      {slash == std::string::npos ? "" : std::string_view(object.api_version).substr(0, slash),
       kind},
      text(metadata, "namespace"),
      text(metadata, "name")};
  if (const auto* fields = metadata != nullptr ? metadata->if_object() : nullptr) {
    object.labels = text_map(fields->if_contains("labels"));
    object.annotations = text_map(fields->if_contains("annotations"));
  }
  object.document = std::make_shared<const json::value>(document);
  object.source.path = "fuzz.yaml";
  return object;
}

}  // namespace osm::fuzz
