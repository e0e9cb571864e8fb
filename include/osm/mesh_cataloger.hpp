// The catalog of the mesh: MeshSpec, EndpointsProviders and certificates combined. Every read sees
// one consistent state.
#pragma once

#include <string>
#include <vector>

#include "osm/certificate/manager.hpp"
#include "osm/detail/api.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/result.hpp"
#include "osm/values/endpoint.hpp"
#include "osm/values/explanation.hpp"
#include "osm/values/proxy.hpp"
#include "osm/values/service.hpp"
#include "osm/values/traffic_policy.hpp"

namespace osm::inline v1 {

// For all reads: Thread: any. Blocking: no. Failure, if a Result is returned: kNotReady before the
// first sync, kNotFound for a name that the mesh does not know. Results are values, ordered.
class OSM_API MeshReader {
 public:
  virtual ~MeshReader() = default;

  // The specification that these answers come from. Lifetime: the cataloger's.
  virtual const MeshSpec& get_smi_spec() const = 0;

  // Identities that may call `identity` / that `identity` may call, by the rules of check_policy().
  // A denied identity has none and is in no list.
  virtual Result<std::vector<ServiceIdentity>> list_inbound_service_identities(
      const ServiceIdentity& identity) const = 0;
  virtual Result<std::vector<ServiceIdentity>> list_outbound_service_identities(
      const ServiceIdentity& identity) const = 0;

  // Accounts that run a service / services that an account runs.
  virtual Result<std::vector<ServiceIdentity>> list_service_identities_for_service(
      const ServiceName& service) const = 0;
  virtual Result<std::vector<MeshService>> get_services_for_service_identity(
      const ServiceIdentity& identity) const = 0;

  // Every TrafficTarget, resolved, one entry per source.
  virtual Result<std::vector<TrafficPolicy>> list_smi_policies() const = 0;

  // Endpoints for clients, of all providers, merged. One with the weight 0 gets no traffic. Left
  // out are unhealthy ones, and for some seconds those whose proxies do not serve them yet
  // (docs/adr/0071). Empty: the service is known and has none that is left.
  virtual Result<std::vector<MergedEndpoint>> list_endpoints_for_service(
      const ServiceName& service) const = 0;

  // Callers from outside of the mesh that IngressBackends in force admit to the workloads behind a
  // service, ordered by target port. Empty: nobody.
  virtual Result<std::vector<IngressTrafficPolicy>> get_ingress_policies_for_service(
      const ServiceName& service) const = 0;
};

// Proxies and their certificates, as far as this replica knows them; of other replicas, what they
// report. Never a precondition for serving a proxy. Thread: any. Blocking: no.
class OSM_API ProxyRegistry {
 public:
  virtual ~ProxyRegistry() = default;

  // Remembers a proxy certificate as unclaimed until its proxy connects.
  virtual void expect_proxy(const certificate::ProxyCertificate& certificate) = 0;
  // Records that a proxy connected (its certificate becomes claimed) / that its last stream ended.
  virtual void register_proxy(const Proxy& proxy) = 0;
  virtual void unregister_proxy(const ProxyId& id) = 0;

  // Services of the workload with that proxy UUID; if a machine and a pod have it, the machine's.
  // Failure: kUnknownProxy if no workload of namespace `ns` has that UUID.
  virtual Result<std::vector<MeshService>> get_services_for_proxy(const std::string& ns,
                                                                  const ProxyId& id) const = 0;
  // Every unexpired certificate that was passed to expect_proxy(), claimed or not, at any replica.
  // The certificates of a removed workload are forgotten with its last stream.
  virtual std::vector<certificate::ProxyCertificate> list_proxy_certificates() const = 0;
};

// All questions about a mesh. Thread: any. Blocking: no.
class OSM_API MeshCataloger : public MeshReader, public ProxyRegistry {
 public:
  // Decides if `source` may call `destination`, and names the deciding objects. Failure: as
  // MeshReader's.
  virtual Result<PolicyDecision> check_policy(const ServiceIdentity& source,
                                              const ServiceIdentity& destination) const = 0;
  // Explains what happens to one call, and names every object that decides about it or is missing.
  // An unknown destination is no failure: the call to it is denied. Failure: as MeshReader's (the
  // source), and kInvalidArgument for a question that cannot be read, as one without a port.
  virtual Result<Explanation> explain(const CallQuestion& question) const = 0;
  // Policies as MeshSpec::list_policies() lists them, without those that have no effect: a setting
  // of the MeshConfig turns them off, another object comes first, or all that they name is missing.
  // Failure: as MeshReader's.
  virtual Result<SharedList<Policy>> list_policies_in_force() const = 0;
  // Participants of the mesh: proxies with an issued certificate that are connected, to any
  // replica, and whose workloads have endpoints. Ordered. For reports only; never a filter.
  virtual std::vector<ProxyId> list_participants() const = 0;
};

}  // namespace osm::inline v1
