// The Telemetry of a class sets the access logs of all its listeners and chains; a new address of
// a collector changes only its cluster; spans go by OpenTelemetry.
#include "envoy/config/trace/v3/opentelemetry.pb.h"
#include "envoy/extensions/access_loggers/open_telemetry/v3/logs_service.pb.h"
#include "envoy/extensions/access_loggers/stream/v3/stream.pb.h"
#include "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.pb.h"
#include "envoy/extensions/filters/network/tcp_proxy/v3/tcp_proxy.pb.h"
#include "envoy/extensions/upstreams/http/v3/http_protocol_options.pb.h"
#include "translate/snapshots.hpp"

using namespace osm;
using namespace osm::translate_test;
using envoy::config::trace::v3::OpenTelemetryConfig;
using envoy::extensions::access_loggers::open_telemetry::v3::OpenTelemetryAccessLogConfig;
using envoy::extensions::access_loggers::stream::v3::StdoutAccessLog;
using envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
using envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
using envoy::extensions::upstreams::http::v3::HttpProtocolOptions;
using Kind = AccessLogFormat::Kind;

namespace {

const TelemetryName kTelemetryName{"server", "log"};
const std::string kCollectorCluster = "extension-service|server/collector";

// The worked example; workloads of classes that name it log as `entry` says.
Mesh logging(AccessLogFormat format, bool exported = false, Protocol protocol = Protocol::kHttp) {
  Mesh mesh = worked_example(protocol);
  model::TelemetryEntry entry{.name = kTelemetryName, .format = std::move(format)};
  if (exported)
    entry.collector = model::TelemetryEntry::Collector{
        {"server", "collector"},
        {"collector.example", Port{4317}, std::chrono::milliseconds(250)},
        {{"agent", "%REQ(USER-AGENT)%"}, {"team", "books"}}};
  mesh.snapshot.telemetries = mesh.snapshot.telemetries.with(
      std::make_shared<const model::TelemetryEntry>(std::move(entry)));
  return mesh;
}

translate::ProxyClass with_telemetry(translate::ProxyClass of) {
  of.telemetry = kTelemetryName;
  return of;
}

// The logs of the listener, and those of its first chain.
template <class Logs>
StdoutAccessLog line_of(const Logs& logs) {
  REQUIRE(logs.size() >= 1);
  CHECK(logs[0].name() == "envoy.access_loggers.stdout");
  return unpack<StdoutAccessLog>(logs[0].typed_config());
}

HttpConnectionManager manager_of(const Listener& listener) {
  const auto& filters = listener.filter_chains(0).filters();
  return unpack<HttpConnectionManager>(filters[filters.size() - 1].typed_config());
}

Listener inbound(const Mesh& mesh, Protocol protocol = Protocol::kHttp) {
  return mesh.listener(with_telemetry(server_class(protocol)), "inbound-listener");
}

std::string value_of(const opentelemetry::proto::common::v1::KeyValueList& list,
                     const std::string& key) {
  for (const auto& member : list.values())
    if (member.key() == key) return member.value().string_value();
  return "";
}

}  // namespace

TEST_SUITE("translate Telemetry") {
  TEST_CASE("every log of the class has the format: listeners', managers' and TCP proxies'") {
    const Mesh mesh = logging({Kind::kText, "%RESPONSE_CODE%"});
    const auto client = mesh.listener(with_telemetry(client_class()), "outbound-listener");
    const auto dialled = mesh.listener(with_telemetry(client_class()), "outbound_10.96.10.7_80");
    const Listener server = inbound(mesh);
    for (const auto& line :
         {line_of(client.access_log()), line_of(manager_of(dialled).access_log()),
          line_of(server.access_log()), line_of(manager_of(server).access_log())})
      CHECK(line.log_format().text_format_source().inline_string() == "%RESPONSE_CODE%\n");
    CHECK(server.access_log(0).filter().response_flag_filter().flags(0) == "NR");

    const Listener tcp =
        inbound(logging({Kind::kText, "%DURATION%\n"}, false, Protocol::kTcp), Protocol::kTcp);
    const auto& filters = tcp.filter_chains(0).filters();
    const auto proxy = unpack<TcpProxy>(filters[filters.size() - 1].typed_config());
    CHECK(line_of(proxy.access_log()).log_format().text_format_source().inline_string() ==
          "%DURATION%\n");
  }

  TEST_CASE("a class without a Telemetry has the default, whatever other classes have") {
    const Mesh mesh = logging({Kind::kText, "%RESPONSE_CODE%"});
    const auto line =
        line_of(manager_of(mesh.listener(server_class(), "inbound-listener")).access_log());
    CHECK(line.log_format().json_format().fields().at("peer_identity").string_value() ==
          "%DOWNSTREAM_PEER_URI_SAN%");
    const auto of_nobody = mesh.encoded(server_class(), XdsType::kListener, "inbound-listener");
    const auto of_default =
        worked_example().encoded(server_class(), XdsType::kListener, "inbound-listener");
    CHECK(of_nobody->any == of_default->any);
  }

  TEST_CASE("a Telemetry without a format keeps the default's bytes") {
    const auto with =
        logging({}).encoded(with_telemetry(server_class()), XdsType::kListener, "inbound-listener");
    const auto without =
        worked_example().encoded(server_class(), XdsType::kListener, "inbound-listener");
    CHECK(with->any == without->any);
  }

  TEST_CASE("JSON has the members of the object") {
    const Mesh mesh = logging({Kind::kJson, R"({"a":"%DURATION%","b":{"c":"d"}})"});
    const auto line = line_of(manager_of(inbound(mesh)).access_log());
    const auto& fields = line.log_format().json_format().fields();
    CHECK(fields.size() == 2);
    CHECK(fields.at("a").string_value() == "%DURATION%");
    CHECK(fields.at("b").struct_value().fields().at("c").string_value() == "d");
  }

  TEST_CASE("the one command that is an extension of Envoy brings its formatter") {
    const auto formatters = [](const char* text) {
      const auto line = line_of(manager_of(inbound(logging({Kind::kText, text}))).access_log());
      return line.log_format().formatters().size();
    };
    CHECK(formatters("%REQ_WITHOUT_QUERY(:PATH)%") == 1);
    CHECK(formatters("%REQ(:PATH)%") == 0);
  }

  TEST_CASE("an export sends the same line as a record to the collector's cluster") {
    const Mesh mesh = logging({Kind::kText, "%RESPONSE_CODE%"}, true);
    const Listener listener = inbound(mesh);
    const auto manager = manager_of(listener);
    REQUIRE(manager.access_log().size() == 3);
    REQUIRE(listener.access_log().size() == 2);
    CHECK(listener.access_log(1).filter().response_flag_filter().flags(0) == "NR");
    const auto& log = manager.access_log(1);
    CHECK(log.name() == "envoy.access_loggers.open_telemetry");
    const auto exported = unpack<OpenTelemetryAccessLogConfig>(log.typed_config());
    CHECK(exported.common_config().grpc_service().envoy_grpc().cluster_name() == kCollectorCluster);
    CHECK(exported.body().string_value() == "%RESPONSE_CODE%");
    CHECK(value_of(exported.resource_attributes(), "service.name") == "server.server");
    CHECK(value_of(exported.attributes(), "team") == "books");
    CHECK(value_of(exported.attributes(), "agent") == "%REQ(USER-AGENT)%");

    const auto of = with_telemetry(server_class());
    const auto references = mesh.encoded(of, XdsType::kListener, "inbound-listener")->references;
    CHECK(std::count(references.begin(), references.end(),
                     translate::EncodedResource::Reference{XdsType::kCluster, kCollectorCluster}) ==
          1);
    const Cluster cluster = mesh.cluster(of, kCollectorCluster);
    CHECK(cluster.type() == Cluster::LOGICAL_DNS);
    CHECK_FALSE(cluster.wait_for_warm_on_init().value());
    CHECK(cluster.connect_timeout().nanos() == 250'000'000);
    CHECK(unpack<HttpProtocolOptions>(cluster.typed_extension_protocol_options().at(
                                          "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"))
              .explicit_http_config()
              .has_http2_protocol_options());
    CHECK_FALSE(mesh.encoded(server_class(), XdsType::kCluster, kCollectorCluster));
  }

  TEST_CASE("records of JSON and of the default are maps") {
    const auto body_of = [](AccessLogFormat format) {
      const auto manager = manager_of(inbound(logging(std::move(format), true)));
      return unpack<OpenTelemetryAccessLogConfig>(manager.access_log(1).typed_config()).body();
    };
    const auto json = body_of({Kind::kJson, R"({"b":{"c":"d"},"a":"%DURATION%"})"});
    CHECK(value_of(json.kvlist_value(), "a") == "%DURATION%");
    CHECK(value_of(json.kvlist_value().values(1).value().kvlist_value(), "c") == "d");
    CHECK(value_of(body_of({}).kvlist_value(), "response_code") == "%RESPONSE_CODE%");
  }

  TEST_CASE("a collector that moves changes its cluster alone") {
    Mesh mesh = logging({}, true);
    const auto of = with_telemetry(server_class());
    const auto before = mesh.encoded(of, XdsType::kListener, "inbound-listener")->any;
    model::TelemetryEntry moved = **mesh.snapshot.telemetries.begin();
    moved.collector->server.host = "10.0.0.9";
    mesh.snapshot.telemetries = mesh.snapshot.telemetries.with(
        std::make_shared<const model::TelemetryEntry>(std::move(moved)));
    CHECK(mesh.encoded(of, XdsType::kListener, "inbound-listener")->any == before);
    CHECK(mesh.cluster(of, kCollectorCluster).type() == Cluster::STATIC);
  }

  TEST_CASE("proxies probe each other without a line in any log") {
    Mesh mesh = logging({}, true);
    mesh.snapshot.config.proxy.active_health_checks = true;
    const auto manager = manager_of(inbound(mesh));
    for (const auto& log : manager.access_log())
      CHECK((log.filter().has_not_health_check_filter() || log.filter().has_metadata_filter()));
  }

  TEST_CASE("spans by OpenTelemetry go to a gRPC cluster and carry the account") {
    Mesh mesh = worked_example();
    mesh.snapshot.config.proxy.tracing = {.enabled = true,
                                          .address = "collector.example",
                                          .port = Port{4317},
                                          .protocol = TracingProtocol::kOpenTelemetry};
    const auto tracing =
        manager_of(mesh.listener(client_class(), "outbound_10.96.10.7_80")).tracing();
    CHECK(tracing.provider().name() == "envoy.tracers.opentelemetry");
    const auto config = unpack<OpenTelemetryConfig>(tracing.provider().typed_config());
    CHECK(config.service_name() == "client.client");
    CHECK(config.grpc_service().envoy_grpc().cluster_name() == "envoy-tracing-cluster");
    const Cluster cluster = mesh.cluster(client_class(), "envoy-tracing-cluster");
    CHECK(cluster.type() == Cluster::LOGICAL_DNS);
    CHECK_FALSE(cluster.wait_for_warm_on_init().value());
    CHECK(cluster.typed_extension_protocol_options().contains(
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"));
  }
}
