// YAML files as an operator writes them → objects → the mesh specification. Files are separated by
// a line "===" in the input; they arrive one after the other, and the first goes away again.
#include <algorithm>
#include <string>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "fuzz/quiet.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "osm/testing/memory_object_store.hpp"
#include "spec/decode.hpp"
#include "spec/object_index.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

std::vector<std::string> files_of(std::string_view text) {
  constexpr std::string_view kSeparator = "\n===\n";
  std::vector<std::string> files;
  for (;;) {
    const auto at = text.find(kSeparator);
    files.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos || files.size() == 8) return files;
    text.remove_prefix(at + kSeparator.size());
  }
}

void check_file(const std::string& text, const spec::ObjectFile& file) {
  const auto lines = 1 + std::count(text.begin(), text.end(), '\n');
  for (const auto* problems : {&file.problems, &file.broken}) {
    for (const Problem& problem : *problems) {
      require(!problem.cause.empty(), "a problem says what is wrong", problem.text());
      require(problem.line >= 0 && problem.line <= lines, "a problem's line is one of its file",
              problem.text());
    }
  }
  for (const auto& object : file.objects) {
    require(!object->key.kind.empty() && !object->key.name.empty(), "an object has kind and name",
            text);
    require(object->document != nullptr, "an object has a document", text);
    require(object->source.line > 0 && object->source.line <= lines,
            "an object's line is one of its file", text);
  }
}

struct MeshOf {
  explicit MeshOf(ObjectStore& store)
      : spec(spec::make_mesh_spec({.store = store, .log = log, .metrics = metrics})) {}
  QuietLog log;
  QuietMetrics metrics;
  std::unique_ptr<MeshSpec> spec;
};

template <class T>
bool same(const SharedList<T>& a, const SharedList<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return *x == *y; });
}

// Only a mesh that grew knows the last MeshConfig, if that is gone or invalid.
bool has_config(const ObjectStore& store) {
  const auto object = store.get({kinds::kMeshConfig, "osm-system", "osm-mesh-config"});
  return object != nullptr && spec::decode_mesh_config(*object).value.has_value();
}

void check_equal(const MeshSpec& a, const MeshSpec& b, bool has_config) {
  constexpr const char* kProperty = "a mesh does not depend on the order its objects came in";
  require(same(a.list_services(), b.list_services()), kProperty);
  require(same(a.list_traffic_splits(), b.list_traffic_splits()), kProperty);
  require(same(a.list_traffic_targets(), b.list_traffic_targets()), kProperty);
  require(same(a.list_http_traffic_specs(), b.list_http_traffic_specs()), kProperty);
  require(same(a.list_tcp_traffic_specs(), b.list_tcp_traffic_specs()), kProperty);
  require(a.list_all_service_accounts() == b.list_all_service_accounts(), kProperty);
  require(a.list_namespaces() == b.list_namespaces(), kProperty);
  if (!has_config) return;
  require(a.get_mesh_config() == b.get_mesh_config(), kProperty);
  require(a.list_problems() == b.list_problems(), kProperty);
}

// The store follows the index by key, as the directory store does.
void follow(spec::ObjectIndex& index, testing::MemoryObjectStore& store) {
  for (const ObjectKey& key : index.take_changes().keys) {
    if (const auto object = index.get(key)) {
      store.put(*object);
    } else {
      store.remove(key);
    }
  }
}

void check_index(const spec::ObjectIndex& index) {
  for (const spec::Kind& kind : spec::mesh_kinds()) {
    const auto objects = index.list(kind.name);
    const bool ordered =
        std::adjacent_find(objects.begin(), objects.end(), [](const auto& a, const auto& b) {
          return !(a->key < b->key);
        }) == objects.end();
    require(ordered, "objects are listed in order, each once", kind.name.kind);
  }
}

void run(std::string_view text) {
  const std::vector<std::string> files = files_of(text);
  spec::ObjectIndex index;
  testing::MemoryObjectStore store;
  MeshOf grown(store);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string path = std::to_string(i) + ".yaml";
    spec::ObjectFile file = spec::read_object_file(files[i], path);
    check_file(files[i], file);
    index.put(path, std::move(file));
    check_index(index);
    follow(index, store);
  }
  check_equal(*grown.spec, *MeshOf(store).spec, has_config(store));
  index.remove("0.yaml");
  follow(index, store);
  check_index(index);
  check_equal(*grown.spec, *MeshOf(store).spec, has_config(store));
}

const bool kAdded = add("mesh_directory", [](std::string_view input) { run(input); });

}  // namespace
