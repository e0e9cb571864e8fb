// Services: as declared (Service) and as the mesh sees them (MeshService).
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/object.hpp"

namespace osm::inline v1 {

// Protocol of a port. kH2c: HTTP whose server speaks HTTP/2 only, without TLS.
enum class Protocol { kHttp, kGrpc, kTcp, kTcpServerFirst, kH2c };
// True if routes and HTTP policies apply to the protocol.
constexpr bool is_http(Protocol p) {
  return p == Protocol::kHttp || p == Protocol::kGrpc || p == Protocol::kH2c;
}
// "http", "grpc", "tcp", "tcp-server-first", "kubernetes.io/h2c".
OSM_API std::string_view protocol_text(Protocol protocol);
// Protocol by `appProtocol` (any case): one of these, "kubernetes.io/ws" (http) or
// "kubernetes.io/wss" (tcp); else by the port name's prefix ("tcp-server-first-", "http-", "tcp-",
// "grpc-"); else http, also for a port named "tcp". nullopt: an appProtocol that is not supported.
OSM_API std::optional<Protocol> protocol_of(std::string_view app_protocol,
                                            std::string_view port_name);

// One port as a Service object declares it.
struct ServicePort {
  std::string name;  // empty when the Service has one port
  Port port{};
  std::variant<Port, std::string> target_port;  // number, or the workload's port name
  Protocol protocol = Protocol::kHttp;

  friend bool operator==(const ServicePort&, const ServicePort&) = default;
};

// Paths of HTTP requests at a Service's workloads, by the annotation openservicemesh.io/http-paths.
// A path in normal form has no empty, "." or ".." segments, no backslashes, and no escapes of
// slashes, backslashes and unreserved characters (RFC 3986, 2.3).
enum class HttpPaths {
  kStrict,     // as sent; a path rule allows a path in normal form, or its very text
  kNormalize,  // brought into normal form; with escaped slashes or backslashes, refused
  kUnchecked,  // as sent, and path rules compare that
};

// Names of headers of HTTP requests at a Service's workloads, by the annotation
// openservicemesh.io/http-header-names. Many applications take '_' and '-' for one character, so
// that a caller could write a header that a policy, or the mesh itself, has under another name.
enum class HeaderNames {
  kStrict,     // a request with an underscore in a header's name is answered 400
  kUnchecked,  // as sent, except other spellings of x-forwarded-client-cert, which are removed
};

// A v1 Service in the mesh. Unsupported ports (UDP, unknown protocols) are left out.
struct Service {
  ServiceName name;
  std::string cluster_ip;  // empty when headless
  bool headless = false;   // clusterIP: None
  std::map<std::string, std::string> selector;
  std::vector<ServicePort> ports;  // ordered by port, then name
  HttpPaths http_paths = HttpPaths::kStrict;
  HeaderNames header_names = HeaderNames::kStrict;
  Created created{};
  // True if no author chose `cluster_ip`: an API server or --service-cidr assigned it.
  bool assigned = false;

  friend bool operator==(const Service&, const Service&) = default;
};

// One port of a service. Clients dial it, clusters serve it, policies allow it.
struct OSM_API MeshService {
  ServiceName name;
  std::string port_name;
  Port port{};         // dialled by clients
  Port target_port{};  // listened on by workloads; 0 while a named port has no endpoint
  Protocol protocol = Protocol::kHttp;

  std::string fqdn() const;  // service_fqdn(name)
  // "<namespace>/<name>|<target port>"
  ClusterName cluster_name() const;
  // "<namespace>/<name>|<target port>|local": the workload behind its own proxy.
  ClusterName local_cluster_name() const;

  friend bool operator==(const MeshService&, const MeshService&) = default;
  friend std::strong_ordering operator<=>(const MeshService&, const MeshService&) = default;
};

// "<name>.<namespace>.svc.cluster.local", whatever the domain of the cluster's DNS is: the name of
// a Service between sidecars (SNI) and in the names of Envoy's resources. Nobody resolves it.
OSM_API std::string service_fqdn(const ServiceName& name);

}  // namespace osm::inline v1
