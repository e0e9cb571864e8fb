// A webhook's response to an API server; the host's HTTP server sends it.
#pragma once

#include <string>

namespace osm::inline v1 {

// An HTTP status and a JSON body. 200: an AdmissionReview, also for a request that cannot be
// decoded (then it refuses). 400: {"error": {"code", "message"}} for an empty body.
struct AdmissionAnswer {
  int status = 200;
  std::string body;

  friend bool operator==(const AdmissionAnswer&, const AdmissionAnswer&) = default;
};

}  // namespace osm::inline v1
