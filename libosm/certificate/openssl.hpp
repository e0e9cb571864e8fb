// OpenSSL handles that free themselves, and hygiene of its per-thread error queue: what our calls
// leave there would be taken for the failure of somebody else's next TLS handshake.
#pragma once

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>

#include "osm/result.hpp"

namespace osm::inline v1::certificate::openssl {

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

// Around every public call of this room: it starts and ends with an empty queue in this thread.
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

}  // namespace osm::inline v1::certificate::openssl
