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

// A counter of requests, by the ends of the call.
Config::Counter& add_request_counter(Config& config, const char* name) {
  auto& counter = *config.add_counters();
  counter.mutable_value_fixed()->set_value(1);
  counter.mutable_stat()->set_name(name);
  add_tag(*counter.mutable_stat(), "source", kSource);
  add_tag(*counter.mutable_stat(), "destination", kDestination);
  return counter;
}

// Deprecated since Envoy 1.39 in favour of stats_scope, which 1.38 does not know.
void set_prefix(Config& config) { config.set_stat_prefix("osm"); }

}  // namespace

// A tag's value must come from an identity, a status or the configuration: a caller that chooses it
// could make series without end.
envoy::config::accesslog::v3::AccessLog request_metrics() {
  Config config;
  set_prefix(config);
  auto& requests = add_request_counter(config, "request_total");
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

envoy::config::accesslog::v3::AccessLog refused_header_names() {
  Config config;
  set_prefix(config);
  add_request_counter(config, "refused_header_name_total");
  envoy::config::accesslog::v3::AccessLog log;
  set_extension(log, "envoy.access_loggers.stats", config);
  auto& filter = *log.mutable_filter()->mutable_metadata_filter();
  filter.mutable_match_if_key_not_found()->set_value(false);
  filter.mutable_matcher()->set_filter("osm");
  filter.mutable_matcher()->add_path()->set_key("refused");
  filter.mutable_matcher()->mutable_value()->set_present_match(true);
  return log;
}

}  // namespace osm::inline v1::translate
