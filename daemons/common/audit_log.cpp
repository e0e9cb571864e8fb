#include "audit_log.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/private_directory.hpp"
#include "base/times.hpp"
#include "base/utf8.hpp"
#include "osm/certificate/manager.hpp"

namespace osm::daemon {
namespace {

constexpr std::string_view kStdout = "-";
constexpr int kPatienceMs = 1000;

// Names in certificates are checked. The rest is text of strangers.
std::string line_of(const certificate::Certificate& certificate,
                    const certificate::Requester& requester, WallTime now) {
  const certificate::Subject& subject = certificate.subject;
  const boost::json::object line{
      {"time", rfc3339(now, 3)},
      {"event", "certificate-issued"},
      {"reason", issue_reason_text(requester.reason.value_or(certificate::IssueReason::kFirst))},
      {"usage", usage_text(subject.usage)},
      {"common_name", subject.common_name.str()},
      {"spiffe_id", subject.spiffe_id.str()},
      {"serial_number", certificate.serial_number},
      {"fingerprint", certificate.fingerprint},
      {"not_before", rfc3339(certificate.not_before)},
      {"not_after", rfc3339(certificate.not_after)},
      {"issuer", to_utf8(certificate.issuer_id)},
      {"root", certificate.root_fingerprint},
      {"requester_identity", to_utf8(requester.identity)},
      {"requester_address", to_utf8(requester.address)}};
  return escape_controls(boost::json::serialize(line), "\\u00");
}

}  // namespace

Result<std::unique_ptr<AuditLog>> AuditLog::open(const std::string& path, const Runtime& runtime) {
  std::unique_ptr<AuditLog> log(new AuditLog(path, runtime));
  if (path == kStdout) {
    log->file_ = Descriptor(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
    if (!log->file_) return storage_error({"--audit-log", path}, "stdout is closed", errno);
  } else {
    OSM_TRY(log->open_file());
  }
  return log;
}

// A file that others may read is no fault: a group of log readers is common.
Status AuditLog::open_file() {
  const PrivatePath at{"--audit-log", path_, S_IWGRP | S_IWOTH};
  // Without blocking, as a fifo would.
  Descriptor file(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK,
                         S_IRUSR | S_IWUSR));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0)
    return storage_error(at, "cannot be opened", errno);
  if (!S_ISREG(status.st_mode))
    return Error{ErrorCode::kStorage,
                 "--audit-log " + path_ + ": is not a regular file; use - for stdout"};
  OSM_TRY(check_private(at, status));
  file_ = std::move(file);
  return {};
}

Status AuditLog::write(std::string line) {
  const PrivatePath at{"--audit-log", path_};
  if (path_ != kStdout) {
    struct stat there {
    }, held{};
    const bool same = ::stat(path_.c_str(), &there) == 0 && ::fstat(file_.get(), &held) == 0 &&
                      there.st_dev == held.st_dev && there.st_ino == held.st_ino;
    if (!same) {
      OSM_TRY(open_file());
      torn_ = false;
    }
  }
  pollfd ready{file_.get(), POLLOUT, 0};
  if (::poll(&ready, 1, kPatienceMs) == 0)
    return Error{ErrorCode::kStorage, "--audit-log " + path_ + ": nobody reads it"};
  if (std::exchange(torn_, false)) line = '\n' + std::move(line);
  if (write_all(file_, line)) return {};
  torn_ = true;
  return storage_error(at, "cannot be written", errno);
}

void AuditLog::issued(const certificate::Certificate& certificate,
                      const certificate::Requester& requester) {
  const std::string line = line_of(certificate, requester, runtime_.clock.wall_now());
  std::unique_lock lock(mutex_);
  const Status written = write(line + '\n');
  const bool failed_before = fault_.has_value();
  fault_ = written.ok() ? std::nullopt : std::optional(written.error());
  lock.unlock();
  if (!written.ok())
    runtime_.log.error("a certificate is issued, and the audit log cannot be written",
                       {{"cause", written.error().message}, {"record", line}});
  else if (failed_before)
    runtime_.log.info("the audit log can be written again");
}

std::optional<Problem> AuditLog::problem() const {
  const std::lock_guard lock(mutex_);
  if (!fault_) return std::nullopt;
  return Problem{.code = fault_->code,
                 .object = {},
                 .path = "audit log",
                 .field = {},
                 .cause = fault_->message + "; the log has the records that it lacks"};
}

}  // namespace osm::daemon
