#include "osm/net/webhook_server.hpp"

#include <chrono>
#include <utility>

#include "osm/net/ports.hpp"
#include "osm/net/router.hpp"

namespace osm::inline v1::net {
namespace {

constexpr Counter kWebhookHandshakes{"osm_webhook_handshakes_total",
                                     "TLS handshakes that callers of the webhook began"};

// The API server leaves an idle connection after 90 s and repeats no review that was lost: it has
// to be the one who leaves. Go opens connections in reserve, too, so this holds before the first
// review.
constexpr std::chrono::seconds kIdle{120};
// Spreads reviews over the replicas, and soon shows a renewed certificate.
constexpr std::chrono::seconds kMaxAge{10};

}  // namespace

Result<std::unique_ptr<HttpServer>> start_webhook(const WebhookOptions& options) {
  Router router;
  router.post(options.path,
              [review = options.review, keep_alive = options.keep_alive](const Request& request) {
                if (!has_media_type(request.content_type, "application/json")) {
                  Response refused = error_response(
                      {ErrorCode::kInvalidArgument,
                       "this webhook takes an AdmissionReview of Content-Type application/json"});
                  refused.status = 415;
                  return refused;
                }
                AdmissionAnswer answer = review(request);
                Response response = json_response(std::move(answer.body), answer.status);
                if (keep_alive && !keep_alive())
                  response.headers.emplace_back("Connection", "close");
                return response;
              });
  HttpServerOptions http = kWebhookPort.options(options.address);
  http.keep_alive = false;
  http.client_ca_pem = options.client_ca_pem;
  http.tls = [&kept = options.certificate, &metrics = options.runtime.metrics] {
    metrics.add(kWebhookHandshakes, {}, 1);
    return kept.load();
  };
  options.runtime.metrics.add(kWebhookHandshakes, {}, 0);
  if (options.keep_alive) {
    http.keep_alive = true;
    http.first_timeout = http.idle_timeout = kIdle;
    http.max_age = kMaxAge;
  }
  return HttpServer::start(http, options.runtime.asio(), options.handlers, std::move(router),
                           options.runtime.log);
}

}  // namespace osm::inline v1::net
