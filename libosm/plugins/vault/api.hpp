// Requests to Vault: answers as JSON, refusals as errors with a text.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "osm/certificate/vault.hpp"
#include "osm/net/http_client.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::vault {

struct Call {
  std::string_view operation;  // for metrics: "sign"
  std::string path;            // below /v1/: "pki/sign/openservicemesh"
  // Empty: GET. Otherwise PUT, which Vault treats like POST, and which the client may repeat on
  // another connection if a kept one turns out to be closed.
  boost::json::object body{};
  SecretBytes token{};  // empty: none is needed
};

class Api {
 public:
  // Lifetime: `http` outlives the Api.
  Api(const IssuerOptions& options, net::HttpClient& http);

  // "https://vault.example:8200"
  const std::string& server() const { return server_; }

  // Result: Vault's answer; empty if there was none.
  // Failure: kUnavailable (not reached, sealed, a standby, too many requests, an internal error of
  // Vault), kPermissionDenied, kInvalidArgument (Vault refuses the request, or has nothing at the
  // path), kInternal (not Vault's JSON), kTooLarge. The message names server and path and has
  // Vault's text without tokens. Thread: any but those of the client. Blocking: until answered.
  Result<boost::json::object> call(const Call& call);

 private:
  Result<boost::json::object> read(const Call& call, const net::Response& response) const;
  Error error(const Call& call, ErrorCode code, std::string_view cause) const;

  const IssuerOptions options_;
  const std::string server_;
  net::HttpClient& http_;
};

// A member as a number of seconds from 0 to a century; 0 if there is none.
std::chrono::seconds seconds_at(const boost::json::object& map, std::string_view name);

}  // namespace osm::inline v1::vault
