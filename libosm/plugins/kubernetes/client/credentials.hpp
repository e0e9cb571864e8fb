// Credentials of requests and connections: bearer tokens that are renewed in their files or by a
// plugin, client certificates from files, inline, or from a plugin.
//
// Logs and errors contain only the origin of credentials.
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
  // `environment` is the host's, for plugins. Lifetime: `clock` outlives this.
  Credentials(Access access, std::map<std::string, std::string> environment, const Clock& clock);

  // The bearer token for the next request; empty: none, the connection authenticates. A file is
  // read again after a minute, a plugin runs again shortly before its token expires. If a file
  // cannot be read, its last content stays in use. One plugin runs at a time.
  // Failure: as of run_program() and read_file(), kInvalidSyntax (a plugin's output).
  // Thread: any. Blocking: while a plugin runs, at most a minute.
  Result<std::string> token();

  // token(), unless a plugin would have to run. Thread: any. Blocking: no; reads a small file.
  std::optional<Result<std::string>> token_at_hand();

  // Reports that the server refused this token (401): the next one is read or made again.
  void refused(const std::string& token);

  // For a new connection: roots and certificates are read from their files again.
  // Failure: kUnreadableSource. Thread: any. Blocking: no; reads small files.
  Result<net::ClientTls> tls() const;

 private:
  struct Granted {
    std::string token;
    std::string certificate_pem;
    std::shared_ptr<const certificate::PrivateKey> key;
    std::optional<WallTime> expires;  // plugins: its end; files: time to read again
  };

  // Precondition: mutex_ held.
  Result<std::string> read_token_file();
  Result<Granted> run_plugin() const;
  Result<Granted> parse(const std::string& output) const;

  const Access access_;
  const std::map<std::string, std::string> environment_;
  const Clock& clock_;

  std::mutex running_;  // held while a plugin runs; before mutex_
  mutable std::mutex mutex_;
  std::optional<Granted> granted_;  // from a plugin or a file; nullopt: none yet, or refused
};

}  // namespace osm::inline v1::kubernetes
