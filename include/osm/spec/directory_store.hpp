// ObjectStore over a directory of YAML: what the embedded mesh is written in.
//
// Follows inotify, with a full look every 10 s in case something was missed. A file is read when
// its writer closed it or it was renamed into place; other changes (deleted, changed without a
// word) must first stand still for 50 ms, so that no half-written file and no editor's
// rename-and-rewrite flashes an empty mesh. A file or directory that cannot be read or parsed keeps
// its last good content and is reported; has_synced() turns true once everything could be read in
// one look, and stays.
#pragma once

#include <memory>
#include <string>

#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/executor.hpp"
#include "osm/log.hpp"
#include "osm/metrics.hpp"
#include "osm/object_store.hpp"
#include "osm/result.hpp"
#include "osm/runtime/fd_watcher.hpp"

namespace osm::inline v1::spec {

// What a directory store works with.
struct DirectoryStoreOptions {
  std::string directory;  // need not exist yet; until it does the store is not synced
  Executor& executor;     // these outlive the store
  FdWatcher& watcher;
  const Clock& clock;
  LogSink& log;
  MetricsSink& metrics;
};

// The first look happens on the executor; subscribers hear of it.
// Failure: kInvalidArgument (no directory named), kUnavailable (inotify is not to be had).
// Lifetime: destroy it from outside its own callbacks; it waits for one that runs.
OSM_API Result<std::unique_ptr<ObjectStore>> make_directory_store(
    const DirectoryStoreOptions& options);

}  // namespace osm::inline v1::spec
