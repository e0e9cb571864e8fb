// The known objects of one kind, each with the server's version.
//
// Readers may be on any thread; one writer at a time. Objects are shared and immutable.
#pragma once

#include <boost/json/value.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "osm/object.hpp"

namespace osm::inline v1::kubernetes {

// An object with the server's version, which also changes with parts that are not kept.
struct VersionedObject {
  std::shared_ptr<const Object> object;
  std::string version;
  std::shared_ptr<const boost::json::value> status{};  // beside it, if the informer keeps it
};

class ObjectTable {
 public:
  // Ordered by namespace and name.
  std::vector<std::shared_ptr<const Object>> list() const;
  // Null: none.
  std::shared_ptr<const Object> get(const std::string& ns, const std::string& name) const;
  // As get(), with the server's version.
  VersionedObject find(const std::string& ns, const std::string& name) const;
  std::size_t size() const;

  // Result: true if the kept part differs now.
  bool put(VersionedObject entry);
  bool remove(const std::string& ns, const std::string& name);
  // Result: the keys of new, changed and removed objects.
  std::vector<ObjectKey> replace(std::vector<VersionedObject> entries);

 private:
  using Name = std::pair<std::string, std::string>;  // namespace, name

  mutable std::mutex mutex_;
  std::map<Name, VersionedObject> entries_;
};

}  // namespace osm::inline v1::kubernetes
