// An admission webhook as the HTTPS server of a daemon.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "osm/certificate/kept_certificate.hpp"
#include "osm/inject/admission.hpp"
#include "osm/net/http_server.hpp"
#include "osm/runtime/own_runtime.hpp"

namespace osm::daemon {

struct WebhookOptions {
  net::Address address;
  std::string path;
  std::function<AdmissionAnswer(const net::Request& request)> review;
  const certificate::KeptCertificate& certificate;  // outlives the server, as all references do
  std::string client_ca_pem{};                      // as in HttpServerOptions
  OwnRuntime& runtime;
  Executor& handlers;  // `review` runs there
  // A connection serves more than one review while this is true; null: never. Thread: any.
  std::function<bool()> keep_alive{};
};

// The server has `review` answer requests of type application/json, and refuses others with 415: no
// page of a browser can send that type unasked. Failure: as HttpServer::start().
Result<std::unique_ptr<net::HttpServer>> start_webhook(const WebhookOptions& options);

}  // namespace osm::daemon
