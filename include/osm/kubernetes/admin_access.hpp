// The admin API of a mesh's controllers, for callers that have a kubeconfig. The API server passes
// the request on to one controller's pod (pods/proxy). It removes its own credentials on the way,
// so the caller shows a token of a ServiceAccount of the mesh in a header of its own.
//
//   controller:  net::HttpServer::start({.check_head = kubernetes::require_admin_token(
//                                            {.cluster = *cluster, .replica = pod_name}), ...},
//                                       ..., net::make_admin_api(...), log);
//   command:     auto admin = kubernetes::make_admin_access(*cluster, "osm-system");
//                auto answer = admin->ask((*admin->replicas())[0].name, {.target = "/v1/proxies"});
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/net/http.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::kubernetes {

// A controller whose admin API is protected. Lifetime: `cluster` outlives the check.
struct AdminTokenOptions {
  Cluster& cluster;
  std::string osm_namespace = "osm-system";
  std::string replica;  // name of the controller's pod; a token is for one pod only
};

// Result: a check that lets requests with a valid token pass, as requests of its user, and answers
// 403 to others. A token of ServiceAccount osm-viewer allows GET, one of osm-admin everything.
// Blocking: until the API server has reviewed the token; each request is reviewed.
OSM_API net::HeadCheck require_admin_token(const AdminTokenOptions& options);

// A pod of the control plane.
struct RunningPod {
  std::string name;
  bool ready = false;
};

// Pods of a Deployment of the control plane that run and do not end, the ready ones first.
// Failure: kPermissionDenied, kUnavailable, kDeadlineExceeded, with the server's message.
// Thread: any but an event loop's. Blocking: until the server answers.
OSM_API Result<std::vector<RunningPod>> list_running(Cluster& cluster,
                                                     const std::string& osm_namespace,
                                                     const std::string& deployment);

// A request for one controller.
struct AdminRequest {
  std::string method = "GET";
  std::string target;  // "/v1/status?kind=TrafficTarget&..."
  std::string body{};  // JSON
  std::chrono::milliseconds deadline{10000};
};

// Not for two threads at once.
class OSM_API AdminAccess {
 public:
  virtual ~AdminAccess() = default;

  // The controllers. Failure: kNotFound: there is none, with the namespace; as list_running().
  // Thread, blocking: as list_running().
  virtual Result<std::vector<RunningPod>> replicas() = 0;

  // Result: the controller's response, whatever its status. Failure: kPermissionDenied: the caller
  // may not have a token or not use pods/proxy, with the remedy; kUnavailable: the pod does not
  // answer; as replicas(). Thread, blocking: as replicas().
  virtual Result<net::Response> ask(const std::string& replica, const AdminRequest& request) = 0;
};

// Lifetime: `cluster` outlives the result.
OSM_API std::unique_ptr<AdminAccess> make_admin_access(Cluster& cluster, std::string osm_namespace);

// Port of the controllers' protected admin API, and its name in their pods.
inline constexpr int kAdminPort = 9094;

}  // namespace osm::inline v1::kubernetes
