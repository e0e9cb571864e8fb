#include "osm/host/state_dir.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/descriptor.hpp"
#include "base/private_directory.hpp"

namespace osm::inline v1::host {
namespace {

std::string reason(int code) { return std::generic_category().message(code); }

Error storage(std::string message) { return {ErrorCode::kStorage, std::move(message)}; }

// The holder of the lock wrote its process id there, for messages only.
std::string holder(int fd) {
  char text[32] = {};
  const ssize_t got = ::pread(fd, text, sizeof text - 1, 0);
  std::string id(text, got > 0 ? static_cast<std::size_t>(got) : 0);
  while (!id.empty() && (id.back() < '0' || id.back() > '9')) id.pop_back();
  return id.empty() ? "" : " (process " + id + ")";
}

}  // namespace

// Closing the descriptor unlocks the directory.
class StateDir::Lock {
 public:
  explicit Lock(Descriptor file) : file_(std::move(file)) {}

 private:
  Descriptor file_;
};

Result<StateDir> StateDir::lock(const StateDirOptions& options) {
  const std::string& path = options.path;
  // Others may look into it. Files with secrets have modes of their own.
  OSM_TRY(const Descriptor directory,
          open_private_directory({options.setting, path, S_IWGRP | S_IWOTH}, 0));
  const std::string file = path + "/lock";
  Descriptor opened(::openat(directory.get(), "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                             S_IRUSR | S_IWUSR));
  if (!opened)
    return storage(
        fmt::format("cannot open {}: {}; {} must be a directory this user may write to, on a disk "
                    "with space",
                    file, reason(errno), options.setting));
  const int fd = opened.get();
  StateDir locked(path, std::make_unique<Lock>(std::move(opened)));
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("another {}{} uses the state directory {}; stop it, or give this one "
                             "its own {}",
                             options.program, holder(fd), path, options.setting)};
  }
  const std::string id = std::to_string(::getpid()) + '\n';
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, id.data(), id.size(), 0) < 0)
    return storage(fmt::format("cannot write {}: {}; is the disk full?", file, reason(errno)));
  return locked;
}

StateDir::StateDir(std::string path, std::unique_ptr<Lock> lock)
    : path_(std::move(path)), lock_(std::move(lock)) {}

StateDir::~StateDir() = default;
StateDir::StateDir(StateDir&&) noexcept = default;
StateDir& StateDir::operator=(StateDir&&) noexcept = default;

}  // namespace osm::inline v1::host
