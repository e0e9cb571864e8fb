#include <doctest/doctest.h>

#include "osm/spec/kinds.hpp"
#include "spec/decode.hpp"
#include "spec/decode_cases.hpp"

using namespace osm;
using namespace osm::spec;

namespace {

CheckedPolicy policy_of(std::string_view kind, std::string_view spec) {
  const Decoded<CheckedPolicy> decoded =
      decode_policy(object_of(kPolicyApi, std::string(kind), spec));
  REQUIRE_MESSAGE(decoded.value, decoded.problems.front().text());
  REQUIRE(decoded.problems.size() == 1);
  CHECK(decoded.problems[0].code == ErrorCode::kUnusedField);
  CHECK(decoded.problems[0].field.empty());
  CHECK(decoded.problems[0].cause ==
        std::string(kind) + " is checked and stored, but nothing here obeys it yet");
  return *decoded.value;
}

const std::string kFrom = "sources: [{kind: ServiceAccount, name: web, namespace: shop}]\n";
const std::string kPorts = "ports: [{number: 443, protocol: https}]\n";
const std::string kGroup =
    "{apiGroup: specs.smi-spec.io/v1alpha4, kind: HTTPRouteGroup, name: pay}";
const std::string kSetting =
    "{apiGroup: policy.openservicemesh.io/v1alpha1, kind: UpstreamTrafficSetting, name: pay}";
const std::string kAnyone = "sources: [{kind: IPRange, name: 10.0.0.0/8}]\n";
const std::string kPrincipal = "sources: [{kind: AuthenticatedPrincipal, name: gw.ingress}]\n";
const std::string kHttp = "backends: [{name: api, port: {number: 80, protocol: http}}]\n";

std::string https_with(const std::string& tls) {
  return "backends: [{name: api, port: {number: 443, protocol: https}" + tls + "}]\n";
}

}  // namespace

TEST_SUITE("spec::decode_policy") {
  TEST_CASE("an Egress that is good says only that nothing obeys it") {
    CHECK(policy_of(kinds::kEgress.kind, kFrom + kPorts +
                                             "hosts: [pay.example.com, '*.Example.com', 'a.b:80']\n"
                                             "ipAddresses: [192.0.2.0/24, 0.0.0.0/0]\n"
                                             "matches: [" +
                                             kGroup + ", " + kSetting + ", " + kGroup + "]")
              .claims.empty());
    for (const char* protocol : {"http", "https", "tcp", "tcp-server-first"})
      policy_of(kinds::kEgress.kind,
                kFrom + "ports: [{number: 1, protocol: " + std::string(protocol) + "}]\n");
  }

  TEST_CASE("faults of an Egress are refused with their fields") {
    check_refused(
        decode_policy, kPolicyApi, kinds::kEgress.kind,
        {
            {kPorts, "spec.sources", "required"},
            {kFrom, "spec.ports", "required"},
            {kFrom + kPorts + "host: [a.b]", "spec.host", "known here: sources, hosts"},
            {"sources: [{kind: Group, name: a, namespace: b}]\n" + kPorts, "spec.sources[0].kind",
             "must be ServiceAccount"},
            {"sources: [{kind: ServiceAccount, name: a}]\n" + kPorts, "spec.sources[0].namespace",
             "required"},
            {"sources: [{kind: ServiceAccount, name: A, namespace: b}]\n" + kPorts,
             "spec.sources[0].name", "DNS label"},
            {kFrom + kPorts + "hosts: ['https://a.b/']", "spec.hosts[0]", "without scheme"},
            {kFrom + kPorts + "hosts: ['a.b:']", "spec.hosts[0]", "such as example.com"},
            {kFrom + kPorts + "hosts: ['a.*.b']", "spec.hosts[0]", "such as example.com"},
            {kFrom + kPorts + "hosts: ['']", "spec.hosts[0]", "must not be empty"},
            {kFrom + kPorts + "ipAddresses: [192.0.2.1]", "spec.ipAddresses[0]", "IPv4 network"},
            {kFrom + kPorts + "ipAddresses: [192.0.2.0/33]", "spec.ipAddresses[0]", "IPv4 network"},
            {kFrom + "ports: [{number: 0, protocol: tcp}]", "spec.ports[0].number",
             "from 1 to 65535"},
            {kFrom + "ports: [{number: 65536, protocol: tcp}]", "spec.ports[0].number",
             "from 1 to 65535"},
            {kFrom + "ports: [{protocol: tcp}]", "spec.ports[0].number", "required"},
            {kFrom + "ports: [{number: 1}]", "spec.ports[0].protocol", "required"},
            {kFrom + "ports: [{number: 1, protocol: udp}]", "spec.ports[0].protocol",
             "http, https, tcp, tcp-server-first"},
            {kFrom + kPorts + "matches: [" + kSetting + ", " + kSetting + "]", "spec.matches[1]",
             "one at most"},
            {kFrom + kPorts + "matches: [{apiGroup: v1, kind: HTTPRouteGroup, name: a}]",
             "spec.matches[0]", "must be an HTTPRouteGroup of specs.smi-spec.io/v1alpha4"},
            {kFrom + kPorts +
                 "matches: [{apiGroup: specs.smi-spec.io/v1alpha4, kind: TCPRoute, name: a}]",
             "spec.matches[0]", "or an UpstreamTrafficSetting of policy.openservicemesh.io"},
            {kFrom + kPorts + "matches: [{kind: HTTPRouteGroup, name: a}]",
             "spec.matches[0].apiGroup", "required"},
            {kFrom + kPorts + "matches: [{apiGroup: a, name: a}]", "spec.matches[0].kind",
             "required"},
            {kFrom + kPorts +
                 "matches: [{apiGroup: specs.smi-spec.io/v1alpha4, kind: HTTPRouteGroup}]",
             "spec.matches[0].name", "required"},
        });
  }

  TEST_CASE("an IngressBackend claims each of its backends' ports") {
    const CheckedPolicy policy =
        policy_of(kinds::kIngressBackend.kind,
                  "backends:\n- {name: api, port: {number: 80, protocol: http}}\n"
                  "- {name: api, port: {number: 81, protocol: http}}\n"
                  "- {name: web, port: {number: 80, protocol: http}}\n"
                  "sources: [{kind: Service, name: gw, namespace: ingress}]\nmatches: [" +
                      kGroup + "]");
    CHECK(policy.claims ==
          std::vector<CheckedPolicy::Claim>{{"spec.backends[0]", "backend api port 80"},
                                            {"spec.backends[1]", "backend api port 81"},
                                            {"spec.backends[2]", "backend web port 80"}});
  }

  TEST_CASE("https that asks for certificates says whose, and that which does not need not") {
    policy_of(kinds::kIngressBackend.kind,
              https_with(", tls: {skipClientCertValidation: true}") + kAnyone);
    policy_of(kinds::kIngressBackend.kind, https_with("") + kPrincipal);
    policy_of(kinds::kIngressBackend.kind,
              https_with(", tls: {skipClientCertValidation: false, sniHosts: [a.b]}") + kPrincipal);
    policy_of(kinds::kIngressBackend.kind,
              https_with("") +
                  "sources: [{kind: AuthenticatedPrincipal, name: a}, {kind: IPRange, name: "
                  "10.0.0.0/8}]");
    policy_of(kinds::kIngressBackend.kind, kHttp + kAnyone);  // no TLS, no certificate
    check_refused(
        decode_policy, kPolicyApi, kinds::kIngressBackend.kind,
        {
            {https_with("") + kAnyone, "spec.backends[0]", "add an AuthenticatedPrincipal"},
            {https_with(", tls: {skipClientCertValidation: false}") + kAnyone, "spec.backends[0]",
             "add an AuthenticatedPrincipal"},
        });
  }

  TEST_CASE("faults of an IngressBackend are refused with their fields") {
    check_refused(
        decode_policy, kPolicyApi, kinds::kIngressBackend.kind,
        {
            {kAnyone, "spec.backends", "required"},
            {kHttp, "spec.sources", "required"},
            {"backends: [{name: api, port: {number: 80, protocol: http}}, {name: api, port: "
             "{number: 80, protocol: http}}]\n" +
                 kAnyone,
             "spec.backends[1]", "backend api port 80 a second time", ErrorCode::kDuplicateObject},
            {"backends: [{name: Api, port: {number: 80, protocol: http}}]\n" + kAnyone,
             "spec.backends[0].name", "DNS label"},
            {"backends: [{name: api}]\n" + kAnyone, "spec.backends[0].port", "required"},
            {"backends: [{name: api, port: {number: 0, protocol: http}}]\n" + kAnyone,
             "spec.backends[0].port.number", "from 1 to 65535"},
            {"backends: [{name: api, port: {number: 80}}]\n" + kAnyone,
             "spec.backends[0].port.protocol", "required"},
            {"backends: [{name: api, port: {number: 80, protocol: tcp}}]\n" + kAnyone,
             "spec.backends[0].port.protocol", "http, https"},
            {https_with(", tls: {sniHosts: [a.b]}") + kPrincipal,
             "spec.backends[0].tls.skipClientCertValidation", "required"},
            {https_with(", tls: {skipClientCertValidation: 'no'}") + kPrincipal,
             "spec.backends[0].tls.skipClientCertValidation", "true or false"},
            {https_with(", tls: {skipClientCertValidation: true, sniHosts: ['a b']}") + kPrincipal,
             "spec.backends[0].tls.sniHosts[0]", "such as example.com"},
            {kHttp + "sources: [{kind: Service, name: gw}]", "spec.sources[0].namespace",
             "required"},
            {kHttp + "sources: [{kind: Service, namespace: a}]", "spec.sources[0].name",
             "required"},
            {kHttp + "sources: [{kind: AuthenticatedPrincipal}]", "spec.sources[0].name",
             "required"},
            {kHttp + "sources: [{kind: IPRange, name: 10.0.0.1}]", "spec.sources[0].name",
             "IPv4 network"},
            {kHttp + "sources: [{kind: Pod, name: a, namespace: b}]", "spec.sources[0].kind",
             "Service, IPRange, AuthenticatedPrincipal"},
            {kHttp + "sources: [{name: a}]", "spec.sources[0].kind", "required"},
            {kHttp + kAnyone + "matches: [{kind: a, name: b}]", "spec.matches[0].apiGroup",
             "required"},
            {kHttp + kAnyone + "match: []", "spec.match", "no such field"},
        });
  }

  TEST_CASE("a mistyped field is refused at every depth") {
    const std::string x = "no such field";
    check_refused(
        decode_policy, kPolicyApi, kinds::kEgress.kind,
        {
            {"sources: [{kind: ServiceAccount, name: a, namespace: b, x: 1}]\n" + kPorts,
             "spec.sources[0].x", x},
            {kFrom + "ports: [{number: 1, protocol: tcp, x: 1}]", "spec.ports[0].x", x},
            {kFrom + kPorts + "matches: [" + kGroup.substr(0, kGroup.size() - 1) + ", x: 1}]",
             "spec.matches[0].x", x},
        });
    check_refused(
        decode_policy, kPolicyApi, kinds::kIngressBackend.kind,
        {
            {kHttp + "sources: [{kind: IPRange, name: 10.0.0.0/8, x: 1}]", "spec.sources[0].x", x},
            {"backends: [{name: a, port: {number: 1, protocol: http}, x: 1}]\n" + kAnyone,
             "spec.backends[0].x", x},
            {"backends: [{name: a, port: {number: 1, protocol: http, x: 1}}]\n" + kAnyone,
             "spec.backends[0].port.x", x},
            {https_with(", tls: {skipClientCertValidation: true, x: 1}") + kAnyone,
             "spec.backends[0].tls.x", x},
        });
  }

  TEST_CASE("every fault of a policy is said at once, and a broken one is not said to be stored") {
    const auto decoded =
        decode_policy(object_of(kPolicyApi, "Egress", "sources: []\nports: [{}]\nhosts: ['/']"));
    CHECK_FALSE(decoded.value);
    std::vector<std::string> fields;
    for (const Problem& problem : decoded.problems) fields.push_back(problem.field);
    CHECK(fields == std::vector<std::string>{"spec.hosts[0]", "spec.ports[0].number",
                                             "spec.ports[0].protocol"});
  }

  TEST_CASE("a policy of unbounded length is refused as too large") {
    std::string spec = kFrom + kPorts + "hosts: [";
    for (int i = 0; i < 1025; ++i) spec += "a.b,";
    check_refused(decode_policy, kPolicyApi, kinds::kEgress.kind,
                  {{spec + "]", "spec.hosts", "at most 1024", ErrorCode::kTooLarge}});
  }
}
