// The mesh as one answer: MeshSpec, EndpointsProviders and certificates put together. Every read
// sees one consistent state.
#pragma once

#include <string>
#include <vector>

#include "osm/certificate/manager.hpp"
#include "osm/detail/api.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/result.hpp"
#include "osm/values/endpoint.hpp"
#include "osm/values/proxy.hpp"
#include "osm/values/service.hpp"
#include "osm/values/traffic_policy.hpp"

namespace osm::inline v1 {

// All reads: Thread: any. Blocking: no. Failure where a Result is returned: kNotReady before the
// first sync, kNotFound for a name the mesh does not know. Results are values, ordered.
class OSM_API MeshReader {
 public:
  virtual ~MeshReader() = default;

  // The specification behind these answers. Lifetime: the cataloger's.
  virtual const MeshSpec& get_smi_spec() const = 0;

  // Who may call `identity` / whom `identity` may call.
  virtual Result<std::vector<ServiceIdentity>> list_inbound_service_identities(
      const ServiceIdentity& identity) const = 0;
  virtual Result<std::vector<ServiceIdentity>> list_outbound_service_identities(
      const ServiceIdentity& identity) const = 0;

  // The accounts that run a service / the services an account runs.
  virtual Result<std::vector<ServiceIdentity>> list_service_identities_for_service(
      const ServiceName& service) const = 0;
  virtual Result<std::vector<MeshService>> get_services_for_service_identity(
      const ServiceIdentity& identity) const = 0;

  // Every TrafficTarget, resolved, one entry per source.
  virtual Result<std::vector<TrafficPolicy>> list_smi_policies() const = 0;

  // Merged over all providers. Known without endpoints: empty.
  virtual Result<std::vector<Endpoint>> list_endpoints_for_service(
      const ServiceName& service) const = 0;

  // What may enter a service from outside the mesh. Empty until IngressBackend is supported.
  virtual Result<std::vector<InboundTrafficPolicy>> get_ingress_policies_for_service(
      const ServiceName& service) const = 0;
};

// Proxies and their certificates, as far as this replica knows them. Never a precondition for
// serving a proxy. Thread: any. Blocking: no.
class OSM_API ProxyRegistry {
 public:
  virtual ~ProxyRegistry() = default;

  // Remembers a proxy certificate as unclaimed until its proxy connects.
  virtual void expect_proxy(const certificate::ProxyCertificate& certificate) = 0;
  // A proxy connected (its certificate becomes claimed) / its last stream ended.
  virtual void register_proxy(const Proxy& proxy) = 0;
  virtual void unregister_proxy(const ProxyId& id) = 0;

  // Failure: kUnknownProxy when no workload has that UUID there.
  virtual Result<std::vector<MeshService>> get_services_for_proxy(const std::string& ns,
                                                                  const ProxyId& id) const = 0;
  // Every certificate that expect_proxy() was told of and that has not ended, claimed or not. Those
  // of a workload that is gone are forgotten with its last stream.
  virtual std::vector<certificate::ProxyCertificate> list_proxy_certificates() const = 0;
};

// Everything there is to ask of a mesh. Thread: any. Blocking: no.
class OSM_API MeshCataloger : public MeshReader, public ProxyRegistry {
 public:
  // Whether `source` may call `destination`, and which object decides. Failure: as MeshReader's.
  virtual Result<PolicyDecision> check_policy(const ServiceIdentity& source,
                                              const ServiceIdentity& destination) const = 0;
  // Participants of the mesh: issued proxy certificates whose proxies are connected and whose
  // workloads have endpoints. Reported, never a filter.
  virtual std::vector<ProxyId> list_participants() const = 0;
};

}  // namespace osm::inline v1
