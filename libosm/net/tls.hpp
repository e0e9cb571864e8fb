// TLS from PEM in memory: contexts, verification of a server's name, and texts of failures.
//
// OpenSSL keeps a queue of errors per thread. A remaining error would fail the next handshake of
// other code (gRPC's). Functions here leave the queue empty; callbacks of a connection begin by
// clearing it.
#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <boost/system/error_code.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/openssl.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/net/http_client.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::net::tls {

using openssl::CleanErrorQueue;
using Session = openssl::Handle<SSL, SSL_free>;
using Context = openssl::Handle<SSL_CTX, SSL_CTX_free>;

// For both contexts: TLS 1.2 at least, HTTP/1.1 by ALPN, no renegotiation, no resumption.
// Failure: kInvalidCertificate, naming the unusable part; kInternal (out of memory).
Result<Context> make_client_context(const ClientTls& tls);
// `client_ca_pem`: clients must show a certificate of one of these CAs; empty: no client
// certificate is requested.
Result<Context> make_server_context(const certificate::Certificate& certificate,
                                    const std::string& client_ca_pem);

// Failure: kInvalidCertificate, if `client_ca_pem` is neither empty nor certificates.
Status check_client_ca(const std::string& client_ca_pem);

// Client side of a connection that only a server with the name `name` (host name or address) can
// complete. Failure: kInvalidArgument (a name that no certificate can contain).
Result<Session> make_client_session(SSL_CTX& context, const std::string& name);

// Reason of a failed handshake, read or write; for a rejected peer, the reason for the rejection.
std::string failure_text(const SSL& ssl, const boost::system::error_code& error);

// The client contexts of one client. Keys and roots are parsed once, not per connection.
// Thread: one at a time.
class ClientContexts {
 public:
  Result<SSL_CTX*> of(ClientTls tls);  // valid until the next call

 private:
  ClientTls made_of_;
  Context context_;
};

// The server contexts. Called per handshake; makes a new context when the certificate changed.
// Thread: any.
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
