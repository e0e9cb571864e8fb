// A cluster as its API server writes it: every object with what controllers, kubelets and
// managedFields add, so that a pod is about 11 kB of JSON.
//
//   Service s is of namespace s mod 20, with an account, an EndpointSlice and, of the policies, a
//   TrafficTarget and an HTTPRouteGroup; pod p stands behind Service p mod <services>.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

namespace osm::bench {

struct ClusterSize {
  int services = 1000;
  int pods = 10'000;
  int policies = 2000;  // half TrafficTargets, half HTTPRouteGroups; at most two a Service

  // "cluster-1000x10000x2000"
  std::string name() const;
};

// Changes of an object since the cluster was made.
struct ObjectState {
  int version = 1;     // metadata.resourceVersion
  int heartbeats = 0;  // its status was written again, and says nothing new
  int labels = 0;      // a label that no Service asks for has another value
  bool ready = true;   // of a pod; of a slice, its first endpoint
  bool moved = false;  // a pod that its Service does not select
};

class SyntheticCluster {
 public:
  explicit SyntheticCluster(const ClusterSize& size) : size_(size) {}

  // Number of objects of a resource ("pods"); 0 for resources that are not used.
  int count(std::string_view plural) const;
  // Precondition: index < count(plural).
  boost::json::object object(std::string_view plural, int index, const ObjectState& state) const;

 private:
  boost::json::object pod(int index, const ObjectState& state) const;
  boost::json::object slice(int index, const ObjectState& state) const;

  ClusterSize size_;
};

}  // namespace osm::bench
