// The known objects of one kind, each with the server's version, indexed by namespace and, on
// request, by the value of one label.
//
// Readers may be on any thread; one writer at a time. Objects are shared and immutable.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "osm/object.hpp"

namespace osm::inline v1::kubernetes {

// An object with the server's version, which also changes with parts that are not kept.
struct VersionedObject {
  std::shared_ptr<const Object> object;
  std::string version;
};

class ObjectTable {
 public:
  explicit ObjectTable(std::string index_label = {}) : index_label_(std::move(index_label)) {}

  // Objects ordered by namespace and name: all, those of a namespace, those with this value of the
  // index label.
  std::vector<std::shared_ptr<const Object>> list() const;
  std::vector<std::shared_ptr<const Object>> list_in(const std::string& ns) const;
  std::vector<std::shared_ptr<const Object>> list_labelled(const std::string& value) const;
  // Null: none.
  std::shared_ptr<const Object> get(const std::string& ns, const std::string& name) const;
  // The object, if it is known in exactly this version.
  std::shared_ptr<const Object> get_version(const std::string& ns, const std::string& name,
                                            const std::string& version) const;
  // The server's version of an object; empty: none.
  std::string version_of(const std::string& ns, const std::string& name) const;
  std::size_t size() const;

  // Result: true if the kept part differs now.
  bool put(VersionedObject entry);
  bool remove(const std::string& ns, const std::string& name);
  // Result: the keys of new, changed and removed objects.
  std::vector<ObjectKey> replace(std::vector<VersionedObject> entries);

 private:
  using Name = std::pair<std::string, std::string>;  // namespace, name

  // Precondition of all: mutex_ held.
  void index(const Name& name, const Object& object);
  void unindex(const Name& name, const Object& object);
  bool put_one(VersionedObject entry);

  const std::string index_label_;
  mutable std::mutex mutex_;
  std::map<Name, VersionedObject> entries_;
  std::map<std::string, std::set<Name>> by_label_;
};

}  // namespace osm::inline v1::kubernetes
