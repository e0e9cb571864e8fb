// Bearer tokens for ARM: by client credentials from the authority, or of the managed identity from
// the instance metadata service. A token is never logged nor part of an error.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "azure/answers.hpp"
#include "azure/caller.hpp"

namespace osm::inline v1::azure {

class Tokens {
 public:
  // Failure: kInvalidField, a server of the settings.
  static Result<std::unique_ptr<Tokens>> make(const AzureResolverOptions& options, Ending& ending);

  // The present token, or a new one near its end. One caller gets it, the others wait. A failure is
  // kept for ten seconds, so that many resources do not ask at once.
  // Failure: kUnreadableSource (the secret's file), kUnavailable (not reached, 5xx, 429),
  // kPermissionDenied (refused), kInternal (no token). Thread: any. Blocking: until answered.
  Result<SecretBytes> token();
  // ARM did not take this one: the next call gets another.
  void refused(const SecretBytes& token);
  // Reason of the last failure; nullopt: the last attempt succeeded. Thread: any.
  std::optional<Error> problem() const;

 private:
  Tokens(const AzureResolverOptions& options, const Server& server, Ending& ending)
      : options_(options), caller_(server, options, ending) {}

  Result<Token> log_in();
  Result<net::HttpRequest> request() const;

  const AzureResolverOptions options_;
  Caller caller_;
  std::mutex taking_;
  mutable std::mutex mutex_;
  SecretBytes token_;
  SteadyTime renew_at_{};
  SteadyTime again_at_{};
  std::optional<Error> problem_;
};

}  // namespace osm::inline v1::azure
