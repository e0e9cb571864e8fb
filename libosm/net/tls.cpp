#include "net/tls.hpp"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/error.hpp>
#include <span>
#include <utility>

namespace osm::inline v1::net::tls {
namespace {

// Wire form of ALPN: a length, then that many bytes.
constexpr unsigned char kHttp11[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

using openssl::Bio;
using openssl::Key;
using openssl::no_passphrase;
using openssl::reader_of;
using openssl::reason;
using openssl::X509Handle;

Error unusable(std::string_view what) {
  return {ErrorCode::kInvalidCertificate, std::string(what) + ": " + reason()};
}

Result<Context> make_context(const SSL_METHOD* method) {
  Context context(SSL_CTX_new(method));
  if (!context || SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1)
    return openssl::failure("SSL_CTX_new");
  // A resumed session would keep using a replaced certificate.
  SSL_CTX_set_options(context.get(),
                      SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
  return context;
}

Status use_chain(SSL_CTX& context, const std::string& pem, std::string_view whose) {
  const std::string what = std::string(whose) + " certificate";
  const auto chain = openssl::parse_certificates(pem);
  if (!chain) return chain.error().with_context(what);
  if (SSL_CTX_use_certificate(&context, chain->front().get()) != 1) return unusable(what);
  for (const X509Handle& next : std::span(*chain).subspan(1))
    if (SSL_CTX_add1_chain_cert(&context, next.get()) != 1) return unusable(what + "'s chain");
  return {};
}

Status use_key(SSL_CTX& context, const certificate::PrivateKey& key, std::string_view whose) {
  const Bio bio = reader_of(key.pem());
  const Key parsed(bio ? PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr)
                       : nullptr);
  if (!parsed) return unusable(std::string(whose) + " private key (unencrypted PEM is needed)");
  if (SSL_CTX_use_PrivateKey(&context, parsed.get()) != 1)
    return unusable(std::string(whose) + " private key");
  return {};
}

Status trust(SSL_CTX& context, const std::string& pem) {
  if (pem.empty()) {
    if (SSL_CTX_set_default_verify_paths(&context) != 1) return unusable("the system's roots");
    return {};
  }
  const auto roots = openssl::parse_certificates(pem);
  if (!roots) return roots.error().with_context("the trusted certificates");
  X509_STORE* store = SSL_CTX_get_cert_store(&context);
  for (const X509Handle& root : *roots)
    if (X509_STORE_add_cert(store, root.get()) != 1) return unusable("the trusted certificates");
  return {};
}

int choose_http11(SSL*, const unsigned char** chosen, unsigned char* size,
                  const unsigned char* offered, unsigned int offered_size, void*) {
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, size, kHttp11, sizeof kHttp11, offered, offered_size) !=
      OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

Result<Session> new_session(SSL_CTX& context) {
  Session session(SSL_new(&context));
  if (!session) return openssl::failure("SSL_new");
  return session;
}

bool same(const ClientTls& a, const ClientTls& b) {
  const bool same_key =
      a.private_key == b.private_key ||
      (a.private_key && b.private_key && a.private_key->pem() == b.private_key->pem());
  return same_key && a.trusted_pem == b.trusted_pem && a.certificate_pem == b.certificate_pem;
}

}  // namespace

Result<Context> make_client_context(const ClientTls& tls) {
  const CleanErrorQueue clean;
  OSM_TRY(Context context, make_context(TLS_client_method()));
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  // Accept any trusted certificate as the chain's end: a root, an intermediate or the server's own.
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context.get()), X509_V_FLAG_PARTIAL_CHAIN);
  SSL_CTX_set_alpn_protos(context.get(), kHttp11, sizeof kHttp11);
  OSM_TRY(trust(*context, tls.trusted_pem));
  if (tls.certificate_pem.empty()) return context;
  if (!tls.private_key || tls.private_key->empty())
    return Error{ErrorCode::kInvalidCertificate, "the client certificate comes without its key"};
  OSM_TRY(use_chain(*context, tls.certificate_pem, "the client"));
  OSM_TRY(use_key(*context, *tls.private_key, "the client"));
  return context;
}

Result<Context> make_server_context(const certificate::Certificate& certificate,
                                    const std::string& client_ca_pem) {
  const CleanErrorQueue clean;
  OSM_TRY(Context context, make_context(TLS_server_method()));
  SSL_CTX_set_alpn_select_cb(context.get(), choose_http11, nullptr);
  OSM_TRY(use_chain(*context, certificate.chain_pem, "the server"));
  OSM_TRY(use_key(*context, certificate.private_key, "the server"));
  if (client_ca_pem.empty()) return context;
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context.get()), X509_V_FLAG_PARTIAL_CHAIN);
  OSM_TRY(trust(*context, client_ca_pem));
  return context;
}

Status check_client_ca(const std::string& client_ca_pem) {
  const CleanErrorQueue clean;
  if (client_ca_pem.empty()) return {};
  OSM_TRY(const Context scratch, make_context(TLS_server_method()));
  return trust(*scratch, client_ca_pem);
}

Result<Session> make_client_session(SSL_CTX& context, const std::string& name) {
  const CleanErrorQueue clean;
  // OpenSSL treats an empty name as "any", and ends a name at a NUL.
  if (name.empty() || name.find('\0') != std::string::npos)
    return Error{ErrorCode::kInvalidArgument,
                 "a TLS server needs a name to be verified by: set server_name"};
  OSM_TRY(Session session, new_session(context));
  boost::system::error_code not_an_address;
  boost::asio::ip::make_address(name, not_an_address);
  if (!not_an_address) {
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session.get()), name.c_str()) != 1)
      return Error{ErrorCode::kInvalidArgument, name + " cannot be verified: " + reason()};
    return session;
  }
  // Remove a trailing dot: it belongs to DNS, not to certificates (RFC 6066, section 3).
  const std::string host = name.ends_with('.') ? name.substr(0, name.size() - 1) : name;
  SSL_set_hostflags(session.get(),
                    X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  if (host.empty() || SSL_set1_host(session.get(), host.c_str()) != 1 ||
      SSL_set_tlsext_host_name(session.get(), host.c_str()) != 1)
    return Error{ErrorCode::kInvalidArgument, "'" + name + "' is no name of a TLS server"};
  return session;
}

std::string failure_text(const SSL& ssl, const boost::system::error_code& error) {
  const long verdict = SSL_get_verify_result(&ssl);
  if (verdict == X509_V_OK) return error.message();
  std::string text = "the server's certificate is not accepted: ";
  text += X509_verify_cert_error_string(verdict);
  return text;
}

Result<SSL_CTX*> ClientContexts::of(ClientTls tls) {
  if (!context_ || !same(tls, made_of_)) {
    OSM_TRY(context_, make_client_context(tls));
    made_of_ = std::move(tls);
  }
  return context_.get();
}

Result<Session> ServerContexts::session_for(const certificate::CertificatePtr& certificate) {
  if (!certificate) return Error{ErrorCode::kNotReady, "there is no certificate to serve with yet"};
  const CleanErrorQueue clean;
  std::lock_guard lock(mutex_);
  if (!context_ || made_of_ != certificate) {
    OSM_TRY(context_, make_server_context(*certificate, client_ca_pem_));
    made_of_ = certificate;
  }
  return new_session(*context_);
}

}  // namespace osm::inline v1::net::tls
