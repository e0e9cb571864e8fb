// Machines that are resources of Azure: AzureResource objects, and a resolver that asks Azure
// Resource Manager (ARM).
//
//   auto settings = azure::parse_azure_config(text).value();
//   auto resolver = azure::make_azure_resolver({.settings = settings, .io = io, .runtime =
//   runtime}); auto provider = azure::make_azure_provider({.resolver = resolver->get(), .store =
//   store, ...});
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "osm/detail/api.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/ids.hpp"
#include "osm/log.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/metrics.hpp"
#include "osm/object_store.hpp"
#include "osm/providers/resource_resolver.hpp"
#include "osm/result.hpp"
#include "osm/runtime/asio_executor.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::azure {

// OAuth 2 client credentials of an application. The secret is in a file, which is read for each
// token, so that it can be replaced.
struct ClientCredentials {
  std::string authority = "https://login.microsoftonline.com";
  std::string tenant{};
  std::string client_id{};
  std::string secret_file{};
};

// The identity of the machine that the controller runs on.
struct ManagedIdentity {
  // The instance metadata service: plain HTTP, so it must be link-local or of this machine.
  std::string metadata = "http://169.254.169.254";
  std::string client_id{};  // of a user-assigned identity; empty: the system-assigned one
};

// The way to ARM. Exactly one of the two identities is set.
struct AzureSettings {
  std::string endpoint = "https://management.azure.com";
  std::optional<ClientCredentials> client{};
  std::optional<ManagedIdentity> managed{};
  std::string ca_file{};  // roots for the endpoint and the authority; empty: the system's
  std::chrono::seconds interval{60};  // between two requests for a resource
};

// Reads settings from YAML: endpoint, tenant, clientID, clientSecretFile, authority,
// managedIdentity: {clientID, endpoint}, caFile, interval (seconds).
// Failure: kInvalidSyntax, kInvalidField with the field and the remedy; never with a value that may
// be a secret. Thread: any. Blocking: no.
OSM_API Result<AzureSettings> parse_azure_config(std::string_view yaml);

// Settings of a resolver, and what it borrows.
struct AzureResolverOptions {
  AzureSettings settings;
  net::AsioExecutor& io;  // for connections
  // At most four tasks at a time wait for ARM on `blocking`, and host names are looked up there:
  // it has five threads or more, which end before the io_context does.
  Runtime runtime;
  std::chrono::milliseconds deadline{10000};  // of one request
  // A resource that does not exist for this long has no instances any more.
  std::chrono::seconds gone_after{300};
};

// A ResourceResolver with the id "azure". Its ids are ARM ids of virtual machines and scale sets:
// "/subscriptions/<id>/resourceGroups/<group>/providers/Microsoft.Compute/virtualMachines/<name>".
// Throttling (429), outages and refusals keep the last good addresses.
// Failure: kInvalidArgument, a setting. Thread: any. Blocking: no.
// Lifetime: `io` and the runtime outlive it.
OSM_API Result<std::unique_ptr<ResourceResolver>> make_azure_resolver(
    const AzureResolverOptions& options);

// Inputs of an Azure provider, and its sinks. All outlive the provider.
struct AzureProviderOptions {
  ResourceResolver* resolver = nullptr;  // null: each object is reported as without effect
  ObjectStore& store;                    // holds the AzureResources
  MeshSpec& mesh_spec;                   // Services and namespaces, from the same store
  TrustDomain trust_domain;
  LogSink& log;
  MetricsSink& metrics;
};

// Endpoints and workloads that are resources of Azure.
class OSM_API AzureProvider : public EndpointsProvider, public WorkloadProvider {};

// Endpoints and workloads from AzureResource objects and the Services that select them, as
// vm::make_vm_provider() has them from VirtualMachines. Its id is "azure".
// Failure: none. Thread: subscribers are called in the store's thread or the resolver's.
OSM_API std::unique_ptr<AzureProvider> make_azure_provider(const AzureProviderOptions& options);

}  // namespace osm::inline v1::azure
