#include "osm/host/audit_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/descriptor.hpp"
#include "base/private_directory.hpp"
#include "base/times.hpp"
#include "base/utf8.hpp"
#include "osm/certificate/manager.hpp"

namespace osm::inline v1::host {
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

class AuditLog final : public AuditFile {
 public:
  explicit AuditLog(const AuditFileOptions& options) : options_(options) {}

  Status open();
  void issued(const certificate::Certificate& certificate,
              const certificate::Requester& requester) override;
  std::optional<Problem> problem() const override;

 private:
  Status open_file();
  Status write(std::string line);
  Error fault(const std::string& text) const {
    return {ErrorCode::kStorage, options_.setting + ' ' + options_.path + ": " + text};
  }

  const AuditFileOptions options_;
  mutable std::mutex mutex_;  // over the next three
  Descriptor file_;
  bool torn_ = false;  // the last line was cut by an error
  std::optional<Error> fault_;
};

Status AuditLog::open() {
  if (options_.path != kStdout) return open_file();
  file_ = Descriptor(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
  if (file_) return {};
  return storage_error({options_.setting, options_.path}, "stdout is closed", errno);
}

// A file that others may read is no fault: a group of log readers is common.
Status AuditLog::open_file() {
  const PrivatePath at{options_.setting, options_.path, S_IWGRP | S_IWOTH};
  // Without blocking, as a fifo would.
  Descriptor file(::open(options_.path.c_str(),
                         O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK,
                         S_IRUSR | S_IWUSR));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0)
    return storage_error(at, "cannot be opened", errno);
  if (!S_ISREG(status.st_mode)) return fault("is not a regular file; use - for stdout");
  OSM_TRY(check_private(at, status));
  file_ = std::move(file);
  return {};
}

Status AuditLog::write(std::string line) {
  const PrivatePath at{options_.setting, options_.path};
  if (options_.path != kStdout) {
    struct stat there {
    }, held{};
    const bool same = ::stat(options_.path.c_str(), &there) == 0 &&
                      ::fstat(file_.get(), &held) == 0 && there.st_dev == held.st_dev &&
                      there.st_ino == held.st_ino;
    if (!same) {
      OSM_TRY(open_file());
      torn_ = false;
    }
  }
  pollfd ready{file_.get(), POLLOUT, 0};
  if (::poll(&ready, 1, kPatienceMs) == 0) return fault("nobody reads it");
  if (std::exchange(torn_, false)) line = '\n' + std::move(line);
  if (write_all(file_, line)) return {};
  torn_ = true;
  return storage_error(at, "cannot be written", errno);
}

void AuditLog::issued(const certificate::Certificate& certificate,
                      const certificate::Requester& requester) {
  const std::string line = line_of(certificate, requester, options_.runtime.clock.wall_now());
  std::unique_lock lock(mutex_);
  const Status written = write(line + '\n');
  const bool failed_before = fault_.has_value();
  fault_ = written.ok() ? std::nullopt : std::optional(written.error());
  lock.unlock();
  if (!written.ok())
    options_.runtime.log.error("a certificate is issued, and the audit log cannot be written",
                               {{"cause", written.error().message}, {"record", line}});
  else if (failed_before)
    options_.runtime.log.info("the audit log can be written again");
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

}  // namespace

Result<std::unique_ptr<AuditFile>> open_audit_file(const AuditFileOptions& options) {
  auto log = std::make_unique<AuditLog>(options);
  OSM_TRY(log->open());
  return std::unique_ptr<AuditFile>(std::move(log));
}

}  // namespace osm::inline v1::host
