// Objects of the mesh in an API server. The version of an object is its resourceVersion.
#include <boost/json.hpp>
#include <utility>

#include "base/json.hpp"
#include "kubernetes/client/api.hpp"
#include "kubernetes/client/resources.hpp"
#include "osm/kubernetes/objects.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

class ClusterWriter final : public spec::ObjectWriter {
 public:
  explicit ClusterWriter(Cluster& cluster) : api_(cluster.api()) {}

  Result<spec::StoredObject> read(const ObjectKey& key) override {
    OSM_TRY(const Resource resource, resource_of_key(key));
    const auto found = api_.get(resource, key.ns, key.name);
    if (!found.ok() && found.error().code == ErrorCode::kNotFound) return spec::StoredObject{};
    if (!found.ok()) return found.error();
    spec::StoredObject stored{metadata_of(*found).version};
    const std::string text = json::serialize(with_version(*found, ""));
    if (const auto objects = spec::read_objects(text, key.str()); objects.ok() && !objects->empty())
      stored.object = objects->front();
    return stored;
  }

  Result<std::string> write(const Object& object, const std::string& expected) override {
    OSM_TRY(const Resource resource, resource_of_key(object.key));
    const json::value document = with_version(*object.document, expected);
    const json::object* const fields = document.if_object();
    if (!fields || metadata_of(*fields).ns != object.key.ns ||
        metadata_of(*fields).name != object.key.name)
      return Error{ErrorCode::kInvalidArgument, object.key.str() + ": its document is another's"};
    const auto done =
        expected.empty() ? api_.create(resource, *fields) : api_.update(resource, *fields);
    if (!done.ok()) return conflict_of(done.error(), expected);
    return metadata_of(*done).version;
  }

  Status remove(const ObjectKey& key, const std::string& expected) override {
    OSM_TRY(const Resource resource, resource_of_key(key));
    const Status done =
        api_.remove(resource, key.ns, key.name, {.uid = {}, .resource_version = expected});
    return done.ok() ? done : Status(conflict_of(done.error(), expected));
  }

 private:
  static Result<Resource> resource_of_key(const ObjectKey& key) {
    OSM_TRY(spec::check_place(key));
    if (const auto* kind = spec::find_kind(spec::mesh_kinds(), key.group_kind()))
      return resource_of(*kind);
    return Error{ErrorCode::kInvalidArgument, key.str() + ": is no kind of the mesh"};
  }

  // The server has more codes for an object that is of another version, or is there or not.
  static Error conflict_of(Error error, const std::string& expected) {
    if (error.code == (expected.empty() ? ErrorCode::kAlreadyExists : ErrorCode::kNotFound))
      error.code = ErrorCode::kConflict;
    return error;
  }

  Api& api_;
};

}  // namespace

std::unique_ptr<spec::ObjectWriter> make_object_writer(Cluster& cluster) {
  return std::make_unique<ClusterWriter>(cluster);
}

}  // namespace osm::inline v1::kubernetes
