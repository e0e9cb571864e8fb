// Requests to the admin API: of the controller on this machine, by its socket, or of all
// controllers of a mesh on Kubernetes, through the API server. Failures are texts that a person can
// act on.
#pragma once

#include <boost/json/value.hpp>
#include <chrono>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "cluster_flags.hpp"
#include "osm/result.hpp"

namespace osm::cli {

// True for errors that may pass by themselves.
bool may_pass(const Error& error);

// The error in an answer of the admin API, or in one of its parts. `status`: the answer's, of HTTP.
Error error_in(const boost::json::value& answer, int status);

using Query = std::initializer_list<std::pair<std::string_view, std::string_view>>;

// Addresses of the controllers.
struct MeshFlags {
  std::string state_dir;  // empty: $OSM_STATE_DIR, else /var/lib/osm
  ClusterFlags cluster;
  std::string osm_namespace = "osm-system";  // of the control plane, on Kubernetes
};

class AdminClient {
 public:
  // The machine's controller if `mesh` or $OSM_STATE_DIR names its directory, or if there is one in
  // the usual directory and `mesh` names no cluster; else the cluster's controllers.
  AdminClient(const MeshFlags& mesh, std::chrono::milliseconds timeout);
  ~AdminClient();

  // True: the controller on this machine is asked.
  bool is_local() const { return local_; }

  // Result: the answer; of several controllers, what they know together. Failure: the controller's
  // own error, or why it could not be asked.
  Result<boost::json::value> get(std::string_view path, Query query = {}) const;
  Result<boost::json::value> post(std::string_view path, Query query = {},
                                  const boost::json::value& body = nullptr) const;

 private:
  class Controllers;  // where the requests go
  class Machine;
  class Mesh;

  bool local_ = true;
  std::unique_ptr<Controllers> controllers_;
};

}  // namespace osm::cli
