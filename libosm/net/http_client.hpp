// One blocking HTTP call, for the command line and tests.
#pragma once

#include <chrono>
#include <string>

#include "net/address.hpp"
#include "net/http.hpp"
#include "osm/result.hpp"

namespace osm::net {

struct HttpCall {
  Address address;
  std::string method = "GET";
  std::string target = "/";
  std::string body{};
  std::string content_type = "application/json";
  std::chrono::milliseconds deadline{10000};  // for everything, connecting included
  std::size_t max_response_bytes = 64 * 1024 * 1024;
};

// Result: the response, whatever its status. Failure: kNotFound (no such socket file),
// kPermissionDenied (a socket of another user), kUnavailable (refused, reset), kDeadlineExceeded,
// kInvalidArgument (host). Thread: any. Blocking: until the response or the deadline.
Result<Response> http_call(const HttpCall& call);

}  // namespace osm::net
