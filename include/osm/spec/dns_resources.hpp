// Machines behind DNS names: DNSResource objects, and a resolver that asks name servers.
//
//   auto resolver = dns::make_dns_resolver({.runtime = runtime}).value();
//   auto provider = dns::make_dns_provider({.resolver = *resolver, .store = store, ...});
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/ids.hpp"
#include "osm/log.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/metrics.hpp"
#include "osm/object_store.hpp"
#include "osm/providers/resource_resolver.hpp"
#include "osm/result.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::dns {

// Settings of a resolver.
struct DnsResolverOptions {
  Runtime runtime;  // one task at a time waits on `blocking`, for `deadline` at most
  // Name servers, "192.0.2.53", "192.0.2.53:5353" or "[2001:db8::53]:53", asked in this order; at
  // most 8. Empty: those of the system, read again for each round.
  std::vector<std::string> servers{};
  // A record is asked for again after its TTL, within these bounds.
  std::chrono::seconds least_ttl{5};
  std::chrono::seconds longest_ttl{300};
  std::chrono::milliseconds timeout{2000};    // of one try at one server
  std::chrono::milliseconds deadline{10000};  // of a round
  // A name that does not exist (NXDOMAIN) for this long has no instances any more.
  std::chrono::seconds gone_after{300};
};

// A ResourceResolver with the id "dns". Its ids are "A:<name>", "AAAA:<name>" and "SRV:<name>",
// with names in lower case and without a final dot. Name servers that do not answer, SERVFAIL, and
// answers without records keep the last good addresses.
// Failure: kInvalidArgument, if `servers` is wrong. Thread: any. Blocking: no.
// Lifetime: the runtime outlives it.
OSM_API Result<std::unique_ptr<ResourceResolver>> make_dns_resolver(
    const DnsResolverOptions& options);

// Inputs of a DNS provider, and its sinks. All outlive the provider.
struct DnsProviderOptions {
  ResourceResolver& resolver;  // with make_dns_resolver()'s ids; used by this provider alone
  ObjectStore& store;          // holds the DNSResources
  MeshSpec& mesh_spec;         // Services and namespaces, from the same store
  TrustDomain trust_domain;
  LogSink& log;
  MetricsSink& metrics;
};

// Endpoints and workloads behind DNS names.
class OSM_API DnsProvider : public EndpointsProvider, public WorkloadProvider {};

// Endpoints and workloads from DNSResource objects and the Services that select them, as
// vm::make_vm_provider() has them from VirtualMachines. Its id is "dns". It is synced once every
// name of the first objects was answered for, and unhealthy while no name server answers.
// Failure: none. Thread: subscribers are called in the store's thread or the resolver's.
OSM_API std::unique_ptr<DnsProvider> make_dns_provider(const DnsProviderOptions& options);

}  // namespace osm::inline v1::dns
