// A decoded policy of a kind that MeshSpec has no function of its own for: OSM's policies and an
// embedder's kinds.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/object.hpp"

namespace osm::inline v1 {

// A value of any type with ==, and its object. Copies share the value.
class Policy {
 public:
  template <class T>
  Policy(ObjectKey object, T content, std::vector<ServiceIdentity> accounts = {})
      : key(std::move(object)),
        concerned(std::move(accounts)),
        content_(std::make_shared<const T>(std::move(content))),
        type_(&TypeId<T>::kHere),
        equal_([](const void* a, const void* b) {
          return *static_cast<const T*>(a) == *static_cast<const T*>(b);
        }) {}

  ObjectKey key;
  // The accounts whose proxies a kind of an embedder concerns; empty: all proxies of the mesh.
  // libosm's own kinds say it in their values.
  std::vector<ServiceIdentity> concerned;

  // The value; null if its type is not T.
  template <class T>
  const T* get() const {
    return type_ == &TypeId<T>::kHere ? static_cast<const T*>(content_.get()) : nullptr;
  }

  friend bool operator==(const Policy& a, const Policy& b) {
    return a.key == b.key && a.concerned == b.concerned && a.type_ == b.type_ &&
           (a.content_ == b.content_ || a.equal_(a.content_.get(), b.content_.get()));
  }

 private:
  // An address for each type, the same in all libraries of a program, also without RTTI.
  template <class U>
  struct OSM_API TypeId {
    static inline const char kHere = 0;
  };

  std::shared_ptr<const void> content_;
  const void* type_;
  bool (*equal_)(const void*, const void*);
};

}  // namespace osm::inline v1
