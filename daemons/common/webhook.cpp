#include "webhook.hpp"

#include <utility>

namespace osm::daemon {

net::Handler make_webhook(std::function<AdmissionAnswer(std::string_view body)> review) {
  return [review = std::move(review)](const net::Request& request) {
    if (!net::has_media_type(request.content_type, "application/json")) {
      net::Response refused = net::error_response(
          {ErrorCode::kInvalidArgument,
           "this webhook takes an AdmissionReview of Content-Type application/json"});
      refused.status = 415;
      return refused;
    }
    AdmissionAnswer answer = review(request.body);
    return net::json_response(std::move(answer.body), answer.status);
  };
}

}  // namespace osm::daemon
