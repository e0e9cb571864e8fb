// A dump as text → its objects, and the mesh that they form.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "osm/migrate/check.hpp"
#include "spec/resolve.hpp"

namespace osm::inline v1::migrate {

// Every object of the dumps, each key once. Failure: see check().
struct Objects {
  std::vector<std::shared_ptr<const Object>> all;  // in the order of the dumps
  std::vector<std::string> notes;
};
Result<Objects> read_dumps(const std::vector<Dump>& dumps);

// A pod, or the pods of a template.
struct Workload {
  std::string ns, account;
  std::map<std::string, std::string> labels;
  std::map<std::string, Port> ports;  // with a name
};

// Settings of the dump's MeshConfig as OSM v1.2 read them; all false if there is none.
struct OldSettings {
  bool permissive = false;
  bool egress = false;
  bool egress_policy = false;
  bool retry_policy = false;
  bool authorization = false;
};

// The dumped mesh as OSM v1.2 read it, and as libosm reads it.
struct Mesh {
  std::string name, osm_namespace;
  std::set<std::string> namespaces;
  // Objects that concern the mesh, by key; those with another apiVersion than libosm's too.
  std::map<ObjectKey, std::shared_ptr<const Object>> objects;
  std::vector<Workload> workloads;  // of the mesh's namespaces
  OldSettings before;
  spec::DecodedObjects decoded;
  SpecSnapshot view;
  std::vector<Problem> problems;  // without path and line
  std::vector<std::string> notes;
  std::size_t others = 0;  // objects that do not concern the mesh

  ObjectKey config_key() const;
  // Object of a decoded value.
  const Object& object(const ObjectKey& key) const { return *objects.at(key); }
};
Mesh make_mesh(const Objects& objects, const Options& options);

// The row of an object's kind; null: libosm does not know the kind, or not this apiVersion.
const spec::Kind* known_kind(const Object& object);

}  // namespace osm::inline v1::migrate
