// CRD schemas are structural and agree with the decoders.
#include "kubernetes/upkeep/crds.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <tuple>

#include "fuzz/fuzz.hpp"
#include "fuzz/object_edits.hpp"
#include "inject/reviews.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/upkeep/schema.hpp"
#include "lib/places.hpp"
#include "lib/run.hpp"
#include "machines/azure_resource.hpp"
#include "machines/dns_resource.hpp"
#include "machines/virtual_machine.hpp"
#include "osm/spec/kinds.hpp"
#include "spec/decode.hpp"
#include "spec/object_file.hpp"

using namespace osm;
using namespace osm::kubernetes;
using namespace osm::kubernetes_test;

namespace {

struct Kind {
  json::object crd;
  std::function<std::vector<Problem>(const Object&)> check;
};

// Lists the faults for which the webhook refuses the object, those of elements too.
template <class T>
std::function<std::vector<Problem>(const Object&)> refusals(
    spec::Decoded<T> (*decode)(const Object&)) {
  return [decode](const Object& object) {
    auto problems = decode(object).problems;
    std::erase_if(problems,
                  [](const Problem& problem) { return problem.code == ErrorCode::kUnusedField; });
    return problems;
  };
}

std::map<std::string, Kind> all_kinds() {
  std::map<std::string, Kind> kinds;
  kinds["TrafficTarget"].check = refusals(spec::decode_traffic_target);
  kinds["HTTPRouteGroup"].check = refusals(spec::decode_http_route_group);
  kinds["TCPRoute"].check = refusals(spec::decode_tcp_route);
  kinds["TrafficSplit"].check = [](const Object& object) {
    return spec::decode_traffic_split(object).problems;
  };
  kinds["MeshConfig"].check =
      refusals<MeshConfig>([](const Object& object) { return spec::decode_mesh_config(object); });
  kinds["MeshRootCertificate"].check = refusals(spec::decode_root_certificate);
  kinds["VirtualMachine"].check = [](const Object& object) {
    return vm::decode_virtual_machine(object).problems;
  };
  kinds["AzureResource"].check = [](const Object& object) {
    return azure::decode_azure_resource(object).problems;
  };
  kinds["DNSResource"].check = [](const Object& object) {
    return dns::decode_dns_resource(object).problems;
  };
  kinds["Denylist"].check = [](const Object& object) {
    return spec::decode_denylist(object).problems;
  };
  kinds["UpstreamTrafficSetting"].check = [](const Object& object) {
    return spec::decode_upstream_traffic_setting(object).problems;
  };
  kinds["Egress"].check = [](const Object& object) { return spec::decode_egress(object).problems; };
  kinds["IngressBackend"].check = [](const Object& object) {
    return spec::decode_ingress_backend(object).problems;
  };
  kinds["Telemetry"].check = [](const Object& object) {
    return spec::decode_telemetry(object).problems;
  };
  kinds["ExtensionService"].check = [](const Object& object) {
    return spec::decode_extension_service(object).problems;
  };
  kinds["Retry"].check = [](const Object& object) { return spec::decode_retry(object).problems; };
  kinds["ServiceProvider"].check = [](const Object& object) {
    return spec::decode_service_provider(object).problems;
  };
  for (auto& crd : crds()) {
    const std::string kind(crd.at("spec").at("names").at("kind").as_string());
    REQUIRE(kinds.contains(kind));
    kinds[kind].crd = std::move(crd);
  }
  return kinds;
}

const json::value& schema_of(const Kind& kind) {
  return kind.crd.at("spec").at("versions").at(0).at("schema").at("openAPIV3Schema");
}

Resource resource_named(const std::string& name) {
  for (const spec::Kind& kind : spec::mesh_kinds())
    if (kind.name.kind == name) return resource_of(kind);
  FAIL("no resource of ", name);
  return kPods;
}

Object object_of(const std::string& kind, const std::string& spec, const std::string& name = "it") {
  const std::string text = "apiVersion: " + resource_named(kind).api_version() + "\nkind: " + kind +
                           "\nmetadata: {name: " + name + ", namespace: shop}\nspec: " + spec +
                           "\n";
  const spec::ObjectFile file = spec::read_object_file(text, "a.yaml");
  REQUIRE(file.objects.size() == 1);
  return *file.objects[0];
}

std::string text_of(const std::string& path) {
  std::ifstream file(osm::testing::source_dir() / path);
  std::stringstream text;
  text << file.rdbuf();
  REQUIRE_MESSAGE(!text.str().empty(), path);
  return text.str();
}

// Every YAML block of a page, as one file.
std::string blocks_of(const std::string& page) {
  std::istringstream lines(page);
  std::string out;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line == "```yaml") {
      inside = true;
      out += "---\n";
    } else if (line == "```") {
      inside = false;
    } else if (inside) {
      out += line + '\n';
    }
  }
  return out;
}

// Valid objects, of every kind one at least.
std::vector<std::shared_ptr<const Object>> examples() {
  std::vector<std::string> texts{blocks_of(text_of("docs/mesh-objects.md"))};
  for (const char* name : {"worked-example", "split", "tcp", "permissive", "overlapping-targets",
                           "egress", "egress-policy"})
    texts.push_back(text_of("tests/data/golden/" + std::string(name) + "/in.yaml"));
  std::vector<std::shared_ptr<const Object>> out;
  for (const std::string& text : texts)
    for (const auto& object : spec::read_object_file(text, "in.yaml").objects)
      out.push_back(object);
  return out;
}

// The verdict of a webhook with the library's defaults on the creation of `object`.
inject::Verdict default_verdict(const Object& object) {
  inject::ValidatorFixture defaults;
  const inject::Written written{.api = object.api_version.c_str(),
                                .kind = object.key.kind.c_str(),
                                .spec = json::serialize(object.document->at("spec")),
                                .name = object.key.name,
                                .ns = object.key.ns};
  return defaults.create(written);
}

struct Row {
  const char* kind;
  const char* spec;   // YAML
  const char* field;  // where the schema refuses it; empty: only the webhook can
  const char* name = "it";
};

}  // namespace

TEST_SUITE("kubernetes::crds") {
  TEST_CASE("there is one CRD for each of our kinds, of the group, version and plural we use") {
    auto kinds = all_kinds();
    CHECK(crds().size() == kinds.size());
    for (const auto& [name, kind] : kinds) {
      CAPTURE(name);
      const Resource resource = resource_named(name);
      const json::object& spec = kind.crd.at("spec").as_object();
      CHECK(kind.crd.at("metadata").at("name") ==
            json::value(std::string(resource.plural) + '.' + std::string(resource.group)));
      CHECK(spec.at("group") == json::value(resource.group));
      CHECK(spec.at("names").at("plural") == json::value(resource.plural));
      CHECK(spec.at("scope") == "Namespaced");
      REQUIRE(spec.at("versions").as_array().size() == 1);
      const json::object& version = spec.at("versions").at(0).as_object();
      CHECK(version.at("name") == json::value(resource.version));
      CHECK(version.at("served") == true);
      CHECK(version.at("storage") == true);
      CHECK(version.contains("subresources"));
      CHECK(version.at("additionalPrinterColumns").as_array().size() >= 4);
    }
  }

  TEST_CASE("every schema is structural") {
    for (const auto& [name, kind] : all_kinds()) {
      CAPTURE(name);
      CHECK(SchemaCheck::unsound(schema_of(kind)) == std::vector<std::string>());
    }
  }

  TEST_CASE("every example passes both the schema and the decoder") {
    const auto kinds = all_kinds();
    std::map<std::string, int> checked;
    for (const auto& object : examples()) {
      const auto kind = kinds.find(object->key.kind);
      if (kind == kinds.end()) continue;
      CAPTURE(json::serialize(*object->document));
      CHECK(kind->second.check(*object).empty());
      CHECK(SchemaCheck::refused(schema_of(kind->second), *object->document) ==
            std::vector<std::string>());
      ++checked[object->key.kind];
    }
    for (const auto& [name, kind] : kinds) {
      CAPTURE(name);
      CHECK(checked[name] > 0);
    }
  }

  TEST_CASE("a webhook with the library's defaults admits every example that it is asked about") {
    std::map<std::string, int> admitted;
    for (const auto& object : examples()) {
      const spec::Kind* kind = spec::find_kind(spec::mesh_kinds(), object->key.group_kind());
      REQUIRE(kind != nullptr);
      if (kind->review == spec::Review::kNone) continue;
      CAPTURE(json::serialize(*object->document));
      const inject::Verdict verdict = default_verdict(*object);
      CHECK_MESSAGE(verdict.allowed, verdict.message);
      ++admitted[object->key.kind];
    }
    for (const spec::Kind& kind : spec::mesh_kinds()) {
      CAPTURE(kind.name.kind);
      CHECK((kind.review == spec::Review::kNone || admitted[std::string(kind.name.kind)] > 0));
    }
  }

  TEST_CASE("a webhook with the library's defaults refuses a machine that no provider would take") {
    for (const auto& [kind, spec, field] :
         {std::tuple("VirtualMachine", "{address: web, serviceAccount: a}", "spec.address"),
          std::tuple("AzureResource", "{resourceID: /x, serviceAccount: a}", "spec.resourceID"),
          std::tuple("DNSResource", "{name: 10.0.0.7, serviceAccount: a}", "spec.name")}) {
      const inject::Verdict verdict = default_verdict(object_of(kind, spec));
      CHECK_FALSE(verdict.allowed);
      CHECK(verdict.fields == std::vector<std::string>{field});
    }
  }

  TEST_CASE("objects that decoders refuse are refused by the schema where possible") {
    const auto kinds = all_kinds();
    for (const Row& row : std::vector<Row>{
             {"TrafficTarget", "{}", "spec.destination"},
             {"TrafficTarget",
              "{destination: {kind: User, name: a, namespace: shop}, sources: [], rules: [{kind: "
              "TCPRoute, name: r}]}",
              "spec.destination.kind"},
             {"TrafficTarget",
              "{destination: {kind: ServiceAccount, name: A, namespace: shop}, sources: [], rules: "
              "[{kind: TCPRoute, name: r}]}",
              "spec.destination.name"},
             {"TrafficTarget",
              "{destination: {kind: ServiceAccount, name: a, namespace: other}, sources: [], "
              "rules: [{kind: TCPRoute, name: r}]}",
              ""},
             {"TrafficTarget",
              "{destination: {kind: ServiceAccount, name: a, namespace: shop}, sources: [], rules: "
              "[]}",
              "spec.rules"},
             {"TrafficTarget",
              "{destination: {kind: ServiceAccount, name: a, namespace: shop}, sources: [], rules: "
              "[{kind: UDPRoute, name: r}]}",
              "spec.rules[0].kind"},
             {"TrafficTarget",
              "{destination: {kind: ServiceAccount, name: a, namespace: shop}, sources: [], rules: "
              "[{kind: TCPRoute, name: r, matchs: []}]}",
              ""},
             {"HTTPRouteGroup", "{matches: [{pathRegex: /}]}", "spec.matches[0].name"},
             {"HTTPRouteGroup", "{matches: [{name: a}, {name: a}]}", "spec.matches"},
             {"HTTPRouteGroup", "{matches: [{name: a, methods: [FETCH]}]}",
              "spec.matches[0].methods[0]"},
             {"HTTPRouteGroup", "{matches: [{name: a, pathRegex: '('}]}", ""},
             {"HTTPRouteGroup", "{matches: [{name: a, headers: [7]}]}", ""},
             {"TCPRoute", "{matches: {ports: [65536]}}", "spec.matches.ports[0]"},
             {"TCPRoute", "{matches: {ports: ['80']}}", "spec.matches.ports[0]"},
             {"TCPRoute", "{matches: {name: 7}}", "spec.matches.name"},
             {"TrafficSplit", "{service: api, backends: [{service: v1, weight: 0}]}", ""},
             {"TrafficSplit", "{service: api, backends: [{service: v1, weight: 500m}]}",
              "spec.backends[0].weight"},
             {"TrafficSplit", "{service: api, backends: [{service: v1, weight: -1}]}",
              "spec.backends[0].weight"},
             {"TrafficSplit",
              "{service: api, backends: [{service: v1, weight: 1}, {service: v1, weight: 2}]}",
              "spec.backends"},
             {"TrafficSplit", "{service: api, backends: [{service: v_1, weight: 1}]}",
              "spec.backends[0].service"},
             {"TrafficSplit", "{service: api, backends: [{service: v1.other, weight: 1}]}", ""},
             {"TrafficSplit", "{service: api.shop.other, backends: [{service: v1, weight: 1}]}",
              "spec.service"},
             // The API server does not know the cluster's domain.
             {"TrafficSplit", "{service: api.shop.svc.other, backends: [{service: v1, weight: 1}]}",
              ""},
             {"VirtualMachine", "{address: 10.0.0.256, serviceAccount: a}", "spec.address"},
             {"VirtualMachine", "{address: 'fd00::1', serviceAccount: a}", "spec.address"},
             {"VirtualMachine", "{address: 10.0.0.1}", "spec.serviceAccount"},
             {"VirtualMachine", "{address: 10.0.0.1, serviceAccount: a, proxyUUID: x}",
              "spec.proxyUUID"},
             {"VirtualMachine",
              "{address: 10.0.0.1, serviceAccount: a, ports: [{name: p, port: 0}]}",
              "spec.ports[0].port"},
             {"VirtualMachine", "{address: 10.0.0.1, serviceAccount: a}", "metadata.name", "a.b"},
             {"AzureResource", "{resourceID: /subscriptions/s, serviceAccount: a}",
              "spec.resourceID"},
             {"AzureResource",
              "{resourceID: '/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/"
              "virtualMachines/a b', serviceAccount: a}",
              "spec.resourceID"},
             // The pattern does not know the keywords, which match in any case of letters.
             {"AzureResource",
              "{resourceID: /subscriptions/s/resourceGroups/g/providers/Microsoft.Network/"
              "networkInterfaces/n, serviceAccount: a}",
              ""},
             {"DNSResource", "{name: 'a b', serviceAccount: a}", "spec.name"},
             {"DNSResource", "{name: -a.example, serviceAccount: a}", "spec.name"},
             {"DNSResource", "{name: a..example, serviceAccount: a}", "spec.name"},
             {"DNSResource", "{name: a.example, type: MX, serviceAccount: a}", "spec.type"},
             {"DNSResource", "{serviceAccount: a}", "spec.name"},
             {"DNSResource", "{name: a.example}", "spec.serviceAccount"},
             // The pattern does not depend on the type.
             {"DNSResource", "{name: a.example, type: SRV, serviceAccount: a}", ""},
             {"DNSResource", "{name: 10.0.0.1, serviceAccount: a}", ""},
             {"Denylist", "{serviceAccounts: [{namespace: shop}]}", "spec.serviceAccounts[0].name"},
             {"Denylist", "{serviceAccounts: [{namespace: Shop, name: a}]}",
              "spec.serviceAccounts[0].namespace"},
             {"Denylist", "{serviceAccounts: [{namespace: shop, name: A}]}", ""},
             {"Denylist", "{proxyUUIDs: [x]}", "spec.proxyUUIDs[0]"},
             {"Denylist", "{serviceAccount: []}", ""},
             {"MeshConfig", "{sidecar: {logLevel: false}}", "spec.sidecar.logLevel"},
             {"MeshConfig", "{sidecar: {tlsMinProtocolVersion: TLSv1_0}}",
              "spec.sidecar.tlsMinProtocolVersion"},
             {"MeshConfig", "{sidecar: {resources: {limits: {cpu: 1 core}}}}",
              "spec.sidecar.resources.limits.cpu"},
             {"MeshConfig", "{sidecar: {resources: {limits: {cpu: 1}, requests: {cpu: 2}}}}", ""},
             {"MeshConfig", "{traffic: {outboundIPRangeExclusionList: [10.0.0.0]}}",
              "spec.traffic.outboundIPRangeExclusionList[0]"},
             {"MeshConfig", "{certificate: {serviceCertValidityDuration: 1d}}",
              "spec.certificate.serviceCertValidityDuration"},
             {"MeshConfig", "{certificate: {serviceCertValidityDuration: 1s}}", ""},
             {"MeshConfig", "{certificate: {certKeyBitSize: 1024}}",
              "spec.certificate.certKeyBitSize"},
             {"Egress", "{ports: []}", "spec.sources"},
             {"Egress", "{sources: [{kind: Group, name: a, namespace: b}], ports: []}",
              "spec.sources[0].kind"},
             {"Egress", "{sources: [], ports: [{number: 0, protocol: tcp}]}",
              "spec.ports[0].number"},
             {"Egress", "{sources: [], ports: [{number: 1, protocol: udp}]}",
              "spec.ports[0].protocol"},
             {"Egress", "{sources: [], ports: [], ipAddresses: [10.0.0.1]}", "spec.ipAddresses[0]"},
             {"Egress", "{sources: [], ports: [], hosts: ['http://a']}", ""},
             {"Egress", "{sources: [], ports: [], matches: [{apiGroup: a, kind: b, name: c}]}", ""},
             {"IngressBackend", "{sources: []}", "spec.backends"},
             {"IngressBackend",
              "{backends: [{name: a, port: {number: 1, protocol: tcp}}], sources: []}",
              "spec.backends[0].port.protocol"},
             {"IngressBackend", "{backends: [], sources: [{kind: Pod, name: a}]}",
              "spec.sources[0].kind"},
             {"IngressBackend", "{backends: [], sources: [{kind: IPRange, name: a}]}", ""},
             {"IngressBackend",
              "{backends: [{name: a, port: {number: 1, protocol: https}}], sources: []}", ""},
             {"IngressBackend",
              "{backends: [{name: a, port: {number: 1, protocol: https}, tls: {}}], sources: []}",
              "spec.backends[0].tls.skipClientCertValidation"},
             {"Retry", "{}", "spec.retryPolicy"},
             {"Retry",
              "{source: {kind: ServiceAccount, name: a, namespace: b}, destinations: [{kind: "
              "Group, name: a, namespace: b}], retryPolicy: {retryOn: 5xx, perTryTimeout: 1s, "
              "numRetries: 1, retryBackoffBaseInterval: 1s}}",
              "spec.destinations[0].kind"},
             {"Retry",
              "{source: {kind: ServiceAccount, name: a, namespace: b}, destinations: [], "
              "retryPolicy: {retryOn: 5xx, perTryTimeout: 1, numRetries: 1, "
              "retryBackoffBaseInterval: 1s}}",
              "spec.retryPolicy.perTryTimeout"},
             {"ServiceProvider", "{service: a}", "spec.providers"},
             {"ServiceProvider", "{service: a, providers: []}", "spec.providers"},
             {"ServiceProvider", "{service: a, providers: [{name: vm, weight: -1}]}",
              "spec.providers[0].weight"},
             {"ServiceProvider", "{service: a, providers: [{name: vm}], others: Drop}",
              "spec.others"},
             {"UpstreamTrafficSetting", "{host: api}", "spec.host"},
             {"UpstreamTrafficSetting",
              "{host: a.shop, connectionSettings: {tcp: {maxConnections: -1}}}",
              "spec.connectionSettings.tcp.maxConnections"},
             {"UpstreamTrafficSetting",
              "{host: a.shop, rateLimit: {local: {tcp: {connections: 1, unit: day}}}}",
              "spec.rateLimit.local.tcp.unit"},
             {"UpstreamTrafficSetting",
              "{host: a.shop, rateLimit: {local: {http: {requests: 1, unit: hour, "
              "responseStatusCode: 399}}}}",
              "spec.rateLimit.local.http.responseStatusCode"},
             {"UpstreamTrafficSetting",
              "{host: a.shop, rateLimit: {local: {http: {requests: 1, unit: hour, "
              "responseStatusCode: 499}}}}",
              ""},
             {"UpstreamTrafficSetting",
              "{host: a.shop, connectionSettings: {outlierDetection: {maxEjectionPercent: 101}}}",
              "spec.connectionSettings.outlierDetection.maxEjectionPercent"},
             {"UpstreamTrafficSetting",
              "{host: a.shop, connectionSettings: {http: {streamIdleTimeout: 1}}}",
              "spec.connectionSettings.http.streamIdleTimeout"},
             {"UpstreamTrafficSetting", "{host: a.shop, rateLimit: {global: {http: {domain: a}}}}",
              "spec.rateLimit.global.http.rateLimitService"},
             {"UpstreamTrafficSetting",
              "{host: a.shop, rateLimit: {global: {tcp: {domain: a, descriptors: [{entries: []}], "
              "rateLimitService: {host: a, port: 1}}}}}",
              "spec.rateLimit.global.tcp.descriptors[0].entries"},
             {"UpstreamTrafficSetting",
              "{host: a.shop, httpRoutes: [{path: /, rateLimit: {global: {descriptors: "
              "[{entries: [{}]}]}}}]}",
              ""},
             {"UpstreamTrafficSetting", "{host: a.shop, httpRoutes: [{path: ''}]}",
              "spec.httpRoutes[0].path"},
             {"Telemetry", "{selector: {app: 1}}", "spec.selector.app"},
             {"Telemetry", "{accessLog: {format: ''}}", "spec.accessLog.format"},
             {"Telemetry", "{accessLog: {format: '%NOPE%'}}", ""},
             {"Telemetry", "{accessLog: {openTelemetry: {}}}",
              "spec.accessLog.openTelemetry.extensionService"},
             {"Telemetry", "{accessLog: {openTelemetry: {extensionService: {namespace: shop}}}}",
              "spec.accessLog.openTelemetry.extensionService.name"},
             {"ExtensionService", "{host: a}", "spec.port"},
             {"ExtensionService", "{host: a, port: 0}", "spec.port"},
             {"ExtensionService", "{host: a, port: 1, protocol: https}", "spec.protocol"},
             {"ExtensionService", "{host: a, port: 1, connectTimeout: soon}",
              "spec.connectTimeout"},
             {"ExtensionService", "{host: 'http://a', port: 1}", ""},
             {"MeshRootCertificate", "{}", "spec.provider"},
             {"MeshRootCertificate", "{provider: {}}", ""},
             {"MeshRootCertificate", "{role: aktive, provider: {certManager: {issuerName: a}}}",
              "spec.role"},
             {"MeshRootCertificate", "{trustDomain: '', provider: {certManager: {issuerName: a}}}",
              "spec.trustDomain"},
             {"MeshRootCertificate", "{provider: {certManager: {issuerName: a, issuerKind: CA}}}",
              "spec.provider.certManager.issuerKind"},
             {"MeshRootCertificate", "{provider: {tresor: {ca: {secretRef: {name: a}}}}}",
              "spec.provider.tresor.ca.secretRef.namespace"},
             {"MeshRootCertificate", "{provider: {vault: {host: v, tokenFile: /t}}}",
              "spec.provider.vault.role"},
             {"MeshRootCertificate", "{provider: {vault: {host: v, role: r, tokenFile: t}}}",
              "spec.provider.vault.tokenFile"},
             {"MeshRootCertificate",
              "{provider: {vault: {host: v, role: r, mount: /pki, auth: {role: r}}}}",
              "spec.provider.vault.mount"},
             {"MeshRootCertificate",
              "{provider: {vault: {host: v, role: r, mount: pki/.., auth: {role: r}}}}", ""},
             {"MeshRootCertificate",
              "{provider: {vault: {host: v, role: r, protocol: http, tokenFile: /t}}}", ""},
             {"MeshRootCertificate",
              "{provider: {vault: {host: v, role: r, token: {secretKeyRef: {name: a, namespace: "
              "b}}}}}",
              "spec.provider.vault.token.secretKeyRef.key"},
         }) {
      CAPTURE(row.kind);
      CAPTURE(row.spec);
      const Kind& kind = kinds.at(row.kind);
      const Object object = object_of(row.kind, row.spec, row.name);
      CHECK_FALSE(kind.check(object).empty());
      const auto refused = SchemaCheck::refused(schema_of(kind), *object.document);
      if (*row.field == '\0') {
        CHECK(refused == std::vector<std::string>());
      } else {
        CHECK(std::find(refused.begin(), refused.end(), row.field) != refused.end());
      }
    }
  }

  TEST_CASE("no schema refuses what its decoder accepts, whatever is edited") {
    const auto kinds = all_kinds();
    auto random = osm::testing::seeded();
    std::size_t refused_by_both = 0;
    std::size_t accepted_by_both = 0;
    for (int round = 0; round < testing::steps(1'000, 20'000); ++round) {
      std::string bytes(64, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      fuzz::Choices choices(bytes);
      for (json::value document : fuzz::base_objects()) {
        const Object before = fuzz::object_of(document);
        const auto kind = kinds.find(before.key.kind);
        if (kind == kinds.end()) continue;
        fuzz::edit(document, choices);
        Object object = fuzz::object_of(document);
        // The server's own part of an object is not a schema's.
        if (object.key != before.key || object.api_version != before.api_version) continue;
        const bool good = kind->second.check(object).empty();
        const auto refused = SchemaCheck::refused(schema_of(kind->second), document);
        if (good) {
          CAPTURE(json::serialize(document));
          CHECK(refused == std::vector<std::string>());
          ++accepted_by_both;
        } else {
          refused_by_both += refused.empty() ? 0 : 1;
        }
      }
    }
    CHECK(accepted_by_both > 1000);
    CHECK(refused_by_both > 100);
  }
}
