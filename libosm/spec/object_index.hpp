// Combines the files of a directory: the object of each key, duplicates, and changes since the last
// take_changes(). Not thread-safe; knows nothing of the file system.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "spec/object_file.hpp"

namespace osm::inline v1::spec {

class ObjectIndex {
 public:
  struct Changes {
    std::vector<ObjectKey> keys;  // added, removed, or with other content; ordered
    bool moved = false;           // some object has another place and the same content
  };

  // Replaces the file at `path`. A broken file keeps the previous objects and adds its problems.
  // Unchanged objects keep their pointer.
  void put(const std::string& path, ObjectFile file);
  void remove(const std::string& path);

  std::vector<std::shared_ptr<const Object>> list(const GroupKind& kind) const;
  std::shared_ptr<const Object> get(const ObjectKey& key) const;

  // All problems, duplicates included, ordered.
  std::vector<Problem> problems() const;
  // True if some file cannot be read or parsed.
  bool any_broken() const { return !broken_.empty(); }

  Changes take_changes();

 private:
  // The first path in byte order wins; within a file, the first document.
  struct Place {
    std::string path;
    std::size_t ordinal = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  using Claims = std::map<Place, std::shared_ptr<const Object>>;

  void withdraw(const std::string& path, const ObjectFile& file);
  void touch(const ObjectKey& key);

  std::map<std::string, ObjectFile> files_;
  std::map<ObjectKey, Claims> claims_;
  std::set<ObjectKey> contested_;
  std::set<std::string> broken_;
  // Keys touched since take_changes(), with their previous objects.
  std::map<ObjectKey, std::shared_ptr<const Object>> before_;
};

}  // namespace osm::inline v1::spec
