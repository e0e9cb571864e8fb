// An HTTP/1.1 server on TCP or on a Unix socket, for health, metrics and administration; with TLS
// for webhooks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "osm/certificate/manager.hpp"
#include "osm/detail/api.hpp"
#include "osm/executor.hpp"
#include "osm/log.hpp"
#include "osm/net/address.hpp"
#include "osm/net/http.hpp"
#include "osm/result.hpp"
#include "osm/runtime/asio_executor.hpp"

namespace osm::inline v1::net {

// Where to listen, and the bounds that a client is held to.
struct HttpServerOptions {
  // TCP port 0: the kernel's choice, see address(). A Unix socket gets mode 0600 and takes only
  // peers of the server's own user or root; what was left behind at its path is replaced, a socket
  // that somebody serves is not.
  Address listen;
  std::uint32_t max_header_bytes = 16 * 1024;
  std::uint64_t max_body_bytes = 1024 * 1024;
  std::size_t max_connections = 256;      // more wait in the kernel's queue
  std::chrono::seconds io_timeout{10};    // a request to arrive, a response to leave, a handshake
  std::chrono::seconds idle_timeout{60};  // between requests
  // HTTPS, if set: asked for each handshake, so that a renewed certificate is served from then on.
  // Null: there is none yet, and the handshake fails. TLS 1.2 at least. Runs on a thread of `io`
  // and must not block.
  std::function<certificate::CertificatePtr()> tls{};
  // With `tls`: a client must prove to be certified by one of these (PEM), for client
  // authentication. Empty: clients are asked for no certificate.
  std::string client_ca_pem{};
};

class OSM_API HttpServer {
 public:
  virtual ~HttpServer() = default;  // stop(), with a second's grace

  // Bytes move on the threads of `io`; `handler` runs on `handlers`, concurrently, and may block
  // there. All references outlive the server; both executors run until it is stopped, and their
  // threads end before the io_context does.
  // Failure: kInvalidArgument (address), kUnavailable (taken), kStorage (path), kInvalidCertificate
  // (client_ca_pem), with the remedy.
  // Blocking: briefly; a host name is looked up.
  static Result<std::unique_ptr<HttpServer>> start(const HttpServerOptions& options,
                                                   AsioExecutor& io, Executor& handlers,
                                                   Handler handler, LogSink& log);

  // Where it listens, with the real port. Thread: any. Blocking: no.
  virtual Address address() const = 0;

  // Takes no more connections, lets requests that are being handled finish, closes the rest;
  // idempotent. When it returns no handler runs or will: it waits for handlers even beyond the
  // deadline. Failure: kDeadlineExceeded (connections were cut).
  // Thread: any but those of the two executors. Blocking: until then.
  virtual Status stop(std::chrono::milliseconds deadline) = 0;
};

}  // namespace osm::inline v1::net
