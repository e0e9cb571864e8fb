// An Egress is read; bad elements are left out alone, and a list of bad ones allows nothing.
#include <doctest/doctest.h>

#include "model/links.hpp"
#include "osm/values/egress.hpp"
#include "spec/decode.hpp"
#include "spec/decode_cases.hpp"

using namespace osm;
using namespace osm::spec;

namespace {

const std::string kFrom = "sources: [{kind: ServiceAccount, name: web, namespace: shop}]\n";
const std::string kPorts = "ports: [{number: 443, protocol: https}]\n";
const std::string kGroup =
    "{apiGroup: specs.smi-spec.io/v1alpha4, kind: HTTPRouteGroup, name: pay}";
const std::string kSetting =
    "{apiGroup: policy.openservicemesh.io/v1alpha1, kind: UpstreamTrafficSetting, name: slow}";

DecodedPolicy decoded(const std::string& spec) {
  return decode_egress(object_of(kPolicyApi, "Egress", spec));
}

// Faults are allowed.
Egress egress_of(const std::string& spec) {
  const DecodedPolicy policy = decoded(spec);
  REQUIRE_MESSAGE(policy.value, policy.problems.front().text());
  return *policy.value->get<Egress>();
}

// The one fault of a spec of which only an element is left out.
Problem fault_of(const std::string& spec) {
  CAPTURE(spec);
  const DecodedPolicy policy = decoded(spec);
  CHECK(policy.value);
  REQUIRE(policy.problems.size() == 1);
  return policy.problems[0];
}

}  // namespace

TEST_SUITE("spec.egress") {
  TEST_CASE("an Egress is read, and reaches the proxies of its sources") {
    const DecodedPolicy policy =
        decoded(kFrom +
                "ports: [{number: 443, protocol: HTTPS}, {number: 8080, protocol: http}, "
                "{number: 25, protocol: Tcp-Server-First}, {number: 5432, protocol: tcp}]\n"
                "hosts: [Pay.example.com., '*.example.com', 'api.example.com.:8080', 192.0.2.7]\n"
                "ipAddresses: [198.51.100.7/24, 192.0.2.1/32, 198.51.100.0/24]\n"
                "matches: [" +
                kGroup + ", " + kSetting + "]");
    CHECK(policy.problems.empty());
    REQUIRE(policy.value);
    const Egress& egress = *policy.value->get<Egress>();
    CHECK(egress.sources == std::vector<ServiceIdentity>{{"shop", "web"}});
    CHECK(egress.hosts == std::vector<EgressHost>{{"pay.example.com", {}},
                                                  {"*.example.com", {}},
                                                  {"api.example.com", Port{8080}},
                                                  {"192.0.2.7", {}}});
    CHECK(egress.networks ==
          std::vector<Ipv4Network>{{0xC0000201, 32}, {0xC6336400, 24}});  // without host bits, once
    using enum EgressProtocol;
    CHECK(egress.ports == std::vector<EgressPort>{{Port{443}, kHttps},
                                                  {Port{8080}, kHttp},
                                                  {Port{25}, kTcpServerFirst},
                                                  {Port{5432}, kTcp}});
    CHECK(egress.route_groups == std::vector<std::string>{"pay"});
    CHECK(egress.setting == "slow");
    CHECK(model::links_of(*policy.value).entries ==
          std::vector<model::EntryKey>{ServiceIdentity{"shop", "web"}});
  }

  TEST_CASE("a list that is absent or empty means any") {
    for (const std::string& lists : {std::string(), std::string("hosts: []\nipAddresses: []\n"
                                                                "matches: []\n")}) {
      const Egress egress = egress_of(kFrom + kPorts + lists);
      CHECK_FALSE(egress.hosts);
      CHECK_FALSE(egress.networks);
      CHECK_FALSE(egress.route_groups);
    }
    CHECK_FALSE(egress_of(kFrom + kPorts + "ipAddresses: [10.0.0.0/8, 0.0.0.0/0]").networks);
    CHECK_FALSE(egress_of(kFrom + kPorts + "matches: [" + kSetting + "]").route_groups);
  }

  TEST_CASE("a list of bad elements is empty and does not mean any") {
    const Egress egress = egress_of(kFrom + kPorts +
                                    "hosts: ['https://a.b/']\nipAddresses: [192.0.2.1]\n"
                                    "matches: [{apiGroup: v1, kind: TCPRoute, name: a}]");
    CHECK(egress.hosts == std::vector<EgressHost>());
    CHECK(egress.networks == std::vector<Ipv4Network>());
    CHECK(egress.route_groups == std::vector<std::string>());
  }

  TEST_CASE("faults of an Egress are refused with their fields") {
    check_refused(
        decode_egress, kPolicyApi, kinds::kEgress.kind,
        {
            {kPorts, "spec.sources", "required"},
            {kFrom, "spec.ports", "required"},
            {kFrom + kPorts + "host: [a.b]", "spec.host", "known here: sources, hosts"},
            {kFrom + kPorts + "hosts: a.b", "spec.hosts", "must be a list"},
            {kFrom + kPorts + "ipAddresses: 10.0.0.0/8", "spec.ipAddresses", "must be a list"},
            {kFrom + kPorts + "matches: [" + kSetting + ", " + kSetting + "]", "spec.matches[1]",
             "one at most"},
            {kFrom + kPorts + "matches: [{apiGroup: v1, kind: UpstreamTrafficSetting, name: a}]",
             "spec.matches[0].apiGroup", "must be policy.openservicemesh.io/v1alpha1"},
            {kFrom + kPorts +
                 "matches: [{apiGroup: policy.openservicemesh.io/v1alpha1, kind: "
                 "UpstreamTrafficSetting}]",
             "spec.matches[0].name", "required"},
        });
  }

  TEST_CASE("a bad element is left out alone") {
    struct Row {
      std::string spec;
      std::string field;
      std::string cause;
      ErrorCode code = kField;
    };
    const auto port = [](const std::string& text) { return kFrom + "ports: [" + text + "]"; };
    const auto host = [](const std::string& text) {
      return kFrom + kPorts + "hosts: ['" + text + "']";
    };
    const auto match = [](const std::string& text) {
      return kFrom + kPorts + "matches: [{" + text + "}]";
    };
    const auto source = [](const std::string& text) {
      return "sources: [{" + text + "}]\n" + kPorts;
    };
    for (const Row& row : std::vector<Row>{
             {source("kind: Group, name: a, namespace: shop"), "spec.sources[0].kind",
              "must be ServiceAccount"},
             {source("kind: ServiceAccount, name: a"), "spec.sources[0].namespace", "required"},
             {source("kind: ServiceAccount, name: A, namespace: shop"), "spec.sources[0].name",
              "DNS label"},
             {source("kind: ServiceAccount, name: a, namespace: store"),
              "spec.sources[0].namespace", "must be the Egress's own namespace, shop",
              ErrorCode::kCrossNamespace},
             {source("kind: ServiceAccount, name: a, namespace: shop, x: 1"), "spec.sources[0].x",
              "no such field"},
             {host("https://a.b/"), "spec.hosts[0]", "without scheme"},
             {host("a.b:"), "spec.hosts[0]", "such as example.com"},
             {host("a.*.b"), "spec.hosts[0]", "such as example.com"},
             {host("*"), "spec.hosts[0]", "such as example.com"},
             {host("1.2.3"), "spec.hosts[0]", "such as example.com"},
             {host("*.192.0.2.1"), "spec.hosts[0]", "such as example.com"},
             {host(""), "spec.hosts[0]", "must not be empty"},
             {host("a.b:80"), "spec.hosts[0]", "names port 80, which spec.ports does not have"},
             {host("localhost"), "spec.hosts[0]", "own machine"},
             {host("*.LocalHost:443"), "spec.hosts[0]", "own machine"},
             {host("127.0.0.1"), "spec.hosts[0]", "own machine"},
             {kFrom + kPorts + "ipAddresses: [192.0.2.1]", "spec.ipAddresses[0]", "IPv4 network"},
             {kFrom + kPorts + "ipAddresses: [192.0.2.0/33]", "spec.ipAddresses[0]",
              "IPv4 network"},
             {port("{number: 0, protocol: tcp}"), "spec.ports[0].number", "from 1 to 65535"},
             {port("{number: 65536, protocol: tcp}"), "spec.ports[0].number", "from 1 to 65535"},
             {port("{protocol: tcp}"), "spec.ports[0].number", "required"},
             {port("{number: 1}"), "spec.ports[0].protocol", "required"},
             {port("{number: 1, protocol: udp}"), "spec.ports[0].protocol",
              "http, https, tcp, tcp-server-first"},
             {port("{number: 1, protocol: tcp, x: 1}"), "spec.ports[0].x", "no such field"},
             {port("{number: 1, protocol: http}"), "spec.ports[0]", "needs spec.hosts"},
             {match("apiGroup: v1, kind: HTTPRouteGroup, name: a"), "spec.matches[0]",
              "must be an HTTPRouteGroup of specs.smi-spec.io/v1alpha4"},
             {match("apiGroup: specs.smi-spec.io/v1alpha4, kind: TCPRoute, name: a"),
              "spec.matches[0]", "or an UpstreamTrafficSetting of policy.openservicemesh.io"},
             {match("kind: HTTPRouteGroup, name: a"), "spec.matches[0].apiGroup", "required"},
             {match("apiGroup: a, name: a"), "spec.matches[0].kind", "required"},
             {match("apiGroup: specs.smi-spec.io/v1alpha4, kind: HTTPRouteGroup"),
              "spec.matches[0].name", "required"},
             {match("apiGroup: specs.smi-spec.io/v1alpha4, kind: HTTPRouteGroup, name: a, x: 1"),
              "spec.matches[0].x", "no such field"},
         }) {
      const Problem problem = fault_of(row.spec);
      CAPTURE(problem.text());
      CHECK(problem.code == row.code);
      CHECK(problem.field == row.field);
      CHECK(problem.cause.find(row.cause) != std::string::npos);
      CHECK(problem.cause.find("is left out of a stored object") != std::string::npos);
    }
  }

  TEST_CASE("hosts that do not narrow tcp ports are told") {
    const std::string hosts = "hosts: [db.example.com]\n";
    const std::string tcp = kFrom + "ports: [{number: 5432, protocol: tcp}]\n";
    const Problem problem = fault_of(tcp + hosts);
    CHECK(problem.code == ErrorCode::kUnusedField);
    CHECK(problem.field == "spec.hosts");
    CHECK(problem.cause.find("port 5432 is open to every address") != std::string::npos);
    CHECK(decoded(tcp).problems.empty());
    CHECK(decoded(tcp + hosts + "ipAddresses: [192.0.2.0/24]").problems.empty());
  }

  TEST_CASE("an Egress of unbounded cost is refused as too large") {
    std::string hosts = "hosts: [", networks = "ipAddresses: [";
    for (int i = 0; i < 65; ++i) {
      hosts += "h" + std::to_string(i) + ".example.com,";
      networks += "10.0." + std::to_string(i) + ".0/24,";
    }
    check_refused(decode_egress, kPolicyApi, kinds::kEgress.kind,
                  {{kFrom + kPorts + hosts + "]\n" + networks + "]", "spec", "4225 combinations",
                    ErrorCode::kTooLarge}});
    CHECK(decoded(kFrom + kPorts + hosts + "]").problems.empty());
  }
}
