// The order in which a mesh first saw the objects of a directory, as Object::created. Files have no
// time of creation that an editor or a copy keeps, so this is recorded beside the mesh.
//
// Only objects that have addresses are ordered. Objects of one look have one place, and are ordered
// by key. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "osm/object.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::spec {

class FirstSeen {
 public:
  // A record is never larger, as FileRecord reads no larger one. Beyond it the newest objects are
  // not recorded: a restart sees them anew, all together.
  static constexpr std::size_t kMaxText = 1024 * 1024;

  // Takes over a record; "" is an empty one. Failure: kInvalidSyntax; nothing is taken over.
  Status read(std::string_view text);
  // The record; without the newest objects if it would be larger than kMaxText.
  std::string text() const;

  // The place of the object, which is the present look's if it is new. 0: its kind has none.
  std::uint64_t place_of(const ObjectKey& key);
  // The object with that place, as Object::created.
  std::shared_ptr<const Object> placed(std::shared_ptr<const Object> object);
  // The object is gone: when it comes again it is new.
  void forget(const ObjectKey& key);
  // Forgets all objects for which `is_there` is false.
  template <class IsThere>
  void keep_only(IsThere is_there) {
    changed_ |= std::erase_if(places_, [&](const auto& at) { return !is_there(at.first); }) > 0;
  }

  // Objects that come from now on are newer. Result: true if text() is another one than before the
  // last call.
  bool end_look();

 private:
  std::map<ObjectKey, std::uint64_t> places_;
  std::uint64_t look_ = 1;
  bool used_ = false;  // the present look has an object
  bool changed_ = false;
};

}  // namespace osm::inline v1::spec
