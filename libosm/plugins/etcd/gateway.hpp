// etcd v3 as JSON over HTTP: https://etcd.io/docs/v3.4/dev-guide/api_grpc_gateway/
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "osm/certificate/etcd_ca.hpp"
#include "osm/net/address.hpp"
#include "osm/net/http_client.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::etcd {

// Address of an etcd, in the form of its own tools: a URL of scheme, host and port.
struct Endpoint {
  std::string url;  // as errors name it: "https://10.0.0.1:2379"
  net::Address address;
  bool tls = true;
};

// Asks the endpoints in turn until one answers. It keeps no connection between two calls, so that
// none is ever stale.
class Gateway {
 public:
  // Precondition: `options` is valid, and `endpoints` are its parsed endpoints.
  Gateway(const CaStoreOptions& options, std::vector<Endpoint> endpoints);

  // The client's TLS settings. Failure: kUnreadableSource. Blocking: reads files.
  Result<net::ClientTls> tls() const;

  // Sends POST /v3/<path>, passes the answer to `read`, and erases it afterwards. An endpoint whose
  // answer was lost may have executed `body`.
  // Failure: kUnavailable (no endpoint answers; the message has each endpoint's reason),
  // kPermissionDenied, kInvalidArgument (the server is no etcd, or has no users), kUnreadableSource
  // (password).
  // Thread: any but an event loop's. Blocking: options.deadline for each endpoint.
  Status post(std::string_view path, const std::string& body,
              const std::function<Status(boost::json::object&)>& read) const;

 private:
  Status ask(const Endpoint& endpoint, std::string_view path, const std::string& body,
             const std::function<Status(boost::json::object&)>& read) const;
  Result<SecretBytes> log_in(net::HttpClient& client, const Endpoint& endpoint) const;
  Result<net::Response> send(net::HttpClient& client, const Endpoint& endpoint,
                             std::string_view path, const std::string& body,
                             const SecretBytes& token) const;
  Error refusal(const Endpoint& endpoint, const net::Response& response) const;

  const CaStoreOptions options_;
  const std::vector<Endpoint> endpoints_;
};

}  // namespace osm::inline v1::etcd
