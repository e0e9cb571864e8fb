#include "migrate/dump.hpp"

#include <algorithm>
#include <array>
#include <boost/json/value.hpp>

#include "base/json.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "spec/decode.hpp"
#include "spec/object_file.hpp"
#include "spec/yaml.hpp"

namespace osm::inline v1::migrate {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxDumpNodes = 8'000'000;
constexpr GroupKind kCrd{"apiextensions.k8s.io", "CustomResourceDefinition"};

bool is_group_of_mesh(std::string_view group) {
  constexpr auto kGroups = std::to_array<std::string_view>(
      {"access.smi-spec.io", "specs.smi-spec.io", "split.smi-spec.io", "config.openservicemesh.io",
       "policy.openservicemesh.io"});
  return std::find(kGroups.begin(), kGroups.end(), group) != kGroups.end();
}

bool is_kind_of_mesh(const Object& object) {
  if (object.key.is(kCrd))
    return is_group_of_mesh(text_at(map_at(*object.document, "spec"), "group"));
  return is_group_of_mesh(object.key.group) || object.key.is(kinds::kNamespace) ||
         object.key.is(kinds::kService) || object.key.is(kinds::kServiceAccount) ||
         object.key.is(kinds::kPod);
}

// Reads texts of kubectl: documents that are objects, or lists of objects.
class Reader {
 public:
  Status read(const Dump& dump) {
    for (auto& result : spec::parse_yaml(dump.text, {kMaxDumpBytes, kMaxDumpNodes})) {
      if (const auto* error = std::get_if<spec::YamlError>(&result))
        return Problem{error->code, {}, dump.path, error->line, "", error->cause}.error();
      for (auto& item : spec::items_of(std::get<spec::YamlDocument>(std::move(result))))
        OSM_TRY(add(std::move(item.value), {dump.path, item.line, std::move(item.lines)}));
    }
    return {};
  }

  Objects take() && { return std::move(objects_); }

 private:
  Status add(json::value document, ObjectSource source) {
    auto object = std::make_shared<Object>();
    object->source = std::move(source);
    auto problems = spec::read_metadata(document, *object);
    object->document = std::make_shared<const json::value>(std::move(document));
    const bool named = !object->key.kind.empty() && !object->api_version.empty();
    if (!problems.empty() && (!named || is_kind_of_mesh(*object))) {
      problems.front().locate(object->source);
      return problems.front().error();
    }
    const auto [at, first] = places_.emplace(object->key, objects_.all.size());
    if (first) {
      objects_.all.push_back(std::move(object));
    } else if (auto& kept = objects_.all[at->second]; is_kind_of_mesh(*kept)) {
      objects_.notes.push_back(kept->key.str() + " is in the dump more than once; one is checked");
      if (!known_kind(*kept)) kept = std::move(object);
    }
    return {};
  }

  Objects objects_;
  std::map<ObjectKey, std::size_t> places_;
};

// Adds the pods of an object: a Pod, or a template in it.
void add_workloads(const Object& object, std::vector<Workload>& out) {
  const auto& spec = map_at(*object.document, "spec");
  const json::object* pod = object.document->if_object();
  if (!object.key.is(kinds::kPod)) {
    pod = &map_at(spec, "template");
    if (pod->empty()) pod = &map_at(map_at(map_at(spec, "jobTemplate"), "spec"), "template");
  }
  const auto& inside = map_at(*pod, "spec");
  if (list_at(inside, "containers").empty()) return;
  Workload workload{object.key.ns, text_at(inside, "serviceAccountName"), {}, {}};
  if (workload.account.empty()) workload.account = "default";
  for (const auto& [name, value] : map_at(map_at(*pod, "metadata"), "labels"))
    if (value.is_string()) workload.labels.emplace(name, value.get_string());
  for (const json::value& container : list_at(inside, "containers"))
    for (const json::value& port : list_at(container, "ports"))
      if (const auto number = port_at(port, "containerPort"))
        workload.ports.emplace(text_at(port, "name"), *number);
  out.push_back(std::move(workload));
}

OldSettings settings_of(const Object& config) {
  const auto& spec = map_at(*config.document, "spec");
  const auto& traffic = map_at(spec, "traffic");
  const auto& flags = map_at(spec, "featureFlags");
  const auto is_on = [](const json::object& map, std::string_view name) {
    return bool_at(map, name).value_or(false);
  };
  return {.permissive = is_on(traffic, "enablePermissiveTrafficPolicyMode"),
          .egress = is_on(traffic, "enableEgress"),
          .egress_policy = is_on(flags, "enableEgressPolicy"),
          .retry_policy = is_on(flags, "enableRetryPolicy"),
          .authorization = is_on(map_at(traffic, "inboundExternalAuthorization"), "enable")};
}

template <class T, class Decode>
void read(const std::shared_ptr<const Object>& object, spec::DecodedKind<T>& kind, Decode decode) {
  auto decoded = decode(*object);
  auto& entry = kind.entries[object->key];
  entry.object = object;
  entry.problems = std::move(decoded.problems);
  if (decoded.value) entry.value = std::make_shared<const T>(*std::move(decoded.value));
}

// OSM v1.2 runs in clusters of one domain only, and names of that count here in every cluster.
template <class Result>
auto of_osm_v1(Result (*decode)(const Object&, const std::string&)) {
  return [decode](const Object& object) { return decode(object, "cluster.local"); };
}

void decode(const std::shared_ptr<const Object>& object, const spec::Kind& kind,
            spec::DecodedObjects& out) {
  using namespace spec;
  if (kind.name == kinds::kService) return read(object, out.services, decode_service);
  if (kind.name == kinds::kServiceAccount)
    return read(object, out.accounts, decode_service_account);
  if (kind.name == kinds::kHttpRouteGroup)
    return read(object, out.route_groups, decode_http_route_group);
  if (kind.name == kinds::kTcpRoute) return read(object, out.tcp_routes, decode_tcp_route);
  if (kind.name == kinds::kTrafficTarget) return read(object, out.targets, decode_traffic_target);
  if (kind.name == kinds::kTrafficSplit)
    return read(object, out.splits, of_osm_v1(decode_traffic_split));
  if (kind.name == kinds::kMeshConfig)
    return read(object, out.configs, of_osm_v1(decode_mesh_config));
  if (kind.name == kinds::kMeshRootCertificate)
    return read(object, out.roots, decode_root_certificate);
  if (kind.decode != nullptr) return read(object, out.policies, of_osm_v1(kind.decode));
}

// The only element; empty if there are none or several.
std::string only(const std::set<std::string>& names) {
  return names.size() == 1 ? *names.begin() : std::string();
}

class Builder {
 public:
  Builder(const Objects& objects, const Options& options) : objects_(objects) {
    mesh_.notes = objects.notes;
    find_osm_namespace(options);
    find_namespaces(options);
  }

  Mesh build() && {
    for (const auto& object : objects_.all) {
      if (mesh_.namespaces.contains(object->key.ns)) add_workloads(*object, mesh_.workloads);
      if (concerns(*object)) {
        mesh_.objects.emplace(object->key, object);
      } else {
        ++mesh_.others;
      }
    }
    if (const auto at = mesh_.objects.find(mesh_.config_key()); at != mesh_.objects.end()) {
      mesh_.before = settings_of(*at->second);
    } else {
      mesh_.notes.push_back("the dump has no " + mesh_.config_key().str() +
                            ": the check takes permissive mode and egress for switched off");
    }
    for (const auto& [key, object] : mesh_.objects) {
      if (const spec::Kind* kind = known_kind(*object)) {
        decode(object, *kind, mesh_.decoded);
      } else if (key.is(kinds::kMeshConfig)) {
        decode_old_config(*object);
      }
    }
    spec::VirtualAddresses written("");  // Kubernetes allocated the addresses in a dump
    mesh_.view.config_key = mesh_.config_key();
    spec::resolve(mesh_.decoded, written, mesh_.view, mesh_.problems);
    note_dangling();
    return std::move(mesh_);
  }

 private:
  // v1alpha2 has all fields of v1alpha1, so that the other faults show before the version changes.
  void decode_old_config(const Object& object) {
    const spec::Kind& kind = *spec::find_kind(spec::mesh_kinds(), kinds::kMeshConfig);
    auto renewed = std::make_shared<Object>(object);
    renewed->api_version = kind.api_version();
    decode(std::move(renewed), kind, mesh_.decoded);
  }

  void find_osm_namespace(const Options& options) {
    std::set<std::string> found;
    for (const auto& object : objects_.all)
      if (object->key.is(kinds::kMeshConfig) && object->key.name == spec::kMeshConfigName)
        found.insert(object->key.ns);
    mesh_.osm_namespace = options.osm_namespace.value_or(only(found));
    if (mesh_.osm_namespace.empty()) mesh_.osm_namespace = "osm-system";
  }

  void find_namespaces(const Options& options) {
    std::map<std::string, std::set<std::string>> by_mesh;
    std::set<std::string> listed;
    std::set<std::string> meshes;
    for (const auto& object : objects_.all) {
      if (!object->key.is(kinds::kNamespace)) continue;
      listed.insert(object->key.name);
      const auto label = object->labels.find(spec::kMonitoredByLabel);
      if (label == object->labels.end()) continue;
      meshes.insert(label->second);
      by_mesh[label->second].insert(object->key.name);
    }
    mesh_.name = options.mesh_name.value_or(only(meshes));
    if (mesh_.name.empty()) mesh_.name = "osm";
    mesh_.namespaces = by_mesh[mesh_.name];
    for (const auto& [name, namespaces] : by_mesh)
      if (name != mesh_.name && !namespaces.empty())
        mesh_.notes.push_back("namespace " + *namespaces.begin() + " is in the mesh " + name +
                              ", not in " + mesh_.name + ": --mesh-name chooses the mesh");
    std::set<std::string> unlisted;
    for (const auto& object : objects_.all)
      if (is_kind_of_mesh(*object) && !object->key.ns.empty() &&
          object->key.ns != mesh_.osm_namespace && !listed.contains(object->key.ns))
        unlisted.insert(object->key.ns);
    if (unlisted.empty()) return;
    mesh_.notes.push_back("the dump has no Namespace " + *unlisted.begin() +
                          (unlisted.size() == 1 ? std::string()
                                                : " and " + std::to_string(unlisted.size() - 1) +
                                                      " others of its objects") +
                          ": the check takes such a namespace for a part of the mesh");
    mesh_.namespaces.merge(unlisted);
  }

  bool concerns(const Object& object) const {
    const ObjectKey& key = object.key;
    if (!is_kind_of_mesh(object)) return false;
    if (key.is(kCrd)) return true;
    if (key.is(kinds::kNamespace)) return mesh_.namespaces.contains(key.name);
    if (key.is(kinds::kMeshConfig)) return key == mesh_.config_key();
    const spec::Kind* kind = spec::find_kind(spec::mesh_kinds(), key.group_kind());
    if (kind != nullptr && kind->scope == spec::Scope::kMeshAndControlPlane)
      return key.ns == mesh_.osm_namespace || mesh_.namespaces.contains(key.ns);
    if (key.group == kinds::kMeshConfig.group) return key.ns == mesh_.osm_namespace;
    // OSM v1.2 read Retries of every namespace.
    if (key.is(kinds::kRetry)) {
      const auto& source = map_at(map_at(*object.document, "spec"), "source");
      return mesh_.namespaces.contains(text_at(source, "namespace"));
    }
    if (key.group == kinds::kEgress.group && key.ns == mesh_.osm_namespace)
      return known_kind(object) == nullptr;
    return mesh_.namespaces.contains(key.ns);
  }

  void note_dangling() {
    std::size_t count = 0;
    std::string first;
    for (const Problem& problem : mesh_.problems) {
      if (problem.code != ErrorCode::kDanglingReference) continue;
      if (count++ == 0) first = problem.object.str() + " " + problem.field;
    }
    if (count != 0)
      mesh_.notes.push_back(std::to_string(count) +
                            " references lead to objects or parts that the dump does not have, or "
                            "that are left out, such as " +
                            first + ": make sure that the dump has all kinds");
  }

  const Objects& objects_;
  Mesh mesh_;
};

}  // namespace

ObjectKey Mesh::config_key() const {
  return {kinds::kMeshConfig, osm_namespace, spec::kMeshConfigName};
}

const spec::Kind* known_kind(const Object& object) {
  const spec::Kind* kind = spec::find_kind(spec::mesh_kinds(), object.key.group_kind());
  return kind != nullptr && kind->api_version() == object.api_version ? kind : nullptr;
}

Result<Objects> read_dumps(const std::vector<Dump>& dumps) {
  Reader reader;
  for (const Dump& dump : dumps) OSM_TRY(reader.read(dump));
  Objects objects = std::move(reader).take();
  if (objects.all.empty())
    return Error{ErrorCode::kInvalidArgument,
                 "the dump has no objects: did kubectl fail? `osm migrate check --help` has the "
                 "command that makes a dump"};
  return objects;
}

Mesh make_mesh(const Objects& objects, const Options& options) {
  return Builder(objects, options).build();
}

}  // namespace osm::inline v1::migrate
