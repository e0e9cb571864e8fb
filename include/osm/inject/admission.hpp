// What a webhook answers an API server with, as a host's HTTP server sends it.
#pragma once

#include <string>

namespace osm::inline v1 {

// An HTTP status, and JSON: an AdmissionReview (200), which refuses what it cannot decode, or
// {"error": {"code", "message"}} for an empty body (400).
struct AdmissionAnswer {
  int status = 200;
  std::string body;

  friend bool operator==(const AdmissionAnswer&, const AdmissionAnswer&) = default;
};

}  // namespace osm::inline v1
