// A client for one HTTP/1.1 server, over TCP, TLS or a Unix socket. It keeps connections and uses
// them again. It can read a response as an endless stream (a watch).
//
// It always verifies a TLS peer: the chain against the given roots, the name against `server_name`.
// Verification cannot be turned off.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "osm/certificate/manager.hpp"
#include "osm/detail/api.hpp"
#include "osm/executor.hpp"
#include "osm/net/address.hpp"
#include "osm/net/http.hpp"
#include "osm/result.hpp"
#include "osm/runtime/asio_executor.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1::net {

// Roots that a client trusts, and its own certificate.
struct ClientTls {
  std::string trusted_pem;      // the roots; empty: the system's
  std::string server_name;      // sent as SNI and verified; empty: the address' host
  std::string certificate_pem;  // own chain, leaf first; empty: no client certificate
  std::shared_ptr<const certificate::PrivateKey> private_key;
};

// Settings of a client of one server.
struct HttpClientOptions {
  Address address;
  // Called for each new connection, so that a renewed certificate is used from then on; null: no
  // TLS. Runs on a thread of `io`; must not block longer than reading a small file takes.
  std::function<Result<ClientTls>()> tls{};
  // Limit for simultaneous calls; further calls wait in order. Each stream has its own connection.
  std::size_t max_connections = 8;
  std::chrono::milliseconds connect_timeout{10000};  // name look-up and TLS included
  std::chrono::milliseconds idle_timeout{30000};     // an unused connection is closed after it
  // Runs look-ups of the host's name, which may take seconds. It outlives the client, and its
  // threads end before the io_context does. Null: a thread of `io` looks up and waits.
  Executor* blocking = nullptr;
};
// A request of the client.
struct HttpRequest {
  std::string method = "GET";
  std::string target = "/";
  std::vector<std::pair<std::string, std::string>> headers{};  // Host and Content-Length are added
  std::string body{};
  std::chrono::milliseconds deadline{
      30000};  // for the whole call; for streams, until the head arrives
  // For calls, and for the decompressed body of a stream with `gzip`.
  std::size_t max_response_bytes = 64 * 1024 * 1024;
  // For streams: asks for a compressed body. on_data gets it decompressed, whether or not the
  // server compressed it.
  bool gzip = false;
};

// Events of a response that is read as it arrives. They are called in order, one at a time.
struct HttpStreamEvents {
  std::function<void(const Response& head)> on_head;   // its body is empty
  std::function<void(std::string_view data)> on_data;  // valid during the call; at most 64 KiB
  // The last event, exactly once: ok if the server ended the response, else the reason.
  std::function<void(Status)> on_end;
};

class OSM_API HttpClient {
 public:
  // Ends every call and stream. Their callbacks are not called any more.
  // Thread: any but those of `io`. Blocking: for a callback that runs.
  virtual ~HttpClient() = default;

  // Creates a client; it connects at the first request. The client calls its callbacks one at a
  // time, for all calls and streams.
  // Lifetime: `io` outlives the client and its handles, and its host runs it.
  static std::unique_ptr<HttpClient> create(HttpClientOptions options, AsioExecutor& io);

  // Sends a request and calls `done` once, whatever the status. If the handle is destroyed first,
  // it does not call `done`. If a kept connection turns out to be closed, the client replaces it
  // once, for methods that may be repeated (GET, HEAD, OPTIONS, PUT, DELETE).
  // Failure: kUnavailable (refused, reset, not verified, not HTTP), kDeadlineExceeded (the message
  // says what it waited for), kTooLarge, kInvalidArgument (host, request), kInvalidCertificate (of
  // `tls`), kNotFound (no such socket file), kPermissionDenied (a socket of another user), and the
  // errors of `tls`.
  // Thread: any; `done` on one of `io`, and must not block. Blocking: no.
  virtual Subscription send(HttpRequest request, std::function<void(Result<Response>)> done) = 0;

  // Opens a stream on a connection of its own. Destroying the handle ends it.
  // Thread: any; events on one of `io`, and must not block. Blocking: no.
  virtual Subscription open_stream(HttpRequest request, HttpStreamEvents events) = 0;

  // Calls send() and waits for the response. Failure: as send()'s. Thread: any but those of `io`.
  // Blocking: until the response.
  virtual Result<Response> call(HttpRequest request) = 0;
};

}  // namespace osm::inline v1::net
