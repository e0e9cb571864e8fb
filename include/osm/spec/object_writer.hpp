// Writes objects of a mesh into the store that its controllers read, for `osm apply` and others.
// It does not judge an object; inject::Validator does, as a webhook does on Kubernetes.
#pragma once

#include <memory>
#include <string>

#include "osm/detail/api.hpp"
#include "osm/object.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::spec {

// An object as its store has it now.
struct StoredObject {
  std::string version{};                   // the store's own; empty: there is none
  std::shared_ptr<const Object> object{};  // null: none, or what is stored is no object
};

// For every call: Failure: kUnavailable (the store does not answer), kPermissionDenied, kConflict
// (the object is not of the version `expected` any more), kInvalidArgument (its key is no key of
// this store), kTooLarge. A write whose answer was lost may have happened: read() shows it, also
// after a kConflict.
// Thread: any but the store's and an event loop's. Blocking: until the store answers.
class OSM_API ObjectWriter {
 public:
  virtual ~ObjectWriter() = default;

  // Result: the newest version, which the store's readers may not know yet.
  virtual Result<StoredObject> read(const ObjectKey& key) = 0;

  // Creates the object if `expected` is empty, else replaces that version. metadata.resourceVersion
  // is not stored. Result: the version that was written.
  virtual Result<std::string> write(const Object& object, const std::string& expected) = 0;

  // Removes that version of the object.
  virtual Status remove(const ObjectKey& key, const std::string& expected) = 0;
};

}  // namespace osm::inline v1::spec
