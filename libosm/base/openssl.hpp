// OpenSSL's objects as handles that free themselves, certificates read from PEM, and hygiene of
// OpenSSL's per-thread error queue: an error that our calls leave there would be taken for the
// failure of another code's next TLS handshake.
#pragma once

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::openssl {

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* object) const noexcept {
    kFree(object);
  }
};

template <class T, auto kFree>
using Handle = std::unique_ptr<T, Free<kFree>>;

using Key = Handle<EVP_PKEY, EVP_PKEY_free>;
using X509Handle = Handle<X509, X509_free>;
using Request = Handle<X509_REQ, X509_REQ_free>;
using Names = Handle<GENERAL_NAMES, GENERAL_NAMES_free>;
using Bio = Handle<BIO, BIO_free_all>;
using BigNumber = Handle<BIGNUM, BN_free>;

inline void free_extensions(STACK_OF(X509_EXTENSION) * list) {
  sk_X509_EXTENSION_pop_free(list, X509_EXTENSION_free);
}
using Extensions = Handle<STACK_OF(X509_EXTENSION), free_extensions>;

inline void free_buffer(unsigned char* bytes) { OPENSSL_free(bytes); }
using Buffer = Handle<unsigned char, free_buffer>;

// Around every public call that uses OpenSSL: it starts and ends with an empty queue in this
// thread.
class CleanErrorQueue {
 public:
  CleanErrorQueue() { ERR_clear_error(); }
  ~CleanErrorQueue() { ERR_clear_error(); }
  CleanErrorQueue(const CleanErrorQueue&) = delete;
  CleanErrorQueue& operator=(const CleanErrorQueue&) = delete;
};

// OpenSSL's default would ask for a passphrase at the terminal.
inline int no_passphrase(char*, int, int, void*) { return -1; }

// The newest reason in the queue. Reasons are OpenSSL's own constants: never data, never a secret.
inline std::string reason() {
  const char* text = ERR_reason_error_string(ERR_peek_last_error());
  return text ? text : "unknown cause";
}

// A library call that fails only when memory or randomness runs out.
inline Error failure(std::string_view call) {
  return {ErrorCode::kInternal, "OpenSSL " + std::string(call) + ": " + reason()};
}

// Reads `text` in place, without a copy. Lifetime: `text` outlives it.
inline Bio reader_of(std::string_view text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// The text that was written to a memory BIO.
OSM_API std::string text_of(BIO& bio);

// The only certificate in a PEM text; other PEM blocks are skipped. Failure: kInvalidCertificate.
OSM_API Result<X509Handle> parse_certificate(std::string_view pem);
// All certificates in a PEM text, at least one; other PEM blocks are skipped. Failure:
// kInvalidCertificate.
OSM_API Result<std::vector<X509Handle>> parse_certificates(std::string_view pem);
OSM_API Result<std::string> to_pem(X509& certificate);
// The certificates that a TLS peer sends of its `chain`: all but the last, the root.
OSM_API Result<std::string> sent_pem(std::span<const X509Handle> chain);

// True if `issuer` has the issuer's name, and its key verifies the signature of `subject`.
OSM_API bool issued(X509& issuer, X509& subject);

OSM_API WallTime not_before(const X509& certificate);
OSM_API WallTime not_after(const X509& certificate);
OSM_API Result<std::string> fingerprint(const X509& certificate);  // SHA-256, lower-case hex
OSM_API std::string hex_of(const ASN1_STRING& bytes);  // lower-case, also for ASN.1 integers
// authorityKeyIdentifier, lower-case hex; or empty
OSM_API std::string issuer_key_id(X509& certificate);

}  // namespace osm::inline v1::openssl
