// Statistics of requests by caller, for Prometheus: an access logger that writes no log.
// envoy_osm_request_total counts by caller and status, envoy_osm_request_duration_ms measures.
#pragma once

#include "envoy/config/accesslog/v3/accesslog.pb.h"

namespace osm::inline v1::translate {

// Counts at the server's proxy, which has authenticated the caller. It names neither proxy, Service
// nor port, so that it is the same for every chain, and chains add up in one series.
envoy::config::accesslog::v3::AccessLog request_metrics();

// Counts the requests that were refused for the name of a header, by caller, as
// envoy_osm_refused_header_name_total: those with the metadata osm.refused, which the check sets.
envoy::config::accesslog::v3::AccessLog refused_header_names();

}  // namespace osm::inline v1::translate
