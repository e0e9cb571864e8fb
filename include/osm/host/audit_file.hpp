// The audit log in a file: one JSON line for each issued certificate.
//
//   auto audit = host::open_audit_file({.path = "/var/log/issued.json", .runtime = runtime});
//   auto manager = certificate::make_manager({..., .audit = audit->get()});
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "osm/certificate/audit.hpp"
#include "osm/detail/api.hpp"
#include "osm/object.hpp"
#include "osm/result.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::host {

// Place of an audit log.
struct AuditFileOptions {
  // A file, which is made with mode 0600 if it is absent, or "-" for stdout. A file that was moved
  // away is opened again.
  std::string path;
  std::string setting = "audit log";  // the flag or setting that has `path`, for errors
  Runtime runtime;                    // its clock and its log are used
};

// An audit log.
class OSM_API AuditFile : public certificate::AuditSink {
 public:
  // A record that cannot be written goes to the log, as an error: certificates are issued all the
  // same. Thread: any, concurrently. Blocking: disk, or a second for a pipe that nobody reads.
  void issued(const certificate::Certificate& certificate,
              const certificate::Requester& requester) override = 0;

  // The fault of the newest record. Thread: any. Blocking: no.
  virtual std::optional<Problem> problem() const = 0;
};

// Failure: kStorage: no regular file; another user may write to it; it cannot be opened; with the
// remedy. Lifetime: what `runtime` borrows outlives the file. Thread: any. Blocking: disk.
OSM_API Result<std::unique_ptr<AuditFile>> open_audit_file(const AuditFileOptions& options);

}  // namespace osm::inline v1::host
