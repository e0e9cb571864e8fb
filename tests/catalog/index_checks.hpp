// Checks of the index and the origins of a mesh.
#pragma once

#include <doctest/doctest.h>

#include <set>

#include "base/feed.hpp"
#include "mesh_values.hpp"

namespace osm::inline v1::catalog::values {

template <class V>
void check_same_table(const Table<V>& a, const Table<V>& b) {
  REQUIRE(a.size() == b.size());
  for (auto left = a.begin(), right = b.begin(); left != a.end(); ++left, ++right)
    CHECK(**left == **right);
}

// Compares the indices of meshes whenever they should be equal.
class IndexChecks {
 public:
  void check(const model::MeshSnapshot& a, const model::MeshSnapshot& b) {
    note_keys(a);
    for (const model::EntryKey& entry : entries_)
      check_same_table(a.index.objects_of(entry), b.index.objects_of(entry));
    for (const ObjectKey& object : objects_)
      check_same_table(a.index.readers_of(object), b.index.readers_of(object));
    for (const ServiceName& service : names_in<ServiceName>(entries_))
      check_same_table(a.index.clients_of(service), b.index.clients_of(service));
  }

 private:
  // Removed objects and entries stay: nothing may be left of them.
  void note_keys(const model::MeshSnapshot& mesh) {
    for (const ObjectKey& object : model::differing({}, *mesh.objects)) {
      const model::Links links = model::links_of(object, *mesh.objects);
      entries_.insert(links.entries.begin(), links.entries.end());
      objects_.insert(links.reads.begin(), links.reads.end());
      for (const model::EntryKey& entry : links.entries)
        CHECK(mesh.index.objects_of(entry).find(object));
    }
  }

  std::set<model::EntryKey> entries_;
  std::set<ObjectKey> objects_;
};

// Collects the objects of origins.
struct OriginObjects {
  std::set<ObjectKey> objects{};

  template <class Part>
  void add(const Part&) {}
  friend void feed(OriginObjects& found, const model::Origin& origin) {
    if (!origin.object.kind.empty()) found.objects.insert(origin.object);
  }
};

// The object of each origin has the entry of the origin.
template <class V, class ToKey>
void check_origins(const model::MeshSnapshot& mesh, const Table<V>& table, ToKey key_of) {
  for (const auto& entry : table) {
    OriginObjects found;
    osm::feed(found, *entry);
    for (const ObjectKey& object : found.objects) {
      CAPTURE(object.str());
      const std::set<model::EntryKey> entries = model::entries_of(object, mesh);
      CHECK((entries.contains(key_of(*entry)) || entries.contains(model::EntryKey())));
    }
  }
}

inline void check_origins(const model::MeshSnapshot& mesh) {
  const auto key = [](const auto& entry) -> model::EntryKey { return entry.key(); };
  check_origins(mesh, mesh.services, key);
  check_origins(mesh, mesh.clients, key);
  check_origins(mesh, mesh.telemetries, key);
  check_origins(mesh, mesh.targets, key);
  check_origins(mesh, mesh.workloads,
                [](const auto& entry) -> model::EntryKey { return entry.workload.name; });
}

}  // namespace osm::inline v1::catalog::values
