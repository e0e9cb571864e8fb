// Telemetries and ExtensionServices are read; a format has only commands that every Envoy knows; a
// bad export is left out alone.
#include <doctest/doctest.h>

#include <chrono>

#include "osm/spec/object_mesh_spec.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/memory_object_store.hpp"
#include "osm/values/telemetry.hpp"
#include "spec/decode.hpp"
#include "spec/decode_cases.hpp"
#include "spec/log_format.hpp"

using namespace osm;
using namespace osm::spec;
using namespace std::chrono_literals;

namespace {

using LogKind = AccessLogFormat::Kind;

DecodedPolicy telemetry(const std::string& spec) {
  return decode_telemetry(object_of(kPolicyApi, "Telemetry", spec));
}

AccessLogFormat format_of(const std::string& yaml) {
  const DecodedPolicy decoded = telemetry("accessLog: {format: " + yaml + "}");
  for (const Problem& problem : decoded.problems) FAIL_CHECK(problem.text());
  REQUIRE(decoded.value);
  return decoded.value->get<Telemetry>()->format;
}

}  // namespace

TEST_SUITE("spec.telemetry") {
  TEST_CASE("a Telemetry is read") {
    const DecodedPolicy decoded = telemetry(R"(selector: {app: web, tier: front}
accessLog:
  format: '%RESPONSE_CODE% %REQ(:METHOD)%'
  openTelemetry:
    extensionService: {namespace: osm-system, name: collector.v1}
    attributes: {team: books, agent: '%REQ(USER-AGENT):20%'})");
    CHECK(decoded.problems.empty());
    REQUIRE(decoded.value);
    const Telemetry expected{
        .selector = {{"app", "web"}, {"tier", "front"}},
        .format = {LogKind::kText, "%RESPONSE_CODE% %REQ(:METHOD)%"},
        .open_telemetry = OpenTelemetryLog{{"osm-system", "collector.v1"},
                                           {{"agent", "%REQ(USER-AGENT):20%"}, {"team", "books"}}}};
    CHECK(*decoded.value->get<Telemetry>() == expected);
    CHECK(*telemetry("{}").value->get<Telemetry>() == Telemetry{});
  }

  TEST_CASE("a format that is a JSON object has one line per request with its keys") {
    CHECK(format_of("'%PROTOCOL%'").kind == LogKind::kText);
    CHECK(format_of(R"('  {"a": "%PROTOCOL%", "b": {"c": "d"}, "a": "%DURATION%"}')") ==
          AccessLogFormat{LogKind::kJson, R"({"a":"%DURATION%","b":{"c":"d"}})"});
  }

  TEST_CASE("faults of a Telemetry are refused with their fields") {
    const std::string format = "spec.accessLog.format";
    check_refused(
        decode_telemetry, kPolicyApi, "Telemetry",
        {{"selector: {app: 1}", "spec.selector.app", "must be a string"},
         {"labels: {}", "spec.labels", "no such field"},
         {"accessLog: {formats: x}", "spec.accessLog.formats", "no such field"},
         {"accessLog: {format: ''}", format, "must not be empty"},
         {"accessLog: {format: '%NOPE%'}", format, "no command that sidecars may use"},
         {"accessLog: {format: '%ENVIRONMENT(HOME)%'}", format, "no command that sidecars may use"},
         {"accessLog: {format: '%FILE_CONTENT(/etc/passwd)%'}", format, "no command"},
         {"accessLog: {format: '100%'}", format, "a percent sign as %%"},
         {"accessLog: {format: '{\"a\": 1}'}", format, "\"a\" must be a text or a map of texts"},
         {"accessLog: {format: '{\"a\": \"%REQ%\"}'}", format, "\"a\" has %REQ%, which needs an"},
         {"accessLog: {format: '{\"a\": '}", format, "is no JSON object"},
         {"accessLog: {format: '" + std::string(4097, 'x') + "'}", format, "at most 4096 bytes",
          ErrorCode::kTooLarge}});
  }

  TEST_CASE("an export that cannot be read is left out alone") {
    const std::string field = "spec.accessLog.openTelemetry";
    const std::string service = "extensionService: {namespace: shop, name: c}";
    for (const auto& [spec, at] : std::vector<std::pair<std::string, std::string>>{
             {"{}", field + ".extensionService"},
             {"{extensionService: {name: c}}", field + ".extensionService.namespace"},
             {"{extensionService: {namespace: shop, name: C}}", field + ".extensionService.name"},
             {"{" + service + ", attributes: {a: '%NOPE%'}}", field + ".attributes"},
             {"{" + service + ", attributes: {a: 1}}", field + ".attributes.a"},
             {"{" + service + ", headers: {}}", field + ".headers"}}) {
      CAPTURE(spec);
      const DecodedPolicy decoded =
          telemetry("accessLog: {format: '%PROTOCOL%', openTelemetry: " + spec + "}");
      REQUIRE(decoded.value);
      CHECK_FALSE(decoded.value->get<Telemetry>()->open_telemetry);
      CHECK(decoded.value->get<Telemetry>()->format.text == "%PROTOCOL%");
      REQUIRE(decoded.problems.size() == 1);
      CHECK(decoded.problems[0].field == at);
      CHECK(decoded.problems[0].cause.find("only this export is left out") != std::string::npos);
    }
  }

  TEST_CASE("commands of Envoy's format are told from other text") {
    for (const char* good :
         {"", "plain", "100%%", "%%%PROTOCOL%%%", "%START_TIME(%Y-%m-%d)%", "%REQ(A?:PATH):10%",
          "%GRPC_STATUS%", "%GRPC_STATUS(SNAKE_STRING)%", "%TRACE_ID%", "%PATH(NQ)%",
          "%REQ_WITHOUT_QUERY(:PATH)%", "%DOWNSTREAM_PEER_URI_SAN%"}) {
      CAPTURE(good);
      CHECK_FALSE(why_bad_log_format(good));
    }
    for (const char* bad :
         {"%", "%%%", "%PROTOCOL", "%protocol%", "% PROTOCOL%", "%REQ%", "%REQ()%", "%REQ(a",
          "%REQ(a)b%", "%REQ(a?b?c)%", "%PROTOCOL(a)%", "%PROTOCOL:3%", "%REQ(a):%", "%REQ(a):x%",
          "%REQ(a):12345678901234567890%"}) {
      CAPTURE(bad);
      CHECK(why_bad_log_format(bad));
    }
  }

  TEST_CASE("Telemetries of the mesh's namespaces and of the control plane's are listed") {
    osm::testing::MemoryObjectStore store;
    osm::testing::CapturingLog log;
    osm::testing::CapturingMetrics metrics;
    const auto put = [&](const std::string& ns) {
      REQUIRE(store
                  .put_yaml("apiVersion: " + kPolicyApi +
                                "\nkind: Telemetry\nmetadata: {name: all, namespace: " + ns +
                                "}\nspec: {}\n",
                            "mesh/a.yaml")
                  .ok());
    };
    REQUIRE(store
                .put_yaml("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: "
                          "{openservicemesh.io/monitored-by: osm}}\n",
                          "mesh/b.yaml")
                .ok());
    const auto spec = make_mesh_spec({.store = store, .log = log, .metrics = metrics});
    CHECK(spec->control_plane_namespace() == "osm-system");
    for (const char* ns : {"shop", "osm-system", "elsewhere"}) put(ns);
    std::vector<std::string> listed;
    for (const auto& policy : spec->list_policies()) listed.push_back(policy->key.str());
    CHECK(listed == std::vector<std::string>{"Telemetry osm-system/all", "Telemetry shop/all"});
    const auto problems = spec->list_problems();
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].object.ns == "elsewhere");
  }

  TEST_CASE("an ExtensionService is read, and its faults are refused with their fields") {
    const auto server = [](const std::string& spec) {
      const auto decoded =
          decode_extension_service(object_of(kConfigApi, "ExtensionService", spec));
      for (const Problem& problem : decoded.problems) FAIL_CHECK(problem.text());
      REQUIRE(decoded.value);
      return *decoded.value->get<ExtensionService>();
    };
    CHECK(server("{host: collector.example, port: 4317}") ==
          ExtensionService{"collector.example", Port{4317}, 5s});
    CHECK(server("{host: fd00::7, port: 1, protocol: h2c, connectTimeout: 250ms}") ==
          ExtensionService{"fd00::7", Port{1}, 250ms});
    check_refused(decode_extension_service, kConfigApi, "ExtensionService",
                  {{"port: 1", "spec.host", "required"},
                   {"{host: 'http://a', port: 1}", "spec.host", "without scheme and port"},
                   {"{host: 'a:1', port: 1}", "spec.host", "without scheme and port"},
                   {"host: a", "spec.port", "must be a port number"},
                   {"{host: a, port: 70000}", "spec.port", "from 1 to 65535"},
                   {"{host: a, port: 1, protocol: https}", "spec.protocol", "grpc, h2c"},
                   {"{host: a, port: 1, connectTimeout: 0s}", "spec.connectTimeout", "from 1ms"},
                   {"{host: a, port: 1, tls: {}}", "spec.tls", "no such field"}});
  }
}
