// The token that requests are sent with: read or logged in for, renewed before it ends, replaced
// when Vault does not take it any more. It is never logged nor part of an error.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "osm/certificate/vault.hpp"
#include "osm/clock.hpp"
#include "osm/log.hpp"
#include "osm/metrics.hpp"
#include "osm/result.hpp"
#include "vault/api.hpp"

namespace osm::inline v1::vault {

class Login {
 public:
  // One of the two is given. Both references outlive this.
  struct Options {
    Source token{};
    std::optional<KubernetesLogin> kubernetes{};
    Api& api;
    Rng& rng;
    LogSink& log;
    MetricsSink& metrics;
  };
  explicit Login(Options options) : options_(std::move(options)) {}

  // The token to send now: what is held, or else read or logged in for. One caller does that, the
  // others wait for it. Failure: the source's; kUnreadableSource (not a token); the Api's.
  // Thread: any. Blocking: while Vault is asked.
  Result<std::string> token();

  // How many tokens were taken so far: another number, another token. Thread: any. Blocking: no.
  std::uint64_t taken() const { return taken_; }

  // Vault did not take `token`: the next one is read or logged in for. Thread: any.
  void refused(const std::string& token);

  // To be called again and again: takes a token that was put in place of the old one, asks Vault
  // how long the one that is held lives, and renews it, or logs in anew, in the second half of its
  // life. Result: when to come again at the latest. Failure: why the token cannot be used, or not
  // be looked at. Thread: any, one at a time. Blocking: while Vault is asked.
  Result<std::chrono::seconds> look_after();

 private:
  struct Life {
    std::chrono::seconds left{};   // 0: it never ends
    std::chrono::seconds whole{};  // as long as it was at first
    bool renewable = false;
  };

  Result<std::string> read() const;
  Result<std::string> log_in();
  Result<Life> look_up(const std::string& token);
  Result<Life> renew(const std::string& token, const Life& life);
  void report(const Life& life);
  bool due(const Life& life);

  Options options_;

  std::mutex taking_;  // held while a token is taken; before mutex_
  std::atomic<std::uint64_t> taken_{0};
  std::mutex mutex_;
  std::string token_;    // guarded by mutex_; empty: none
  std::string last_;     // guarded by mutex_: the one that was taken last, refused or not
  bool warned_ = false;  // of look_after() alone: that the token cannot be renewed
};

}  // namespace osm::inline v1::vault
