// Labels and annotations of namespaces and pods, which commands read and change.
#pragma once

#include <boost/json/object.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "cluster_flags.hpp"
#include "command.hpp"
#include "osm/kubernetes/objects.hpp"
#include "osm/runtime/own_runtime.hpp"

namespace osm::cli {

inline constexpr const char* kMetricsMark = "openservicemesh.io/metrics";  // of a namespace
inline constexpr const char* kProxyUuid = "osm-proxy-uuid";  // label of pods with a sidecar

kubernetes::ObjectKind namespace_kind();
kubernetes::ObjectKind pod_kind();

// Labels and annotations of an object.
struct Marks {
  std::string name;
  boost::json::object labels;
  boost::json::object annotations;
};

// The marks of an object in JSON. Failure: kInvalidSyntax.
Result<Marks> marks_of(const std::string& text);

// Failure: kNotFound, with a remedy; as kubernetes::get_object.
Result<Marks> read_namespace(kubernetes::Cluster& cluster, const std::string& name);

// Failure: as kubernetes::list_objects.
Result<std::vector<Marks>> pods_of(kubernetes::Cluster& cluster, const std::string& ns,
                                   const char* selector = "");

// Sets labels and annotations; null removes one. Failure: as kubernetes::patch_object.
Status change_marks(kubernetes::Cluster& cluster, const kubernetes::ObjectKind& kind,
                    const std::string& ns, const std::string& name, boost::json::object labels,
                    boost::json::object annotations);

// Does `what` to each namespace, up to the first failure.
template <class Options>
int for_each(const Flags& flags, const Options& options,
             Status (*what)(kubernetes::Cluster&, const std::string&, const Options&)) {
  OwnRuntime runtime({.least = LogLevel::kError});
  const auto cluster = connect(flags.mesh.cluster, runtime);
  if (!cluster.ok()) return fail(flags, cluster.error());
  for (const std::string& name : options.names)
    if (const Status done = what(**cluster, name, options); !done.ok())
      return fail(flags, done.error());
  return std::cout.flush() ? kDone : kFailed;
}

}  // namespace osm::cli
