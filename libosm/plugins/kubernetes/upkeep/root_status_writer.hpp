// Writes state and message into the status of MeshRootCertificates. One replica at a time writes,
// only changes, once a second at most.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/strand.hpp"
#include "kubernetes/client/api.hpp"
#include "kubernetes/upkeep/rate.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/object.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::kubernetes {

struct RootStatusWriterOptions {
  std::function<std::vector<RootStatus>()> roots;  // as RootRotation::status()
  std::function<bool()> may_write;                 // true on the writing replica
  std::string osm_namespace;
};

class RootStatusWriter {
 public:
  RootStatusWriter(Api& api, const Runtime& runtime, RootStatusWriterOptions options);
  // Blocking: until a running call of the API has returned.
  ~RootStatusWriter();
  RootStatusWriter(const RootStatusWriter&) = delete;
  RootStatusWriter& operator=(const RootStatusWriter&) = delete;

  // Called when these objects changed. Thread: any. Blocking: no.
  void on_objects(const std::vector<ObjectKey>& keys);

 private:
  using Said = std::pair<std::string, std::string>;  // state and message

  void round();
  void write_all();
  bool write(const std::string& name, const Said& said);

  Api& api_;
  const Runtime runtime_;
  const RootStatusWriterOptions options_;

  std::mutex mutex_;               // guards `touched_`
  std::set<std::string> touched_;  // may be new objects of the same name, without a status

  // On the strand.
  std::map<std::string, Said> written_;
  bool failing_ = false;
  RateLimit budget_;
  Strand strand_;
  Subscription timer_;
};

}  // namespace osm::inline v1::kubernetes
