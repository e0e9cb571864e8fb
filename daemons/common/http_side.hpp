// Public data on --http-address: health, metrics, version. Plain HTTP; no
// configuration but what is wrong with it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "osm/net/http.hpp"
#include "osm/object.hpp"
#include "osm/runtime/prometheus_registry.hpp"

namespace osm::daemon {

struct HttpSideOptions {
  net::PrometheusRegistry& metrics;  // outlives the handler
  // Reasons not to be ready, in words; empty: ready. Thread: any.
  std::function<std::vector<std::string>()> missing;
  std::function<std::vector<Problem>()> problems;  // each becomes a sample. Thread: any.
};

net::Handler make_http_side(const HttpSideOptions& options);

// {"version","commit","envoy_api"}: of /version, and of the admin API's.
net::Response version_response();

// The texts of HELP for every metric of the library and its daemons.
void describe_metrics(net::PrometheusRegistry& metrics);

}  // namespace osm::daemon
