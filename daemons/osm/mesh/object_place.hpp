// The place of the mesh's objects, for commands that change one.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "command.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/object.hpp"
#include "osm/result.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "osm/spec/object_writer.hpp"

namespace osm::cli {

// A writer with the rights of the command's user.
struct ObjectPlace {
  std::string name;                                // for people
  std::unique_ptr<OwnRuntime> runtime{};           // of the cluster
  std::unique_ptr<kubernetes::Cluster> cluster{};  // null: the mesh is not on Kubernetes
  std::unique_ptr<spec::ObjectWriter> writer{};
};

// The directory `mesh_dir`, of which the writer changes `file`, and waits up to `wait` for other
// writers. If `mesh_dir` is empty: etcd, through the controller on this machine, or a cluster.
// Failure: kInvalidArgument: the controller's mesh is elsewhere; as the controller's answer to an
// empty `mesh_dir`; as connect(). Blocking: for the controller's answer.
Result<ObjectPlace> open_place(const Flags& flags, const std::string& mesh_dir,
                               std::string_view file, std::chrono::milliseconds wait);

// Makes another document of an object's; null: there is no object, or it is to be removed.
using ChangeDocument = std::function<Result<boost::json::value>(boost::json::value present)>;

// The object's spec, to change it; made if it has none. Precondition: `object` is a map.
boost::json::object& spec_of(boost::json::value& object);

// Changes an object, unless it is so. If somebody else was faster, or the error is `passing` or
// may pass, it reads the object and tries again, until `deadline`. An object that is gone after an
// attempt to remove it is removed. Failure: kConflict: what is stored is no object of the mesh; as
// `change`, and as the writer. Blocking: until `deadline`, and for the last try.
Status edit_object(spec::ObjectWriter& writer, const ObjectKey& key,
                   std::chrono::steady_clock::time_point deadline, const ChangeDocument& change,
                   ErrorCode passing = ErrorCode::kConflict);

}  // namespace osm::cli
