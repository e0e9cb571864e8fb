// An HTTP/1.1 server on TCP or on a Unix socket, for health, metrics and administration. With TLS
// it serves webhooks.
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

// Address of a server, and its limits.
struct HttpServerOptions {
  // TCP port 0: the kernel chooses, see address(). A Unix socket gets mode 0600 and accepts only
  // peers of the server's own user or root. The server replaces a stale socket at its path; it does
  // not replace one that another process serves.
  Address listen;
  std::uint32_t max_header_bytes = 16 * 1024;
  std::uint64_t max_body_bytes = 1024 * 1024;  // 0: requests have no body
  // Bytes of bodies, of requests and responses, that the server holds at once; at least one body of
  // max_body_bytes fits. Beyond it, the body of a request waits for io_timeout, and then gets 503.
  // Meanwhile the connection whose body has been arriving for the longest time ends, if that is
  // half a second. A response does not wait: the connection ends whose client has not taken its
  // response for the longest time.
  std::uint64_t max_bodies_bytes = 8 * 1024 * 1024;
  // Runs on `handlers`, concurrently, and may block there. Null: each request is read.
  HeadCheck check_head{};
  // Beyond them, a new connection replaces the oldest one without a running request, or one whose
  // client has not taken its response for half a second. Otherwise it waits.
  std::size_t max_connections = 256;
  std::chrono::seconds io_timeout{10};    // for a request, a response or a handshake
  std::chrono::seconds first_timeout{5};  // until a new connection begins its first request
  std::chrono::seconds idle_timeout{60};  // between requests
  // False: each connection has one request. A client that sends the next one while the server ends
  // an idle connection may lose it: Go's, which the API server uses, repeats no POST. To spare it
  // that, let idle connections live longer than the client does, and end the others by a response
  // with the header "Connection: close", which a handler may set, too.
  bool keep_alive = true;
  // Set: HTTPS. Called for each handshake, so that a renewed certificate is served from then on. If
  // it returns null, the handshake fails. TLS 1.2 at least. Runs on a thread of `io` and must not
  // block.
  std::function<certificate::CertificatePtr()> tls{};
  // With `tls`: a client must show a certificate for client authentication that one of these CAs
  // (PEM) issued. Empty: no client certificate is requested.
  std::string client_ca_pem{};
  // A connection that is older ends with its next response. A long-lived client comes back with a
  // new one, which sees a renewed certificate and may lead to another replica. Zero: none ends so.
  std::chrono::seconds max_age{0};
};

class OSM_API HttpServer {
 public:
  virtual ~HttpServer() = default;  // calls stop() with a deadline of one second

  // Starts a server. It reads and writes on the threads of `io`; `handler` runs on `handlers`,
  // concurrently, and may block there.
  // Failure: kInvalidArgument (address), kUnavailable (taken), kStorage (path), kInvalidCertificate
  // (client_ca_pem), with the remedy.
  // Lifetime: all references outlive the server; both executors run until it is stopped, and their
  // threads end before the io_context does.
  // Blocking: briefly, for the look-up of a host name.
  static Result<std::unique_ptr<HttpServer>> start(const HttpServerOptions& options,
                                                   AsioExecutor& io, Executor& handlers,
                                                   Handler handler, LogSink& log);

  // The address with the real port. Thread: any. Blocking: no.
  virtual Address address() const = 0;

  // Accepts no more connections, lets running requests finish, and closes the rest. Idempotent.
  // After it returns no handler runs or will run: it waits for handlers even beyond the deadline.
  // Failure: kDeadlineExceeded (connections were cut).
  // Thread: any but those of the two executors. Blocking: until no handler runs.
  virtual Status stop(std::chrono::milliseconds deadline) = 0;
};

}  // namespace osm::inline v1::net
