// An IngressBackend is read; a bad backend or source is left out alone, and a backend whose
// callers no source limits is left out.
#include <doctest/doctest.h>

#include "model/links.hpp"
#include "osm/values/ingress_backend.hpp"
#include "spec/decode.hpp"
#include "spec/decode_cases.hpp"

using namespace osm;
using namespace osm::spec;

namespace {

const std::string kHttp = "backends: [{name: api, port: {number: 80, protocol: http}}]\n";
const std::string kAnyone = "sources: [{kind: IPRange, name: 0.0.0.0/0}]\n";
const std::string kPrincipal = "sources: [{kind: AuthenticatedPrincipal, name: gw.ingress}]\n";

std::string https_with(const std::string& tls) {
  return "backends: [{name: api, port: {number: 443, protocol: https}" + tls + "}]\n";
}

DecodedPolicy decoded(const std::string& spec) {
  return decode_ingress_backend(object_of(kPolicyApi, "IngressBackend", spec));
}

// A policy without any problem.
IngressBackend good_one(const std::string& spec) {
  const DecodedPolicy out = decoded(spec);
  for (const Problem& problem : out.problems) FAIL_CHECK(problem.text());
  REQUIRE(out.value);
  return *out.value->get<IngressBackend>();
}

// Checks that one element is left out, for one reason. Result: the rest.
IngressBackend without_element(const std::string& spec, const std::string& field,
                               const std::string& cause, ErrorCode code = kField) {
  CAPTURE(spec);
  const DecodedPolicy out = decoded(spec);
  REQUIRE(out.value);
  REQUIRE(out.problems.size() == 1);
  CAPTURE(out.problems[0].text());
  CHECK(out.problems[0].code == code);
  CHECK(out.problems[0].field == field);
  CHECK(out.problems[0].cause.find(cause) != std::string::npos);
  return *out.value->get<IngressBackend>();
}

}  // namespace

TEST_SUITE("spec.ingress") {
  TEST_CASE("an IngressBackend is read, and reaches its Services") {
    const std::string spec =
        "backends:\n- {name: api, port: {number: 80, protocol: http}}\n"
        "- name: web\n  port: {number: 443, protocol: https}\n"
        "  tls: {skipClientCertValidation: false, sniHosts: ['*.Example.com', a.b, a.b]}\n"
        "- {name: web, port: {number: 444, protocol: https}, tls: {skipClientCertValidation: "
        "true}}\n"
        "sources:\n- {kind: Service, name: gw, namespace: edge}\n"
        "- {kind: IPRange, name: 10.0.0.0/8}\n"
        "- {kind: AuthenticatedPrincipal, name: gw.edge}\n"
        "- {kind: AuthenticatedPrincipal, name: 'spiffe://a.b/osm/gateway/edge'}";
    const IngressBackend policy = good_one(spec);
    const ServiceName api{"shop", "api"}, web{"shop", "web"};
    CHECK(policy.backends == std::vector<IngressTarget>{
                                 {api, Port{80}, {}, 0},
                                 {web, Port{443}, IngressTls{true, {"*.example.com", "a.b"}}, 1},
                                 {web, Port{444}, IngressTls{false, {}}, 2}});
    CHECK(policy.services == std::vector<IngressSourceService>{{{"edge", "gw"}, 0}});
    CHECK(policy.networks == std::vector<std::string>{"10.0.0.0/8"});
    CHECK(policy.principals ==
          std::vector<std::string>{"gw.edge", "spiffe://a.b/osm/gateway/edge"});
    CHECK(policy.limits_addresses);
    const DecodedPolicy whole = decoded(spec);
    CHECK(model::links_of(*whole.value).entries == std::vector<model::EntryKey>{api, web, web});
  }

  TEST_CASE("an IngressBackend claims each of its backends' ports") {
    const DecodedPolicy policy =
        decoded(kAnyone +
                "backends:\n- {name: api, port: {number: 80, protocol: http}}\n- {name: 1}\n"
                "- {name: web, port: {number: 80, protocol: http}}");
    REQUIRE(policy.value);
    CHECK(model::links_of(*policy.value).claims ==
          std::vector<model::Claim>{
              {{"shop", "api"}, "has backend api port 80", "spec.backends[0]"},
              {{"shop", "web"}, "has backend web port 80", "spec.backends[2]"}});
  }

  TEST_CASE("a backend whose callers nothing limits admits nobody, and is left out") {
    const std::string names = "and no source names the accepted clients";
    const std::string addresses = "no source limits the callers' addresses";
    const std::string skip = https_with(", tls: {skipClientCertValidation: true}");
    for (const auto& [spec, cause] : std::vector<std::pair<std::string, std::string>>{
             {https_with("") + kAnyone, names},
             {https_with(", tls: {skipClientCertValidation: false}") + kAnyone, names},
             {https_with("") + "sources: []", names},
             {kHttp + "sources: []", addresses},
             {kHttp + kPrincipal, addresses},
             {skip + "sources: []", addresses},
             {skip + kPrincipal, addresses}})
      CHECK(without_element(spec, "spec.backends[0]", cause).backends.empty());
    CHECK_FALSE(good_one(https_with("") + kPrincipal).limits_addresses);
    CHECK(good_one(skip + kAnyone).limits_addresses);
  }

  TEST_CASE("faults of an IngressBackend are refused with their fields") {
    check_refused(decode_ingress_backend, kPolicyApi, "IngressBackend",
                  {
                      {kAnyone, "spec.backends", "required"},
                      {kHttp + kAnyone + "match: []", "spec.match", "no such field"},
                      {"backends: 1\n" + kAnyone, "spec.backends", "must be a list"},
                  });
    const auto decoded_without = decoded(kHttp);
    CHECK_FALSE(decoded_without.value);
    CHECK(decoded_without.problems[0].field == "spec.sources");
  }

  TEST_CASE("an invalid backend is left out alone") {
    const std::string good = ", {name: web, port: {number: 1, protocol: http}}]\n" + kAnyone;
    const std::string x = "no such field";
    for (const auto& [backend, field, cause] :
         std::vector<std::tuple<std::string, std::string, std::string>>{
             {"{name: Api, port: {number: 80, protocol: http}}", ".name", "DNS label"},
             {"{name: api}", ".port", "required"},
             {"{name: api, port: {number: 0, protocol: http}}", ".port.number", "from 1 to 65535"},
             {"{name: api, port: {number: 80}}", ".port.protocol", "required"},
             {"{name: api, port: {number: 80, protocol: tcp}}", ".port.protocol", "http, https"},
             {"{name: api, port: {number: 80, protocol: http}, x: 1}", ".x", x},
             {"{name: api, port: {number: 80, protocol: http, x: 1}}", ".port.x", x},
             {"{name: api, port: {number: 80, protocol: https}, tls: {sniHosts: [a.b]}}",
              ".tls.skipClientCertValidation", "required"},
             {"{name: api, port: {number: 80, protocol: https}, tls: {skipClientCertValidation: "
              "'no'}}",
              ".tls.skipClientCertValidation", "true or false"},
             {"{name: api, port: {number: 80, protocol: https}, tls: {skipClientCertValidation: "
              "true, sniHosts: ['a b']}}",
              ".tls.sniHosts[0]", "such as example.com"},
             {"{name: api, port: {number: 80, protocol: https}, tls: {skipClientCertValidation: "
              "true, sniHosts: ['a.b:443']}}",
              ".tls.sniHosts[0]", "without scheme and port"}}) {
      const DecodedPolicy out = decoded("backends: [" + backend + good);
      CAPTURE(backend);
      REQUIRE(out.value);
      CHECK(out.value->get<IngressBackend>()->backends.size() == 1);
      REQUIRE_FALSE(out.problems.empty());
      CAPTURE(out.problems[0].text());
      CHECK(out.problems[0].field == "spec.backends[0]" + field);
      CHECK(out.problems[0].cause.find(cause) != std::string::npos);
      CHECK(out.problems[0].cause.find("only this backend is left out") != std::string::npos);
    }
    const std::string api = "{name: api, port: {number: 80, protocol: http}}";
    CHECK(without_element("backends: [" + api + ", " + api + "]\n" + kAnyone, "spec.backends[1]",
                          "backend api port 80 a second time", ErrorCode::kDuplicateObject)
              .backends.size() == 1);
  }

  TEST_CASE("an invalid source is left out alone, and still limits addresses") {
    const std::string proven =
        https_with("") + "sources:\n- {kind: AuthenticatedPrincipal, name: gw.edge}\n- ";
    for (const auto& [source, field, cause] :
         std::vector<std::tuple<std::string, std::string, std::string>>{
             {"{kind: Service, name: gw}", ".namespace", "required"},
             {"{kind: Service, namespace: a}", ".name", "required"},
             {"{kind: AuthenticatedPrincipal}", ".name", "required"},
             {"{kind: AuthenticatedPrincipal, name: 'a b'}", ".name", "a DNS name, or"},
             {"{kind: AuthenticatedPrincipal, name: 'spiffe://a/b c'}", ".name", "a SPIFFE id"},
             {"{kind: AuthenticatedPrincipal, name: 'spiffe://a'}", ".name", "a SPIFFE id"},
             {"{kind: AuthenticatedPrincipal, name: 'spiffe:///a'}", ".name", "a SPIFFE id"},
             {"{kind: AuthenticatedPrincipal, name: 'spiffe://a.b/ns/shop/sa/web'}", ".name",
              "which a TrafficTarget admits"},
             {"{kind: IPRange, name: 10.0.0.1}", ".name", "IPv4 network"},
             {"{kind: Pod, name: a, namespace: b}", ".kind",
              "Service, IPRange, AuthenticatedPrincipal"},
             {"{kind: IPRange, name: 10.0.0.0/8, x: 1}", ".x", "no such field"}}) {
      const IngressBackend rest =
          without_element(proven + source, "spec.sources[1]" + field, cause);
      CHECK(rest.limits_addresses);
      CHECK(rest.networks.empty());
      CHECK(rest.services.empty());
      CHECK(rest.principals == std::vector<std::string>{"gw.edge"});
    }
  }

  TEST_CASE("backends times sources are bounded, and so are names in certificates") {
    const auto spec = [](int backends, int sources) {
      std::string out = "backends:\n";
      for (int i = 1; i <= backends; ++i)
        out += "- {name: api, port: {number: " + std::to_string(i) + ", protocol: http}}\n";
      out += "sources:\n";
      for (int i = 0; i < sources; ++i)
        out += "- {kind: IPRange, name: 10.0." + std::to_string(i) + ".0/24}\n";
      return out;
    };
    CHECK(good_one(spec(64, 64)).backends.size() == 64);
    check_refused(
        decode_ingress_backend, kPolicyApi, "IngressBackend",
        {{spec(64, 65), "spec", "4160 combinations, and at most 4096", ErrorCode::kTooLarge}});
    const std::string longest = "spiffe://a.b/" + std::string(499, 'c');
    const std::string https = https_with("") + "sources: [{kind: AuthenticatedPrincipal, name: ";
    CHECK(good_one(https + "'" + longest + "'}]").principals == std::vector{longest});
    CHECK(without_element(
              https + "gw.edge}, {kind: AuthenticatedPrincipal, name: '" + longest + "c'}]",
              "spec.sources[1].name", "at most 512 bytes", ErrorCode::kTooLarge)
              .principals == std::vector<std::string>{"gw.edge"});
  }

  TEST_CASE("parts without effect are notices") {
    for (const auto& [spec, field] : std::vector<std::pair<std::string, std::string>>{
             {kHttp + kAnyone + "matches: [{kind: a}]", "spec.matches"},
             {"backends: [{name: a, port: {number: 1, protocol: http}, tls: "
              "{skipClientCertValidation: true}}]\n" +
                  kAnyone,
              "spec.backends[0].tls"},
             {kHttp + "sources: [{kind: IPRange, name: 10.0.0.0/8}, {kind: AuthenticatedPrincipal, "
                      "name: a}]",
              "spec.sources"}})
      CHECK(without_element(spec, field, "no effect", ErrorCode::kUnusedField).backends.size() ==
            1);
  }
}
