#include "webhook.hpp"

#include <utility>

#include "osm/net/router.hpp"

namespace osm::daemon {
namespace {

// An object of 3 MB at most, old and new, and what is around them.
constexpr std::uint64_t kMaxReviewBytes = 8 << 20;

}  // namespace

Result<std::unique_ptr<net::HttpServer>> start_webhook(const WebhookOptions& options) {
  net::Router router;
  router.post(options.path, [review = options.review](const net::Request& request) {
    if (!net::has_media_type(request.content_type, "application/json")) {
      net::Response refused = net::error_response(
          {ErrorCode::kInvalidArgument,
           "this webhook takes an AdmissionReview of Content-Type application/json"});
      refused.status = 415;
      return refused;
    }
    AdmissionAnswer answer = review(request);
    return net::json_response(std::move(answer.body), answer.status);
  });
  return net::HttpServer::start({.listen = options.address,
                                 .max_body_bytes = kMaxReviewBytes,
                                 .keep_alive = false,
                                 .tls = [&kept = options.certificate] { return kept.load(); },
                                 .client_ca_pem = options.client_ca_pem},
                                options.runtime.asio(), options.handlers, std::move(router),
                                options.runtime.log);
}

}  // namespace osm::daemon
