// A client for one HTTP/1.1 server, over TCP, TLS or a Unix socket. Connections are kept and used
// again; a response can be read as a stream that never ends (a watch).
//
// A TLS peer is always verified: its chain against the roots given, its name against
// `server_name`. There is no way to turn that off.
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

// Whom a client trusts, and who it is itself.
struct ClientTls {
  std::string trusted_pem;      // the roots; empty: the system's
  std::string server_name;      // sent as SNI and verified; empty: the address' host
  std::string certificate_pem;  // own chain, leaf first; empty: none is shown
  std::shared_ptr<const certificate::PrivateKey> private_key;
};

// What a client of one server works with.
struct HttpClientOptions {
  Address address;
  // Asked for each new connection, so that what was renewed is used from then on; null: no TLS.
  // Runs on a thread of `io`; must not block longer than reading a small file takes.
  std::function<Result<ClientTls>()> tls{};
  // At a time for calls, which wait for one in order; streams have their own.
  std::size_t max_connections = 8;
  std::chrono::milliseconds connect_timeout{10000};  // name look-up and TLS included
  std::chrono::milliseconds idle_timeout{30000};     // then an unused connection is closed
  // Where the host's name is looked up, which may take seconds; outlives the client, and its
  // threads end before the io_context does. Null: on a thread of `io`, which waits.
  Executor* blocking = nullptr;
};
// What a client asks for.
struct HttpRequest {
  std::string method = "GET";
  std::string target = "/";
  std::vector<std::pair<std::string, std::string>> headers{};  // Host and Content-Length are added
  std::string body{};
  std::chrono::milliseconds deadline{30000};  // for everything; of streams: until the head is there
  std::size_t max_response_bytes = 64 * 1024 * 1024;  // of calls
};

// A response that is read as it comes. All are called in order, one at a time.
struct HttpStreamEvents {
  std::function<void(const Response& head)> on_head;   // its body is empty
  std::function<void(std::string_view data)> on_data;  // valid during the call; at most 64 KiB
  // Last, exactly once: ok when the server ended the response, else why it broke.
  std::function<void(Status)> on_end;
};

class OSM_API HttpClient {
 public:
  // Ends every call and stream; what they would have called is not called any more.
  // Thread: any but those of `io`. Blocking: for a callback that runs.
  virtual ~HttpClient() = default;

  // `io` outlives the client and its handles, and is run by its host. Connects when first asked.
  // Callbacks of one client are called one at a time, whichever call or stream they belong to.
  static std::unique_ptr<HttpClient> create(HttpClientOptions options, AsioExecutor& io);

  // Calls `done` once, whatever the status; not when the handle is destroyed before.
  // Failure: kUnavailable (refused, reset, not verified, not HTTP), kDeadlineExceeded (the message
  // says what was waited for), kTooLarge, kInvalidArgument (host, request), kInvalidCertificate (of
  // `tls`), kNotFound (no such socket file), kPermissionDenied (a socket of another user), and what
  // `tls` fails with. A kept connection that turns out to be closed is replaced once, for
  // methods that may be repeated (GET, HEAD, OPTIONS, PUT, DELETE).
  // Thread: any; `done` on one of `io`, and must not block. Blocking: no.
  virtual Subscription send(HttpRequest request, std::function<void(Result<Response>)> done) = 0;

  // On a connection of its own. Ends when the handle is destroyed.
  // Thread: any; events on one of `io`, and must not block. Blocking: no.
  virtual Subscription open_stream(HttpRequest request, HttpStreamEvents events) = 0;

  // send(), waited for. Failure: as send()'s. Thread: any but those of `io`. Blocking: until then.
  virtual Result<Response> call(HttpRequest request) = 0;
};

}  // namespace osm::inline v1::net
