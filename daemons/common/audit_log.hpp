// The audit log of a daemon: one JSON line for each issued certificate, in a file or on stdout.
#pragma once

#include <sys/stat.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/descriptor.hpp"
#include "osm/certificate/audit.hpp"
#include "osm/object.hpp"
#include "osm/result.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::daemon {

class AuditLog final : public certificate::AuditSink {
 public:
  // `path`: a file, which is made with mode 0600 if it is absent, or "-" for stdout. Lifetime:
  // `runtime` outlives the log. Failure: kStorage: no regular file, another user may write to it.
  static Result<std::unique_ptr<AuditLog>> open(const std::string& path, const Runtime& runtime);

  // A record that cannot be written goes to the log, as an error: certificates are issued all the
  // same. A file that was moved away is opened again. Blocking: disk, or a second for a pipe that
  // nobody reads.
  void issued(const certificate::Certificate& certificate,
              const certificate::Requester& requester) override;

  // The fault of the newest record. Thread: any. Blocking: no.
  std::optional<Problem> problem() const;

 private:
  AuditLog(std::string path, const Runtime& runtime) : path_(std::move(path)), runtime_(runtime) {}

  Status open_file();
  Status write(std::string line);

  const std::string path_;
  const Runtime runtime_;
  mutable std::mutex mutex_;  // over the next three
  Descriptor file_;
  bool torn_ = false;  // the last line was cut by an error
  std::optional<Error> fault_;
};

}  // namespace osm::daemon
