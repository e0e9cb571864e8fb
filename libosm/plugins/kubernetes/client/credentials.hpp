// How requests and connections log in: bearer tokens that are renewed in their files or by a
// plugin, client certificates from files, in place, or from a plugin.
//
// Nothing here is ever logged or part of an error but where it came from.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "kubernetes/client/access.hpp"
#include "osm/clock.hpp"
#include "osm/net/http_client.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::kubernetes {

class Credentials {
 public:
  // `environment` is the host's, for plugins. `clock` outlives this.
  Credentials(Access access, std::map<std::string, std::string> environment, const Clock& clock);

  // The bearer token to send now; empty: none, the connection says it all. A file is read again
  // after a minute, a plugin is run again shortly before what it said expires; what a file held is
  // used on when it cannot be read. One plugin runs at a time.
  // Failure: as of run_program() and read_file(), kInvalidSyntax (what a plugin printed).
  // Thread: any. Blocking: while a plugin runs, at most a minute.
  Result<std::string> token();

  // token(), unless a plugin would have to be run. Thread: any. Blocking: no; reads a small file.
  std::optional<Result<std::string>> token_at_hand();

  // The server refused this token (401): the next one is read or made anew.
  void refused(const std::string& token);

  // For a new connection: roots and certificates are read from their files again.
  // Failure: kUnreadableSource. Thread: any. Blocking: no; reads small files.
  Result<net::ClientTls> tls() const;

 private:
  struct Granted {
    std::string token;
    std::string certificate_pem;
    std::shared_ptr<const certificate::PrivateKey> key;
    std::optional<WallTime> expires;  // plugins: when; files: when to read again
  };

  // Precondition: mutex_ held. The token that needs nothing to be run.
  std::optional<Result<std::string>> at_hand();
  Result<std::string> read_token_file();
  Result<Granted> run_plugin() const;
  Result<Granted> parse(const std::string& output) const;

  const Access access_;
  const std::map<std::string, std::string> environment_;
  const Clock& clock_;

  std::mutex running_;  // held while a plugin runs; before mutex_
  mutable std::mutex mutex_;
  std::optional<Granted> granted_;  // by a plugin or a file; nullopt: nothing yet, or refused
};

}  // namespace osm::inline v1::kubernetes
