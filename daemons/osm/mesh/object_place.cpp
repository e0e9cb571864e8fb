#include "mesh/object_place.hpp"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <thread>
#include <utility>

#include "base/json.hpp"
#include "mesh/object_commands.hpp"
#include "osm/kubernetes/objects.hpp"
#include "osm/spec/directory_store.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTryAgain{50};
constexpr std::chrono::milliseconds kPauseAfterRefusal{500};  // it asks a webhook

// Objects in etcd, which the controller validates and writes.
class AdminWriter final : public spec::ObjectWriter {
 public:
  explicit AdminWriter(const Flags& flags) : client_(flags.client()) {}

  Result<spec::StoredObject> read(const ObjectKey& key) override {
    const auto found = get_object(client_, key);
    if (!found.ok() && found.error().code == ErrorCode::kNotFound) return spec::StoredObject{};
    if (!found.ok()) return found.error();
    OSM_TRY(const auto objects, spec::read_objects(json::serialize(with_version(*found, "")),
                                                   "the controller's answer"));
    return spec::StoredObject{text_at(map_at(*found, "metadata"), "resourceVersion"),
                              objects.empty() ? nullptr : objects.front()};
  }

  Result<std::string> write(const Object& object, const std::string& expected) override {
    return change("/v1/objects/apply", *object.document, expected.empty() ? "0" : expected);
  }

  Status remove(const ObjectKey& key, const std::string& expected) override {
    OSM_TRY(change("/v1/objects/delete", document_of(key), expected));
    return {};
  }

 private:
  // Result: the object's version.
  Result<std::string> change(std::string_view path, json::value document,
                             const std::string& version) const {
    const json::array objects{with_version(std::move(document), version)};
    OSM_TRY(const json::value answer, client_.post(path, {}, json::object{{"objects", objects}}));
    const json::array& results = list_at(answer, "objects");
    if (results.empty())
      return Error{ErrorCode::kInternal, "the controller's answer is not understood"};
    if (member(results.front(), "error")) return error_in(results.front(), 200);
    return text_at(results.front(), "resourceVersion");
  }

  const AdminClient client_;
};

}  // namespace

Result<ObjectPlace> open_place(const Flags& flags, const std::string& mesh_dir,
                               std::string_view file, std::chrono::milliseconds wait) {
  const AdminClient client = flags.client();
  ObjectPlace place{"namespace " + flags.mesh.osm_namespace};
  if (mesh_dir.empty() && !client.is_local()) {
    place.runtime = std::make_unique<OwnRuntime>(OwnRuntimeOptions{.least = LogLevel::kError});
    OSM_TRY(place.cluster, connect(flags.mesh.cluster, *place.runtime));
    place.writer = kubernetes::make_object_writer(*place.cluster);
    return place;
  }
  const auto version = client.get("/v1/version");
  if (mesh_dir.empty() && !version.ok())
    return version.error().with_context("give --mesh-dir for a mesh in a directory");
  const std::string mesh = version.ok() ? text_at(*version, "mesh") : "";
  const bool etcd = mesh.starts_with("etcd:");
  if (mesh_dir.empty() && !etcd)
    return Error{ErrorCode::kInvalidArgument,
                 "this controller's mesh is not in etcd: give --mesh-dir, or name a cluster with "
                 "--kubeconfig"};
  if (mesh_dir.empty()) {
    place.writer = std::make_unique<AdminWriter>(flags);
    return place;
  }
  // A controller that is away may read the directory.
  if (etcd || mesh == "kubernetes")
    return Error{ErrorCode::kInvalidArgument,
                 std::string("--mesh-dir: this controller's mesh is in ") +
                     (etcd ? "etcd" : "Kubernetes") + "; leave --mesh-dir out"};
  place.name = mesh_dir + '/' + std::string(file);
  place.writer = spec::make_directory_writer(mesh_dir, wait);
  return place;
}

json::object& spec_of(json::value& object) {
  json::value& spec = object.as_object()["spec"];
  return spec.is_object() ? spec.get_object() : spec.emplace_object();
}

Status edit_object(spec::ObjectWriter& writer, const ObjectKey& key,
                   steady_clock::time_point deadline, const ChangeDocument& change,
                   ErrorCode passing) {
  for (bool removed = false, tried = false;; tried = true) {
    const auto read = writer.read(key);
    // After an attempt the answer of a read may be lost as well.
    if (!read.ok() && tried && may_pass(read.error()) && steady_clock::now() < deadline) {
      std::this_thread::sleep_for(kPauseAfterRefusal);
      continue;
    }
    OSM_TRY(const spec::StoredObject stored, read);
    if (!stored.object && !stored.version.empty())
      return Error{
          ErrorCode::kConflict,
          key.str() + ": what is stored is no object of the mesh; correct it, or remove it"};
    // A failed attempt may have done it: its answer may be lost.
    if (removed && stored.version.empty()) return {};
    OSM_TRY(json::value next, change(stored.object ? *stored.object->document : json::value()));
    if (stored.object && *stored.object->document == next) return {};
    Status done;
    removed = next.is_null();
    if (removed) {
      done = writer.remove(key, stored.version);
    } else {
      Object object;
      object.key = key;
      object.document = std::make_shared<const json::value>(std::move(next));
      if (const auto written = writer.write(object, stored.version); !written.ok())
        done = written.error();
    }
    if (done.ok() || steady_clock::now() >= deadline) return done;
    const bool faster = done.error().code == ErrorCode::kConflict;
    if (!faster && done.error().code != passing && !may_pass(done.error())) return done;
    std::this_thread::sleep_for(faster ? kTryAgain : kPauseAfterRefusal);
  }
}

}  // namespace osm::cli
