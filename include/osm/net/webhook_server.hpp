// An admission webhook as an HTTPS server, with idle times that fit the API server.
//
//   auto server = net::start_webhook(
//       {.address = {"0.0.0.0", 9093}, .path = "/validate",
//        .review = [&](const auto& request) { return validator->review(request.body); },
//        .certificate = *kept, .runtime = runtime, .handlers = reviews});
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "osm/certificate/kept_certificate.hpp"
#include "osm/detail/api.hpp"
#include "osm/executor.hpp"
#include "osm/inject/admission.hpp"
#include "osm/net/address.hpp"
#include "osm/net/http.hpp"
#include "osm/net/http_server.hpp"
#include "osm/result.hpp"
#include "osm/runtime/own_runtime.hpp"

namespace osm::inline v1::net {

// Lifetime: the references outlive the server.
struct WebhookOptions {
  Address address;
  std::string path;
  // Answers a review, on `handlers`, concurrently, and may block there.
  std::function<AdmissionAnswer(const Request& request)> review;
  const certificate::KeptCertificate& certificate;
  std::string client_ca_pem{};  // as in HttpServerOptions
  OwnRuntime& runtime;
  Executor& handlers;
  // A connection serves more than one review while this is true; null: never. Thread: any.
  std::function<bool()> keep_alive{};
};

// The server has `review` answer requests of type application/json, and refuses others with 415: no
// page of a browser can send that type unasked. It keeps connections if asked to, and then the API
// server closes idle ones first, after 90 s: its client repeats no POST, so a review on its way to
// a closing server is lost. A response closes a connection that is older than 10 s. Connections and
// bodies are bounded by kWebhookPort.
// Failure: as HttpServer::start(). Blocking: briefly, for the look-up of a host name.
OSM_API Result<std::unique_ptr<HttpServer>> start_webhook(const WebhookOptions& options);

}  // namespace osm::inline v1::net
