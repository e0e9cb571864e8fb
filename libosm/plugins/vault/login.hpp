// The token for requests: read from a file or obtained by login, renewed before it ends, replaced
// if Vault refuses it. It is never logged nor part of an error.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "osm/certificate/vault.hpp"
#include "osm/result.hpp"
#include "vault/api.hpp"

namespace osm::inline v1::vault {

class Login {
 public:
  // Lifetime: `api` outlives this object.
  Login(const IssuerOptions& options, Api& api) : options_(options), api_(api) {}

  // The token for the next request: the present one, or a new one from the source. One caller gets
  // it, the others wait. Failure: the source's; kUnreadableSource (not a token); the Api's.
  // Thread: any. Blocking: while Vault is asked.
  Result<SecretBytes> token();

  // Number of tokens obtained so far; another number means another token. Thread: any. Blocking:
  // no.
  std::uint64_t taken() const { return taken_; }

  // Reports that Vault refused `token`: the next call gets a new one. Thread: any.
  void refused(const SecretBytes& token);

  // Maintains the token; call it repeatedly. It uses a new token in the file, asks Vault for the
  // life of the present one, and renews it, or logs in again, in the second half of its life.
  // Result: latest time until the next call. Failure: the reason why the token cannot be used or
  // looked up. Thread: any, one at a time. Blocking: while Vault is asked.
  Result<std::chrono::seconds> look_after();

 private:
  struct Life {
    std::chrono::seconds left{};   // 0: it never ends
    std::chrono::seconds whole{};  // its initial life
    bool renewable = false;
  };

  Result<SecretBytes> read() const;
  Result<SecretBytes> log_in();
  Result<Life> look_up(const SecretBytes& token);
  Result<Life> renew(const SecretBytes& token, const Life& life);
  void report(const Life& life);
  bool due(const Life& life);

  const IssuerOptions options_;
  Api& api_;

  std::mutex taking_;  // held while a token is obtained; before mutex_
  std::atomic<std::uint64_t> taken_{0};
  std::mutex mutex_;
  SecretBytes token_;  // guarded by mutex_; empty: none
  SecretBytes last_;   // guarded by mutex_: the newest token, refused or not
  bool warned_ =
      false;  // used by look_after() only: the warning was logged that the token cannot be renewed
};

}  // namespace osm::inline v1::vault
