// The listener of the ADS server: accepts connections, bounds them, and hands each to gRPC.
//
// gRPC's own listener is not used: it stops for good when descriptors run out once (gRPC 1.51,
// CVE-2023-4785), and it bounds neither connections nor their rate.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "osm/control_plane.hpp"
#include "osm/result.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::ads {

struct AcceptorOptions {
  // HOST:PORT. Port 0: the kernel chooses. 0.0.0.0 and [::] are both families, where the machine
  // has both.
  std::string address;
  ConnectionLimits limits;
  Runtime runtime;
  // Takes over the descriptor of a new connection. Thread: the acceptor's.
  std::function<void(int listener, int connection)> hand_over;
};

// Has one thread.
class Acceptor {
 public:
  // Result: an acceptor that listens, and accepts from run() on.
  // Failure: kInvalidArgument (address), kUnavailable (port taken).
  static Result<std::unique_ptr<Acceptor>> listen(AcceptorOptions options);
  virtual ~Acceptor() = default;  // calls stop()

  virtual void run() = 0;
  // Closes the port, and waits for the thread. Idempotent.
  virtual void stop() = 0;

  // "HOST:PORT" with the real port.
  virtual std::string address() const = 0;

  // The peer at `remote` ("ipv4:192.0.2.1:4711") has shown a certificate that the roots signed.
  // Thread: any. Blocking: no.
  virtual void verified(const std::string& remote) = 0;

  // Failure: kUnavailable: no connection can be accepted now, and why. Bounds that are met are no
  // failure. Thread: any. Blocking: no.
  virtual Status health() const = 0;
};

}  // namespace osm::inline v1::ads
