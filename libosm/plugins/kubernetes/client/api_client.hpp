// The API of a server, over HTTP.
//
// Objects, errors and metrics only: who decides when to ask again is the caller (informer).
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
  net::HttpClient& http;  // these outlive the client, which outlives the handles it gave out
  Executor& blocking;     // runs credential plugins
  MetricsSink& metrics;
};

std::unique_ptr<Api> make_api_client(const ApiClientOptions& options);

}  // namespace osm::inline v1::kubernetes
