// One text that outlives a process and that the replicas of a control plane share: the progress of
// a root rotation, the last MeshConfig. It is a file, a ConfigMap or a key of etcd: a Backend
// (osm/runtime/backend.hpp) has one for each purpose.
#pragma once

#include <memory>
#include <string>

#include "osm/detail/api.hpp"
#include "osm/result.hpp"

namespace osm::inline v1 {

// A text without secrets.
class OSM_API TextRecord {
 public:
  virtual ~TextRecord() = default;

  // Name in errors: "ConfigMap osm-system/osm-root-rotation". Thread: any. Blocking: no.
  virtual std::string name() const = 0;

  // The content of the record.
  struct Text {
    std::string text;     // empty: nothing is recorded
    std::string version;  // version of the text that store() replaces
  };

  // Reads the record. Failure: kUnavailable, kStorage. Thread: any but an event loop's. Blocking:
  // until it is read.
  virtual Result<Text> load() = 0;

  // Replaces the text completely or not at all, even if the process is killed meanwhile.
  // Failure: kConflict (the text is of another version by now); as load(). Thread, blocking: as
  // load().
  virtual Status store(const Text& next) = 0;
};

// A record in a file, for one controller. Failure: none until it is read.
OSM_API std::unique_ptr<TextRecord> make_file_record(std::string path);

}  // namespace osm::inline v1
