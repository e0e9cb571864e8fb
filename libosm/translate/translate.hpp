// Translates a snapshot and a proxy class into Envoy resources. Pure: no clock, no logger, no
// cache.
//
// Translation has two steps. inputs_for() collects, per resource, exactly the values that decide
// its bytes. encode() turns one such Input into bytes. An Input's key is the cache key: a change
// that alters no Input of a class causes no push, and equal inputs are encoded once for all.
#pragma once

#include <array>
#include <compare>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/digest.hpp"
#include "model/mesh_snapshot.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/values/proxy.hpp"

namespace osm::inline v1::translate {

// A port of a workload, with what its Service's entry says to the server's side.
struct ServedPort {
  MeshService port;
  bool headless = false;
  std::vector<ServiceName> apexes;  // apexes of splits to the service, ordered
  HttpPaths http_paths = HttpPaths::kStrict;
  HeaderNames header_names = HeaderNames::kStrict;

  friend bool operator==(const ServedPort&, const ServedPort&) = default;
  friend std::strong_ordering operator<=>(const ServedPort&, const ServedPort&) = default;
};

// Everything that translation may know of a proxy. Proxies of one class get the same bytes.
struct ProxyClass {
  ServiceIdentity identity;
  // Ports of the proxy's own services, with target ports resolved on this workload. Ordered,
  // conflicts settled.
  std::vector<MeshService> own_ports;
  // Ports that are not its own any more, and apexes that do not split to them any more, while
  // clients may not know it yet. Ordered by port, ports unique.
  std::vector<ServedPort> leaving = {};
  // The Telemetry in effect. Labels that select it are not known here.
  std::optional<TelemetryName> telemetry = {};
  bool dns = false;  // its proxy answers for the names of Services
  // True for a gRPC library, which is a proxy without Envoy: other forms of the same content (ADR
  // 0065).
  bool grpc = false;
  // Number of the mesh that is translated for it. 0: the mesh of all proxies. Another: one without
  // objects that its proxies refuse (ADR 0070).
  std::uint64_t mesh = 0;

  friend bool operator==(const ProxyClass&, const ProxyClass&) = default;
  friend std::strong_ordering operator<=>(const ProxyClass&, const ProxyClass&) = default;
};

// Nothing is leaving. A workload that the snapshot does not have has no Telemetry.
ProxyClass class_of(const model::MeshSnapshot& snapshot, const Workload& workload);

// The ports, with what the snapshot says of their Services.
std::vector<ServedPort> served_ports(const model::MeshSnapshot& snapshot,
                                     const std::vector<MeshService>& ports);

// One resource, serialized and hashed once, shared by all proxies that get it.
struct EncodedResource {
  XdsType type{};
  std::string name;
  std::string any;  // a serialized google.protobuf.Any
  Digest hash;      // hash of `any`
  // Names of the resources that this one needs, ordered. Clusters need their ClusterLoadAssignment
  // (EDS) and secrets (SDS); listeners their route configurations (RDS), clusters and secrets;
  // routes their clusters.
  struct Reference {
    XdsType type{};
    std::string name;
    friend bool operator==(const Reference&, const Reference&) = default;
    friend auto operator<=>(const Reference&, const Reference&) = default;
  };
  std::vector<Reference> references;
  // True: it contains an object that its proxies refuse and may not be served without (ADR 0070).
  // A proxy is not sent it and keeps what it has; `any` is empty, and `hash` stands for the
  // content.
  bool frozen = false;
};
using EncodedPtr = std::shared_ptr<const EncodedResource>;

// The endpoints of `fresh` that `known`, an older resource of its name, has too. Null: these are
// all of `fresh`, or none.
EncodedPtr known_endpoints(const EncodedResource& known, const EncodedResource& fresh);

// The values that decide one resource's bytes.
class Input {
 public:
  virtual ~Input() = default;
  virtual XdsType type() const = 0;
  virtual const std::string& name() const = 0;
  virtual Digest key() const = 0;  // hash of the type and every value that encode() reads
  virtual EncodedResource encode() const = 0;
};
using InputPtr = std::unique_ptr<const Input>;

// The inputs of every resource of `type` (except secrets) of a class, ordered by name, unique.
// kRoute: one per listener chain that names it, including empty ones.
std::vector<InputPtr> inputs_for(const model::MeshSnapshot& snapshot, const ProxyClass& proxy_class,
                                 XdsType type);

// The inputs of the ClusterLoadAssignments of one service in this class; none if the class has
// none. For a change of endpoints only.
std::vector<InputPtr> endpoint_inputs_for(const model::MeshSnapshot& snapshot,
                                          const ProxyClass& proxy_class,
                                          const ServiceName& service);

// The services whose entries, and those whose endpoints, the class's inputs read, ordered. This is
// the index from services to the classes that they affect. Identity policies: its own only.
std::vector<ServiceName> services_read_by(const model::MeshSnapshot& snapshot,
                                          const ProxyClass& proxy_class);

// Names of the two secrets that every proxy requests.
inline constexpr const char* kServiceCertSecret = "service-cert";
inline constexpr const char* kRootCertSecret = "root-cert";
EncodedResource encode_service_cert(const certificate::Certificate& certificate);
EncodedResource encode_root_cert(const std::string& trust_bundle_pem);

}  // namespace osm::inline v1::translate
