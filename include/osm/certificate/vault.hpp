// Vault as the mesh's CA: its PKI secrets engine signs what the certificate manager asks for.
//
//   auto issuer = vault::make_vault_issuer({.address = {"vault.example", 8200},
//                                           .ca_pem = vault::from_file("/etc/osm/vault-ca.pem"),
//                                           .token = vault::from_file("/run/osm/vault-token"),
//                                           ...});
//
// docs/certificates.md has the role and the policy that Vault needs.
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

// A small text that may be another the next time: a file, a Secret, ... Asked again and again, on
// any thread, one call at a time; must not block longer than reading a small file takes.
using Source = std::function<Result<std::string>()>;

// The file's content. Failure: kUnreadableSource, naming the file; never what is in it.
OSM_API Source from_file(std::string path);

// Kubernetes auth: https://developer.hashicorp.com/vault/docs/auth/kubernetes
struct KubernetesLogin {
  std::string mount = "kubernetes";  // where the auth method is mounted
  std::string role{};                // of the auth method; not of the PKI engine
  Source jwt;                        // the ServiceAccount's token, read at each login
};

// Where Vault is, as whom to log in there, and what to live on.
struct IssuerOptions {
  net::Address address;
  bool tls = true;            // false: plain HTTP, to this machine only
  Source ca_pem{};            // what Vault's own certificate is verified with; none: the system's
  std::string server_name{};  // which that certificate is for; empty: the address' host
  std::string vault_namespace{};         // X-Vault-Namespace; empty: none
  std::string mount = "pki";             // of the secrets engine
  std::string role = "openservicemesh";  // of the engine, to sign with
  Source token{};                        // one of these two says how to log in
  std::optional<KubernetesLogin> kubernetes{};
  std::chrono::milliseconds deadline{10000};       // of each request
  std::chrono::milliseconds start_timeout{10000};  // how long the first answer is tried for
  net::AsioExecutor& io;                           // these outlive the issuer
  // Its `blocking` has two threads at least that never call sign(): one waits for Vault (to renew
  // the token, to read the CA's chain), another looks its name up. They end before the io_context.
  Runtime runtime;
};

// Result: an issuer that has read the CA's chain and holds a token that Vault takes. It looks after
// both once a minute: renews the token well before its end, logs in anew (or reads the token again)
// where that fails, and announces another chain.
//
// While Vault is away, sealed, or refuses the token, sign() fails at once with the reason; Vault is
// asked again after 1 s, 2 s, ... 1 min, less a random half. health() has that reason too.
// A certificate may end earlier than was asked: where the role, the mount or the CA end it.
// Failure: kInvalidArgument (an option, naming it; no such mount), kUnavailable (for all of
// `start_timeout`), kPermissionDenied, kInvalidCertificate (a chain without its root),
// kUnreadableSource (a file), kInternal (no answer of Vault's). Errors and log lines never hold a
// token. Thread: any but those of `io` and `runtime.blocking`. Blocking: until Vault has answered.
// Lifetime: its destructor waits for what runs in `blocking`, at most as long as the deadline.
OSM_API Result<std::unique_ptr<certificate::Issuer>> make_vault_issuer(
    const IssuerOptions& options);

}  // namespace osm::inline v1::vault
