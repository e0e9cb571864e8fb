// A call with one request and one answer: gRPC's reactor, or memory in tests.
#pragma once

#include <string>

#include "ads/proxy_stream.hpp"

namespace osm::inline v1::ads {

// Thread: any. Blocking: no.
class UnaryCall {
 public:
  virtual ~UnaryCall() = default;

  // Ends the call: with `bytes` if the code is kOk, else with `text`. Only the first call of this
  // function counts.
  virtual void finish(CloseCode code, const std::string& text, const std::string& bytes) = 0;
};

}  // namespace osm::inline v1::ads
