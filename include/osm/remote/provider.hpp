// A provider in a process of its own, in any language: the controller is the client of the gRPC
// service in openservicemesh/provider/v1/provider.proto, which is installed with the headers.
// docs/provider-guide.md explains the protocol.
//
//   auto consul = osm::remote::make_remote_provider(
//       {.name = "consul", .address = "unix:/run/consul-provider/osm.sock",
//        .allow = {{.ns = "shop"}}}, {runtime, TrustDomain("cluster.local")});
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::remote {

// Accounts of one namespace that a provider may name.
struct AllowedAccounts {
  std::string ns;
  // nullopt: every account of the namespace.
  std::optional<std::vector<std::string>> accounts{};

  friend bool operator==(const AllowedAccounts&, const AllowedAccounts&) = default;
};

// Bounds of what one provider may list. A list beyond them ends the stream: the last good one
// stays, and the provider is stale.
struct RemoteLimits {
  std::size_t message_bytes = 4 * 1024 * 1024;
  std::size_t services = 10'000;
  std::size_t endpoints = 100'000;
  std::size_t workloads = 20'000;

  friend bool operator==(const RemoteLimits&, const RemoteLimits&) = default;
};

// One provider process. Files are PEM; they are read again for each connection.
struct RemoteProviderOptions {
  std::string name;  // id(): a DNS label
  // "unix:/run/provider.sock", or "HOST:PORT" over mutual TLS. Nothing else is without encryption.
  std::string address;
  // Unix socket: the user that the process must run as, a name or a number. Empty: this process's
  // own user or root.
  std::string user{};
  // TCP, all required: roots that the provider's certificate is verified with, and the certificate
  // that this process shows, with its key.
  std::string ca_file{};
  std::string certificate_file{};
  std::string key_file{};
  // Name that the provider's certificate must have. Empty: the host of the address.
  std::string server_name{};
  // The identities that the provider may claim, at least one. All others are left out and reported.
  std::vector<AllowedAccounts> allow;
  bool required = true;  // for ProviderEntry: the mesh serves nothing before it has synced
  // The provider sends a message at least so often. It is stale after three times as long.
  std::chrono::seconds heartbeat{10};
  RemoteLimits limits{};

  friend bool operator==(const RemoteProviderOptions&, const RemoteProviderOptions&) = default;
};

// Services of the host. Lifetime: those that `runtime` borrows outlive the provider.
struct RemoteProviderHost {
  Runtime runtime;
  TrustDomain trust_domain;  // for UUIDs that are derived from names
};

// Its list_problems() names what was left out, and the reason while there is no connection.
class OSM_API RemoteProvider : public EndpointsProvider, public WorkloadProvider {};

// A provider that connects at once, and again after failures: after half a second at first, 15 s at
// most, each with jitter.
// Failure: kInvalidArgument (an option), with the option and the remedy. A process that does not
// answer and files that cannot be read are no failure: the provider tries again, and has_synced()
// stays false.
// Thread: any; subscribers are called on Runtime::blocking. Blocking: no. Destroying it waits for
// its running task, and starts no call any more.
OSM_API Result<std::unique_ptr<RemoteProvider>> make_remote_provider(
    const RemoteProviderOptions& options, const RemoteProviderHost& host);

// Reads a YAML list of providers (docs/provider-guide.md): each with the fields name, address,
// user, caFile, certificateFile, keyFile, serverName, allow and required. Failure:
// kUnreadableSource (the file), kInvalidSyntax, kInvalidField, with file, line, field and remedy.
// Thread: any. Blocking: on the file.
OSM_API Result<std::vector<RemoteProviderOptions>> read_providers_file(const std::string& path);

}  // namespace osm::inline v1::remote
