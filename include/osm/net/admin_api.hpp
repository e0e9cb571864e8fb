// The admin API, which the `osm` command asks. Serve it on a Unix socket "<directory>/admin.sock",
// which net::HttpServer opens to this user and root only, and run `osm --state-dir <directory>`.
// docs/linking.md names the library; daemons/README.md lists the paths and fields, and
// net/admin_routes.hpp the paths for programs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/net/http.hpp"
#include "osm/object.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1 {
class ControlPlane;
class DrainedMachines;
class MeshSpec;
class ObjectStore;
class RootRotation;
class TextRecord;
class WorkloadProvider;
namespace certificate {
class Manager;
}
namespace inject {
class Validator;
}
namespace spec {
class ObjectWriter;
}
}  // namespace osm::inline v1

namespace osm::inline v1::net {

// Lifetime: all that is borrowed outlives the handler.
struct AdminApiOptions {
  Runtime runtime;
  ControlPlane& control_plane;
  const MeshSpec& spec;
  certificate::Manager& certificates;
  ObjectStore* store = nullptr;                 // null: answers name no file and line
  const WorkloadProvider* workloads = nullptr;  // null: `osm vm bootstrap` finds no machine
  // For `osm apply`, `delete` and `edit`: writes objects into `store`, after `validator` has
  // allowed it. Either is null: such requests are refused, with the remedy for `objects_in`.
  spec::ObjectWriter* writer = nullptr;
  const inject::Validator* validator = nullptr;
  std::string objects_in{};  // "kubernetes", "etcd:" with its addresses, or a directory
  // Both as in ControlPlaneOptions.
  RootRotation* root_rotation = nullptr;
  TrustDomain trust_domain{"cluster.local"};
  // Tokens with which machines join, which all replicas share; null: none can be made. The port is
  // that of the server of make_join_api(), and the name is in its certificate.
  TextRecord* join_tokens = nullptr;
  std::uint16_t join_port = 0;
  std::string join_server_name{};
  DrainedMachines* drained = nullptr;  // for `osm vm drain`; null: machines are not drained here
  // Replaces the control plane's problems, to add the host's own. Thread: any.
  std::function<std::vector<Problem>()> problems{};
  std::string version{};  // version of the host's program; `osm version` shows both
  std::string commit{};
};

// A handler for an HttpServer.
// Thread: the server calls it on threads that may block and are not `runtime.executor`'s.
// Blocking: until the CA and the control plane have answered.
OSM_API Handler make_admin_api(const AdminApiOptions& options);

}  // namespace osm::inline v1::net
