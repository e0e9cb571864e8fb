// TLS from PEM in memory: contexts, whom a client expects, and failures in words.
//
// OpenSSL keeps a queue of errors per thread; what is left there is taken for the failure of
// somebody else's next handshake (gRPC's). Functions here leave it empty; callbacks of a
// connection begin by clearing it.
#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <boost/system/error_code.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "osm/certificate/manager.hpp"
#include "osm/net/http_client.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::net::tls {

// Clears the queue of this thread, on the way in and on the way out.
class CleanErrorQueue {
 public:
  CleanErrorQueue() { ERR_clear_error(); }
  ~CleanErrorQueue() { ERR_clear_error(); }
  CleanErrorQueue(const CleanErrorQueue&) = delete;
  CleanErrorQueue& operator=(const CleanErrorQueue&) = delete;
};

struct Free {
  void operator()(SSL* ssl) const noexcept { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const noexcept { SSL_CTX_free(context); }
};
using Session = std::unique_ptr<SSL, Free>;
using Context = std::unique_ptr<SSL_CTX, Free>;

// Both: TLS 1.2 at least, HTTP/1.1 by ALPN, no renegotiation, no resumption.
// Failure: kInvalidCertificate, saying which part cannot be used; kInternal (out of memory).
Result<Context> make_client_context(const ClientTls& tls);
// `client_ca_pem`: clients must prove to be certified by one of these; empty: they are not asked.
Result<Context> make_server_context(const certificate::Certificate& certificate,
                                    const std::string& client_ca_pem);

// Failure: kInvalidCertificate: `client_ca_pem` is neither empty nor certificates.
Status check_client_ca(const std::string& client_ca_pem);

// A client's side of a connection that goes on only with a server that proves to be `name`, a host
// name or an address. Failure: kInvalidArgument (a name that nobody can prove).
Result<Session> make_client_session(SSL_CTX& context, const std::string& name);

// What a handshake, read or write failed of; of a peer that was not accepted, why.
std::string failure_text(const SSL& ssl, const boost::system::error_code& error);

// The client contexts of one client: parsing keys and roots is paid for once, not per connection.
// Thread: one at a time.
class ClientContexts {
 public:
  Result<SSL_CTX*> of(ClientTls tls);  // until the next call

 private:
  ClientTls made_of_;
  Context context_;
};

// The server contexts: asked per handshake, made when the certificate is another. Thread: any.
class ServerContexts {
 public:
  explicit ServerContexts(std::string client_ca_pem) : client_ca_pem_(std::move(client_ca_pem)) {}

  // Failure: as make_server_context; kNotReady for null.
  Result<Session> session_for(const certificate::CertificatePtr& certificate);

 private:
  const std::string client_ca_pem_;
  std::mutex mutex_;
  certificate::CertificatePtr made_of_;
  Context context_;
};

}  // namespace osm::inline v1::net::tls
