// Servers count requests by caller, once, with tags that no caller can choose.
#include <set>

#include "envoy/extensions/access_loggers/stats/v3/stats.pb.h"
#include "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.pb.h"
#include "translate/snapshots.hpp"

using namespace osm;
using namespace osm::translate_test;
using envoy::extensions::access_loggers::stats::v3::Config;
using envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;

namespace {

HttpConnectionManager manager_of(const Mesh& mesh, const translate::ProxyClass& of,
                                 const std::string& listener) {
  const auto chain = mesh.listener(of, listener).filter_chains(0);
  return unpack<HttpConnectionManager>(chain.filters(chain.filters_size() - 1).typed_config());
}

Mesh counted(Protocol protocol = Protocol::kHttp) {
  Mesh mesh = worked_example(protocol);
  mesh.snapshot.config.proxy.request_metrics = true;
  return mesh;
}

std::string bytes_of(const Mesh& mesh, const translate::ProxyClass& of, XdsType type) {
  std::string out;
  for (const auto& input : mesh.inputs(of, type)) out += input->encode().any;
  return out;
}

}  // namespace

TEST_SUITE("translate.request_metrics") {
  TEST_CASE("servers count requests by caller and status, and time them by destination") {
    const auto manager = manager_of(counted(), server_class(), "inbound-listener");
    REQUIRE(manager.access_log_size() == 3);
    CHECK(manager.access_log(1).name() == "envoy.access_loggers.stats");
    const auto config = unpack<Config>(manager.access_log(1).typed_config());
    CHECK(config.stat_prefix() == "osm");
    REQUIRE(config.counters_size() == 1);
    CHECK(config.counters(0).stat().name() == "request_total");
    CHECK(config.counters(0).value_fixed().value() == 1);
    REQUIRE(config.histograms_size() == 1);
    CHECK(config.histograms(0).stat().name() == "request_duration_ms");
    CHECK(config.histograms(0).unit() == Config::Histogram::Milliseconds);
  }

  // The bound on series: a value that a caller chooses (path, host, header, address) would have
  // none. A histogram, 22 series, must not depend on the caller at all.
  TEST_CASE("no tag has a value that a caller chooses") {
    const auto config = unpack<Config>(
        manager_of(counted(), server_class(), "inbound-listener").access_log(1).typed_config());
    const std::set<std::string> bounded{"%DOWNSTREAM_PEER_URI_SAN%", "%DOWNSTREAM_LOCAL_URI_SAN%",
                                        "%RESPONSE_CODE%"};
    for (const auto& tag : config.counters(0).stat().tags())
      CHECK(bounded.contains(tag.value_format()));
    REQUIRE(config.histograms(0).stat().tags_size() == 1);
    CHECK(config.histograms(0).stat().tags(0).value_format() == "%DOWNSTREAM_LOCAL_URI_SAN%");
  }

  TEST_CASE("a request is counted once: clients do not count, nor do TCP chains") {
    const Mesh mesh = counted();
    CHECK(manager_of(mesh, client_class(), "outbound_10.96.10.7_80").access_log_size() == 1);
    const auto tcp = server_class(Protocol::kTcp);
    CHECK(bytes_of(counted(Protocol::kTcp), tcp, XdsType::kListener) ==
          bytes_of(worked_example(Protocol::kTcp), tcp, XdsType::kListener));
  }

  TEST_CASE("health checks of sidecars are not counted") {
    Mesh mesh = counted();
    mesh.snapshot.config.proxy.active_health_checks = true;
    const auto manager = manager_of(mesh, server_class(), "inbound-listener");
    for (const auto& log :
         manager.access_log())  // the check of header names comes after the answer
      CHECK((log.filter().has_not_health_check_filter() || log.filter().has_metadata_filter()));
  }

  TEST_CASE("the switch changes inbound HTTP chains alone, and policies change nothing of it") {
    const Mesh off = worked_example(), on = counted();
    for (const XdsType type : kXdsTypes) {
      CHECK(bytes_of(off, client_class(), type) == bytes_of(on, client_class(), type));
      CHECK((bytes_of(off, server_class(), type) == bytes_of(on, server_class(), type)) ==
            (type != XdsType::kListener));
    }
    Mesh open = counted();
    open.permissive();
    CHECK(manager_of(open, server_class(), "inbound-listener").access_log(1).SerializeAsString() ==
          manager_of(on, server_class(), "inbound-listener").access_log(1).SerializeAsString());
  }
}
