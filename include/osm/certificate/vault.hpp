// Vault as the mesh's CA: its PKI secrets engine signs the certificate manager's requests.
//
//   auto issuer = vault::make_vault_issuer({.address = {"vault.example", 8200},
//                                           .ca_pem = vault::from_file("/etc/osm/vault-ca.pem"),
//                                           .token = vault::from_file("/run/osm/vault-token"),
//                                           ...});
//
// docs/certificates.md has the role and the policy for Vault.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "osm/certificate/issuer.hpp"
#include "osm/detail/api.hpp"
#include "osm/net/address.hpp"
#include "osm/result.hpp"
#include "osm/runtime/asio_executor.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::vault {

// A small text that may change: a file, a Secret, ... Read repeatedly, on any thread, one call at a
// time; must not block longer than reading a small file takes.
using Source = std::function<Result<std::string>()>;

// The content of a file. Failure: kUnreadableSource, naming the file, never its content.
OSM_API Source from_file(std::string path);

// Kubernetes auth: https://developer.hashicorp.com/vault/docs/auth/kubernetes
struct KubernetesLogin {
  std::string mount = "kubernetes";  // mount of the auth method
  std::string role{};                // role of the auth method, not of the PKI engine
  Source jwt;                        // the ServiceAccount's token, read at each login
};

// Vault's address, credentials, and the services of the host.
struct IssuerOptions {
  net::Address address;
  bool tls = true;                // false: plain HTTP, to this machine only
  Source ca_pem{};                // verifies Vault's own certificate; none: the system's roots
  std::string server_name{};      // name in that certificate; empty: the address' host
  std::string vault_namespace{};  // X-Vault-Namespace; empty: none
  std::string mount = "pki";      // mount of the secrets engine
  std::string role = "openservicemesh";  // signing role of the engine
  Source token{};                        // exactly one of these two is set
  std::optional<KubernetesLogin> kubernetes{};
  std::chrono::milliseconds deadline{10000};       // per request
  std::chrono::milliseconds start_timeout{10000};  // time for the first successful answer
  net::AsioExecutor& io;                           // these outlive the issuer
  // Its `blocking` has two threads at least that never call sign(): one waits for Vault (to renew
  // the token, to read the CA's chain), another looks its name up. They end before the io_context.
  Runtime runtime;
};

// Result: an issuer that has read the CA's chain and holds a valid token. It checks both once a
// minute: it renews the token well before its end, logs in again (or reads the token again) if that
// fails, and announces a changed chain.
//
// While Vault is unreachable, sealed, or refuses the token, sign() fails at once with the reason,
// and so does health(). Retries follow after 1 s, 2 s, ... 1 min, less a random half. A certificate
// may be shorter than requested if the role, the mount or the CA limits it.
//
// Failure: kInvalidArgument (an option, naming it; no such mount), kUnavailable (for all of
// `start_timeout`), kPermissionDenied, kInvalidCertificate (a chain without its root),
// kUnreadableSource (a file), kInternal (an answer that is not Vault's). Errors and log lines never
// contain a token.
// Thread: any but those of `io` and `executor`. Blocking: until Vault has answered.
// Lifetime: its destructor waits for running tasks in `executor`, at most for the deadline.
OSM_API Result<std::unique_ptr<certificate::Issuer>> make_vault_issuer(
    const IssuerOptions& options);

}  // namespace osm::inline v1::vault
