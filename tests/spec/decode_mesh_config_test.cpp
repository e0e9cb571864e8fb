// MeshConfig's tracing, authorization, health checks and gateway are decoded with their defaults.
#include "spec/decode_cases.hpp"

using namespace osm;
using namespace osm::spec;

TEST_SUITE("spec::decode_mesh_config") {
  TEST_CASE("tracing, external authorization and health checks are read") {
    const auto config = good(decode_mesh_config(object_of(kConfigApi, "MeshConfig", R"(traffic:
  inboundExternalAuthorization:
    {enable: true, address: opa.auth.svc, port: 9191, statPrefix: opa, timeout: 1.5s, failureModeAllow: true}
observability:
  tracing: {enable: true, address: fd00::7, port: 9412, endpoint: /spans}
featureFlags: {enableEnvoyActiveHealthChecks: true, enableWASMStats: true})")));
    CHECK(config.proxy.external_authorization ==
          ExternalAuthorization{.enabled = true,
                                .address = "opa.auth.svc",
                                .port = Port{9191},
                                .stat_prefix = "opa",
                                .timeout = std::chrono::milliseconds(1500),
                                .failure_mode_allow = true});
    CHECK(config.proxy.tracing == TracingConfig{true, "fd00::7", Port{9412}, "/spans"});
    CHECK(config.proxy.active_health_checks);
    CHECK(config.proxy.request_metrics);
  }

  TEST_CASE("spans go by OpenTelemetry where tracing names it, to its own default port") {
    const auto decode = [](const char* fields) {
      return decode_mesh_config(
          object_of(kConfigApi, "MeshConfig",
                    "observability: {tracing: {enable: true, " + std::string(fields) + "}}"));
    };
    const auto config = good(decode("protocol: OpenTelemetry, address: a"));
    CHECK(config.proxy.tracing.protocol == TracingProtocol::kOpenTelemetry);
    CHECK(config.proxy.tracing.port == Port{4317});
    CHECK(good(decode("protocol: OpenTelemetry, port: 1")).proxy.tracing.port == Port{1});
    CHECK(good(decode("protocol: Zipkin")).proxy.tracing.protocol == TracingProtocol::kZipkin);
    const auto noted = decode("protocol: OpenTelemetry, endpoint: /spans");
    REQUIRE(noted.value);
    REQUIRE(noted.problems.size() == 1);
    CHECK(noted.problems[0].field == "spec.observability.tracing.endpoint");
    CHECK(noted.problems[0].code == ErrorCode::kUnusedField);
  }

  TEST_CASE("absent and empty settings have the original's defaults") {
    const auto config = good(decode_mesh_config(object_of(kConfigApi, "MeshConfig", R"(traffic:
  inboundExternalAuthorization: {enable: true, address: 10.0.0.7, port: 9191, statPrefix: ''}
observability: {tracing: {enable: true, address: '', endpoint: ''}})",
                                                          "osm-mesh-config", "osm-system")));
    CHECK(config.proxy.external_authorization ==
          ExternalAuthorization{.enabled = true, .address = "10.0.0.7", .port = Port{9191}});
    CHECK(config.proxy.external_authorization.timeout == std::chrono::seconds(1));
    CHECK_FALSE(config.proxy.external_authorization.failure_mode_allow);
    CHECK(config.proxy.tracing ==
          TracingConfig{true, "jaeger.osm-system.svc.cluster.local", Port{9411}, "/api/v2/spans"});
  }

  TEST_CASE("a disabled server needs no address, and disabled is the default") {
    const auto config = good(decode_mesh_config(object_of(kConfigApi, "MeshConfig", R"(traffic:
  inboundExternalAuthorization: {enable: false}
observability: {tracing: {port: 9411}})")));
    CHECK_FALSE(config.proxy.external_authorization.enabled);
    CHECK_FALSE(config.proxy.tracing.enabled);
  }

  TEST_CASE("IngressBackends are obeyed unless the flag says no") {
    const auto ingress = [](const std::string& flags) {
      return good(decode_mesh_config(object_of(kConfigApi, "MeshConfig", "featureFlags: " + flags)))
          .proxy.ingress;
    };
    CHECK(ingress("{}"));
    CHECK(ingress("{enableIngressBackendPolicy: true}"));
    CHECK_FALSE(ingress("{enableIngressBackendPolicy: false}"));
  }

  TEST_CASE("feature flags without effect say what is missing") {
    const auto decoded = decode_mesh_config(
        object_of(kConfigApi, "MeshConfig", "featureFlags: {enableMulticlusterMode: true}"));
    REQUIRE(decoded.value);
    REQUIRE(decoded.problems.size() == 1);
    CHECK(decoded.problems[0].field == "spec.featureFlags.enableMulticlusterMode");
    CHECK(decoded.problems[0].cause.find("nothing to switch") != std::string::npos);
    CHECK(decoded.problems[0].code == ErrorCode::kUnusedField);
  }

  TEST_CASE("Egresses are obeyed unless the feature flag says no") {
    const auto obeyed = [](const std::string& spec) {
      return good(decode_mesh_config(object_of(kConfigApi, "MeshConfig", spec)))
          .proxy.egress_policy;
    };
    CHECK(obeyed("featureFlags: {}"));
    CHECK(obeyed("featureFlags: {enableEgressPolicy: true}"));
    CHECK_FALSE(obeyed("featureFlags: {enableEgressPolicy: false}"));
  }

  TEST_CASE("ambiguous values are refused with the field") {
    const std::string authorization = "spec.traffic.inboundExternalAuthorization";
    const std::string tracing = "spec.observability.tracing";
    const auto with = [](std::string section, const std::string& text) {
      return section + ": {" + text + "}";
    };
    const auto authorized = [&](const std::string& text) {
      return with("traffic: {inboundExternalAuthorization", text) + "}";
    };
    const auto traced = [&](const std::string& text) {
      return with("observability: {tracing", text) + "}";
    };
    check_wrong<MeshConfig>(
        kConfigApi, "MeshConfig", by_default(decode_mesh_config),
        {
            {authorized("enabled: true, address: a, port: 1"), kField, authorization + ".enabled",
             7, "no such field"},
            {authorized("enable: true, port: 1"), kField, authorization + ".address", 7,
             "the server to ask"},
            {authorized("enable: true, address: a"), kField, authorization + ".port", 7,
             "required where enable"},
            {authorized("address: 'http://a'"), kField, authorization + ".address", 7,
             "without scheme and port"},
            {authorized("port: 65536"), kField, authorization + ".port", 7, "from 1 to 65535"},
            {authorized("timeout: 0s"), kField, authorization + ".timeout", 7, "from 1ms to 1m"},
            {authorized("timeout: soon"), kField, authorization + ".timeout", 7, "such as 500ms"},
            {authorized("statPrefix: 'a b'"), kField, authorization + ".statPrefix", 7, "letters"},
            {authorized("failureModeAllow: yes"), kField, authorization + ".failureModeAllow", 7,
             "true or false"},
            {traced("address: 'a:9411'"), kField, tracing + ".address", 7,
             "without scheme and port"},
            {traced("port: 0"), kField, tracing + ".port", 7, "from 1 to 65535"},
            {traced("endpoint: api/v2/spans"), kField, tracing + ".endpoint", 7, "a path"},
            {traced("endpoint: '/a b'"), kField, tracing + ".endpoint", 7, "a path"},
            {traced("protocol: Jaeger"), kField, tracing + ".protocol", 7, "Zipkin, OpenTelemetry"},
            {traced("sampling: 1"), kField, tracing + ".sampling", 7, "no such field"},
            {"featureFlags: {enableEnvoyActiveHealthChecks: 1}", kField,
             "spec.featureFlags.enableEnvoyActiveHealthChecks", 7, "true or false"},
        });
  }

  TEST_CASE("a gateway's certificate is read") {
    const std::string field = "spec.certificate.ingressGateway";
    const auto decode = [](const std::string& text) {
      return decode_mesh_config(
          object_of(kConfigApi, "MeshConfig", "certificate: {ingressGateway: {" + text + "}}"));
    };
    const std::string secret = "secret: {name: s, namespace: n}";
    const auto decoded = decode("subjectAltNames: [a.example], validityDuration: 1h, " + secret);
    REQUIRE(decoded.value);
    CHECK(decoded.value->certificates.ingress_gateway ==
          IngressGatewayCertificate{{"a.example"}, std::chrono::hours(1), "s", "n"});
    CHECK(decoded.problems.empty());

    const std::pair<std::string, std::string> wrong[] = {
        {"subjectAltNames: [], " + secret, ".subjectAltNames"},
        {secret, ".subjectAltNames"},
        {"subjectAltNames: ['*.example'], " + secret, ".subjectAltNames[0]"},
        {"subjectAltNames: [a.example], validityDuration: 1s, " + secret, ".validityDuration"},
        {"subjectAltNames: [a.example]", ".secret"},
        {"subjectAltNames: [a.example], secret: {name: s}", ".secret.namespace"},
        {"subjectAltNames: [a.example], dns: true, " + secret, ".dns"}};
    for (const auto& [text, where] : wrong) {
      CAPTURE(text);
      const auto refused = decode(text);
      CHECK_FALSE(refused.value);
      REQUIRE(refused.problems.size() == 1);
      CHECK(refused.problems[0].field == field + where);
      CHECK(refused.problems[0].code == kField);
    }
  }
}
