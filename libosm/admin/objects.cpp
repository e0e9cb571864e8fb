#include "admin/handlers.hpp"

#include <boost/json.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "admin/admin_json.hpp"
#include "base/json.hpp"
#include "osm/inject/validator.hpp"
#include "osm/object_store.hpp"
#include "osm/spec/kinds.hpp"
#include "osm/spec/object_writer.hpp"

namespace osm::inline v1::admin {
namespace {

namespace json = boost::json;

constexpr std::string_view kAbsent = "0";  // version of an object that does not exist
constexpr int kAttempts = 5;  // of a change without a version, while others change the object

Error unusable(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

// An object of a request, and its fate.
struct Change {
  std::shared_ptr<const Object> object{};
  std::string wanted{};  // the version to replace; "0": none is there; empty: whichever is there
  spec::StoredObject stored{};
  std::string result{};  // "created", "configured", "unchanged", "deleted"
  std::string version{};
  std::vector<std::string> warnings{};
  std::optional<Error> error{};
};
using Changes = std::vector<Change>;

Status check_writable(const net::AdminApiOptions& options) {
  if (options.writer && options.validator) return {};
  if (options.objects_in == "kubernetes")
    return unusable("the mesh's objects are in Kubernetes; write them with kubectl");
  return unusable("this controller only reads the mesh's objects; edit the files in " +
                  (options.objects_in.empty() ? "its directory" : options.objects_in));
}

std::string optional_parameter(const net::Request& request, const char* name) {
  const auto at = request.query.find(name);
  return at == request.query.end() ? std::string() : at->second;
}

std::string version_in(const json::value& document) {
  return text_at(map_at(document, "metadata"), "resourceVersion");
}

// Failure: the first object that is none.
Result<Changes> read_changes(const net::Request& request) {
  OSM_TRY(const json::object body, parse_json_object(request.body, "the body"));
  Changes changes;
  std::set<ObjectKey> known;
  for (const json::value& document : list_at(body, "objects")) {
    OSM_TRY(const auto objects, spec::read_objects(json::serialize(document), "the body"));
    for (const auto& object : objects) {
      OSM_TRY(spec::check_place(object->key));
      if (!known.insert(object->key).second)
        return unusable(object->key.str() + ": is there twice; leave one of them out");
      changes.push_back({.object = object, .wanted = version_in(*object->document)});
    }
  }
  if (changes.empty()) return unusable("there is no object");
  return changes;
}

// The validating webhook's rules, by its own interface.
std::string review_of(const Change& change, bool deletes) {
  const Object& object = *change.object;
  const auto slash = object.api_version.find('/');
  json::object request{
      {"uid", "1"},
      {"operation", deletes                ? "DELETE"
                    : change.stored.object ? "UPDATE"
                                           : "CREATE"},
      {"kind",
       {{"group", object.key.group},
        {"version", object.api_version.substr(slash == std::string::npos ? 0 : slash + 1)},
        {"kind", object.key.kind}}},
      {"namespace", object.key.ns},
      {"name", object.key.name}};
  if (!deletes) request["object"] = with_version(*object.document, "");
  if (change.stored.object) request["oldObject"] = *change.stored.object->document;
  return json::serialize(json::object{{"apiVersion", "admission.k8s.io/v1"},
                                      {"kind", "AdmissionReview"},
                                      {"request", std::move(request)}});
}

// By the validating webhook's rules, and those of kinds that it is not asked about on Kubernetes. A
// Namespace has none beyond its name.
Status validate(const net::AdminApiOptions& options, Change& change, bool deletes) {
  const spec::Kind* const kind =
      spec::find_kind(spec::mesh_kinds(), change.object->key.group_kind());
  if (!kind || (kind->review == spec::Review::kNone && !kind->check)) return {};
  if (deletes && kind->review != spec::Review::kWritesAndDeletes) return {};
  const AdmissionAnswer answer = options.validator->review(review_of(change, deletes));
  OSM_TRY(const json::object review, parse_json_object(answer.body, "the review"));
  const json::object& response = map_at(review, "response");
  for (const json::value& warning : list_at(response, "warnings"))
    if (warning.is_string()) change.warnings.emplace_back(warning.get_string());
  if (bool_at(response, "allowed").value_or(false)) return {};
  const std::string why = text_at(map_at(response, "status"), "message");
  return Error{ErrorCode::kInvalidField,
               why.empty() ? change.object->key.str() + " is refused" : why};
}

// Reads what is stored, and judges the change. It may be repeated.
Status prepare(const net::AdminApiOptions& options, Change& change, bool deletes) {
  const ObjectKey& key = change.object->key;
  OSM_TRY(change.stored, options.writer->read(key));
  change.warnings.clear();
  const std::string& present = change.stored.version;
  if (!change.wanted.empty() && change.wanted != (present.empty() ? kAbsent : present))
    return Error{ErrorCode::kConflict,
                 key.str() + ": was changed since version " + change.wanted +
                     (present.empty() ? ": it is not there any more" : "; now it has " + present) +
                     "; read it again, or leave metadata.resourceVersion out to replace it"};
  if (deletes && change.stored.version.empty())
    return Error{ErrorCode::kNotFound, key.str() + ": there is no such object"};
  OSM_TRY(validate(options, change, deletes));
  const bool same = change.stored.object &&
                    *change.stored.object->document == with_version(*change.object->document, "");
  change.version = change.stored.version;
  change.result = deletes                         ? "deleted"
                  : change.stored.version.empty() ? "created"
                  : same                          ? "unchanged"
                                                  : "configured";
  return {};
}

Status write(const net::AdminApiOptions& options, Change& change, bool deletes) {
  if (change.result == "unchanged") return {};
  if (deletes) return options.writer->remove(change.object->key, change.stored.version);
  OSM_TRY(change.version, options.writer->write(*change.object, change.stored.version));
  return {};
}

// Another writer may be faster; only a change of a certain version fails then.
Status carry_out(const net::AdminApiOptions& options, Change& change, bool deletes) {
  for (int attempt = 1;; ++attempt) {
    const Status written = write(options, change, deletes);
    if (written.ok() || written.error().code != ErrorCode::kConflict || !change.wanted.empty() ||
        attempt == kAttempts)
      return written;
    OSM_TRY(prepare(options, change, deletes));
  }
}

json::object to_json(const Change& change) {
  const Object& object = *change.object;
  json::object out{{"object", object.key.str()}, {"result", change.result}};
  if (!change.version.empty() && change.result != "deleted")
    out["resourceVersion"] = change.version;
  if (!change.warnings.empty())
    out["warnings"] = json::array(change.warnings.begin(), change.warnings.end());
  if (change.error)
    out["error"] = {{"code", error_code_text(change.error->code)},
                    {"message", change.error->message}};
  return out;
}

Result<net::Response> change_objects(const net::AdminApiOptions& options,
                                     const net::Request& request, bool deletes) {
  OSM_TRY(check_writable(options));
  OSM_TRY(Changes changes, read_changes(request));
  const bool dry_run = optional_parameter(request, "dry_run") == "true";
  bool valid = true;
  const auto take = [&](Change& change, const Status& status) {
    if (status.ok()) return;
    valid = false;
    change.error = status.error();
    change.result = "refused";
  };
  for (Change& change : changes) take(change, prepare(options, change, deletes));
  const bool writes = valid && !dry_run;
  if (writes)
    for (Change& change : changes) take(change, carry_out(options, change, deletes));
  json::array results;
  for (const Change& change : changes) results.push_back(to_json(change));
  return answer(json::object{{"written", writes}, {"objects", std::move(results)}});
}

Result<json::value> read_one(const net::AdminApiOptions& options, const ObjectKey& key) {
  std::shared_ptr<const Object> object;
  std::string version;
  if (options.writer) {
    OSM_TRY(spec::StoredObject stored, options.writer->read(key));
    object = std::move(stored.object);
    version = std::move(stored.version);
  } else {
    if (!options.store->catch_up(key, std::chrono::seconds(2)))
      return Error{ErrorCode::kUnavailable,
                   key.str() + " has not been read yet as the store has it now; ask again"};
    object = options.store->get(key);
  }
  if (!object && !version.empty())
    return Error{ErrorCode::kInvalidField,
                 key.str() +
                     ": what is stored is no object of the mesh (`osm problems` says why); replace "
                     "it by `osm apply`, or remove it by `osm delete`"};
  if (!object) return Error{ErrorCode::kNotFound, key.str() + ": there is no such object"};
  return with_version(*object->document, version);
}

}  // namespace

Result<net::Response> list_objects(const net::AdminApiOptions& options,
                                   const net::Request& request) {
  OSM_TRY(const std::string kind, request.required("kind"));
  if (!options.store) return unusable("this controller shows no objects");
  const std::string group = optional_parameter(request, "group");
  const std::string ns = optional_parameter(request, "namespace");
  const std::string name = optional_parameter(request, "name");
  if (!spec::find_kind(spec::mesh_kinds(), {group, kind}))
    return Error{ErrorCode::kUnknownKind, "'" + kind + "' is no kind of the mesh"};
  json::array objects;
  if (!name.empty()) {
    OSM_TRY(json::value object, read_one(options, {{group, kind}, ns, name}));
    objects.push_back(std::move(object));
  } else {
    const bool versions = options.writer != nullptr;
    for (const auto& object : options.store->list({group, kind}))
      if (ns.empty() || ns == object->key.ns)
        objects.push_back(
            with_version(*object->document, versions ? object->resource_version : ""));
  }
  return answer(json::object{{"objects", std::move(objects)}});
}

Result<net::Response> apply_objects(const net::AdminApiOptions& options,
                                    const net::Request& request) {
  return change_objects(options, request, false);
}

Result<net::Response> delete_objects(const net::AdminApiOptions& options,
                                     const net::Request& request) {
  return change_objects(options, request, true);
}

}  // namespace osm::inline v1::admin
