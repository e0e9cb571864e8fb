#include "translate/request_metrics.hpp"

#include "envoy/extensions/access_loggers/stats/v3/stats.pb.h"
#include "translate/pack_any.hpp"

namespace osm::inline v1::translate {
namespace {

using envoy::extensions::access_loggers::stats::v3::Config;

// SPIFFE ids as TLS verified them. Envoy could take them apart (CEL), at 50 us for each part of
// each request, as much as the rest of the request costs; Prometheus does it at each scrape.
constexpr const char* kSource = "%DOWNSTREAM_PEER_URI_SAN%";
constexpr const char* kDestination = "%DOWNSTREAM_LOCAL_URI_SAN%";

void add_tag(Config::Stat& stat, const char* name, const char* value) {
  auto& tag = *stat.add_tags();
  tag.set_name(name);
  tag.set_value_format(value);
}

}  // namespace

// A tag's value must come from an identity, a status or the configuration: a caller that chooses it
// could make series without end.
envoy::config::accesslog::v3::AccessLog request_metrics() {
  Config config;
  // Deprecated since Envoy 1.39 in favour of stats_scope, which 1.38 does not know.
  config.set_stat_prefix("osm");

  auto& requests = *config.add_counters();
  requests.mutable_value_fixed()->set_value(1);
  requests.mutable_stat()->set_name("request_total");
  add_tag(*requests.mutable_stat(), "source", kSource);
  add_tag(*requests.mutable_stat(), "destination", kDestination);
  add_tag(*requests.mutable_stat(), "response_code", "%RESPONSE_CODE%");

  // Without the source: a histogram has 22 series, and callers come and go.
  auto& durations = *config.add_histograms();
  durations.set_unit(Config::Histogram::Milliseconds);
  durations.set_value_format("%DURATION%");
  durations.mutable_stat()->set_name("request_duration_ms");
  add_tag(*durations.mutable_stat(), "destination", kDestination);

  envoy::config::accesslog::v3::AccessLog log;
  set_extension(log, "envoy.access_loggers.stats", config);
  return log;
}

}  // namespace osm::inline v1::translate
