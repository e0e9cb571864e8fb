// Requests to Vault and what becomes of them: answers as JSON, refusals as errors in words.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "osm/clock.hpp"
#include "osm/metrics.hpp"
#include "osm/net/http_client.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::vault {

struct Call {
  std::string_view operation;  // for metrics: "sign"
  std::string path;            // below /v1/: "pki/sign/openservicemesh"
  // Empty: a GET. Else a PUT, which Vault takes as it takes a POST, and the client may repeat on
  // another connection when a kept one turns out to be closed.
  boost::json::object body{};
  std::string token{};  // empty: none is needed
};

struct ApiOptions {
  net::HttpClient& http;  // these outlive the Api
  const Clock& clock;
  MetricsSink& metrics;
  std::string server;  // for errors: "https://vault.example:8200"
  std::string vault_namespace{};
  std::chrono::milliseconds deadline{10000};
};

class Api {
 public:
  explicit Api(ApiOptions options) : options_(std::move(options)) {}

  // Result: what Vault answered; empty when that was nothing.
  // Failure: kUnavailable (not reached, sealed, a standby, too many requests, a defect of its own),
  // kPermissionDenied, kInvalidArgument (it does not take the request, or has nothing at the
  // path), kInternal (not Vault's JSON), kTooLarge; naming server and path, in Vault's words, of
  // which tokens are taken out. Thread: any but those of the client. Blocking: until answered.
  Result<boost::json::object> call(const Call& call);

 private:
  Result<boost::json::object> read(const Call& call, const net::Response& response) const;
  Error error(const Call& call, ErrorCode code, std::string_view cause) const;

  const ApiOptions options_;
};

// A member that is a string / an object / a number of seconds; empty / null / 0 when there is none.
std::string text_of(const boost::json::object& map, std::string_view name);
const boost::json::object* map_of(const boost::json::object& map, std::string_view name);
std::chrono::seconds seconds_of(const boost::json::object& map, std::string_view name);
bool flag_of(const boost::json::object& map, std::string_view name);

}  // namespace osm::inline v1::vault
