// The transport: gRPC's reactors, or memory in tests. It moves bytes, and knows only the stream's
// method of xDS.
#pragma once

#include <string>

#include "ads/wire.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::ads {

// Numbers of gRPC's status codes.
enum class CloseCode {
  kOk = 0,
  kCancelled = 1,
  kInvalidArgument = 3,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kAborted = 10,
  kUnavailable = 14,
  kUnauthenticated = 16,
};

// Status code for an error.
CloseCode close_code(ErrorCode code);

// All calls come from the strand. After close() nothing else is called.
class ProxyStream {
 public:
  explicit ProxyStream(XdsVariant variant) : variant_(variant) {}
  virtual ~ProxyStream() = default;

  XdsVariant variant() const { return variant_; }
  // Allows the transport to read the next message. Called once per message, and once at first.
  virtual void read_next() = 0;
  // Writes a response. Not called again before the transport reports the write as done.
  virtual void write(const Response& response) = 0;
  // Closes the stream. `cut`: at once, even if a write is stuck; else after the write.
  virtual void close(CloseCode code, const std::string& text, bool cut) = 0;

 private:
  const XdsVariant variant_;
};

// A call with one request and one answer. Thread: any. Blocking: no.
class UnaryCall {
 public:
  virtual ~UnaryCall() = default;

  // Ends the call: with `bytes` if the code is kOk, else with `text`. Only the first call of this
  // function counts.
  virtual void finish(CloseCode code, const std::string& text, const std::string& bytes) = 0;
};

}  // namespace osm::inline v1::ads
