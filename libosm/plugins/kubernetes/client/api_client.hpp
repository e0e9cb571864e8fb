// The API of a server, over HTTP.
//
// It handles objects, errors and metrics only; the caller (informer) decides about retries.
// Blocking calls wait out a "too many requests" for a few seconds.
#pragma once

#include <memory>
#include <string>

#include "kubernetes/client/api.hpp"
#include "kubernetes/client/credentials.hpp"
#include "osm/executor.hpp"
#include "osm/metrics.hpp"
#include "osm/net/http_client.hpp"

namespace osm::inline v1::kubernetes {

struct ApiClientOptions {
  std::string base_path{};  // before every path: "/k8s/clusters/a"
  std::shared_ptr<Credentials> credentials;
  net::HttpClient& http;  // this and the rest outlive the client, which outlives its handles
  Executor& blocking;     // runs credential plugins
  MetricsSink& metrics;
};

std::unique_ptr<Api> make_api_client(const ApiClientOptions& options);

}  // namespace osm::inline v1::kubernetes
