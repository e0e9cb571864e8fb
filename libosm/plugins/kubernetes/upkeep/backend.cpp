#include "osm/kubernetes/backend.hpp"

#include <boost/json.hpp>
#include <utility>

#include "base/json.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/upkeep/labels.hpp"
#include "kubernetes/upkeep/record_names.hpp"
#include "osm/spec/kinds.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

// A text in a ConfigMap, for every daemon of the mesh.
class ConfigMapRecord final : public TextRecord {
 public:
  ConfigMapRecord(Api& api, std::string ns, const char* name)
      : api_(api), ns_(std::move(ns)), name_(name) {}

  std::string name() const override { return "ConfigMap " + ns_ + '/' + name_; }

  Result<Text> load() override {
    const auto present = api_.get(kConfigMaps, ns_, name_);
    if (present.ok())
      return Text{text_at(map_at(*present, "data"), kRecordKey), metadata_of(*present).version};
    if (present.error().code == ErrorCode::kNotFound) return Text{};
    return failed(present.error());
  }

  Status store(const Text& next) override {
    const auto written = next.version.empty() ? create(next) : replace(next);
    if (written.ok()) return {};
    const Error& error = written.error();
    // Another replica was first, or the ConfigMap was deleted.
    if (error.code == ErrorCode::kAlreadyExists || error.code == ErrorCode::kConflict ||
        (error.code == ErrorCode::kNotFound && !next.version.empty()))
      return Error{ErrorCode::kConflict, name() + ": is not what was read any more"};
    return failed(error);
  }

 private:
  Result<json::object> create(const Text& next) {
    json::object object = new_object(kConfigMaps, ns_, name_, name_label());
    object["data"] = json::object{{kRecordKey, next.text}};
    return api_.create(kConfigMaps, object);
  }

  Result<json::object> replace(const Text& next) {
    const json::object patch{{"metadata", {{"resourceVersion", next.version}}},
                             {"data", {{kRecordKey, next.text}}}};
    return api_.patch(kConfigMaps, ns_, name_,
                      {.type = PatchType::kMerge, .body = json::serialize(patch)});
  }

  Error failed(const Error& error) const {
    Error out = error.with_context(name());
    if (error.code == ErrorCode::kPermissionDenied) {
      out.message += "; let this daemon's ServiceAccount create configmaps in " + ns_ +
                     ", and get and patch the one named " + name_ +
                     " (the Role osm-controller of charts/osm does)";
    } else {
      const bool away =
          error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kDeadlineExceeded;
      out.code = away ? ErrorCode::kUnavailable : ErrorCode::kStorage;
    }
    return out;
  }

  Api& api_;
  const std::string ns_;
  const std::string name_;
};

}  // namespace

Backend make_backend(const BackendOptions& options) {
  ReplicaBoardOptions board = options.board;
  Cluster& cluster = board.cluster;
  const std::string& ns = board.osm_namespace;
  StoreOptions store{.cluster = cluster,
                     .runtime = options.objects,
                     .mesh_name = board.mesh_name,
                     .osm_namespace = ns,
                     .workloads = !options.injects};
  if (options.injects) {
    store.kinds = spec::mesh_kinds(
        {kinds::kNamespace, kinds::kMeshConfig, kinds::kMeshRootCertificate, kinds::kDenylist});
    board.topics = {"roots"};
  }
  Backend backend{.objects_in = "kubernetes", .replica = board.replica};
  backend.read_every = std::chrono::seconds(10);  // each replica asks the API server
  backend.objects = make_store(store);
  const auto record = [&](const char* name) {
    return std::make_unique<ConfigMapRecord>(cluster.api(), ns, name);
  };
  backend.root_rotation = record("osm-root-rotation");
  backend.last_mesh_config = record(kLastConfigName);
  backend.join_tokens = record("osm-join-tokens");
  backend.drained_machines = record("osm-drained-machines");
  backend.ca_store = [&cluster,
                      ns](const CaPlace& place) -> Result<std::unique_ptr<certificate::CaStore>> {
    if (place.secret.empty())
      return Error{ErrorCode::kInvalidArgument, "CaPlace.secret: required on Kubernetes"};
    return make_ca_store(cluster, ns, place.secret);
  };
  backend.join = [board] { return make_replica_board(board); };
  return backend;
}

}  // namespace osm::inline v1::kubernetes
