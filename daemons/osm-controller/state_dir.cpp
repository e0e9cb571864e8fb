#include "state_dir.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/private_directory.hpp"

namespace osm::controller {
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

Result<StateDir> StateDir::lock(const std::string& path) {
  // Others may look into it. Files with secrets have modes of their own.
  OSM_TRY(const Descriptor directory,
          open_private_directory({"--state-dir", path, S_IWGRP | S_IWOTH}, 0));
  const std::string file = path + "/lock";
  Descriptor opened(::openat(directory.get(), "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                             S_IRUSR | S_IWUSR));
  if (!opened)
    return storage(
        fmt::format("cannot open {}: {}; --state-dir must be a directory this user may "
                    "write to, on a disk with space",
                    file, reason(errno)));
  const int fd = opened.get();
  StateDir locked(path, std::move(opened));
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("another osm-controller{} uses the state directory {}; stop it, or "
                             "give this one its own --state-dir",
                             holder(fd), path)};
  }
  const std::string id = std::to_string(::getpid()) + '\n';
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, id.data(), id.size(), 0) < 0)
    return storage(fmt::format("cannot write {}: {}; is the disk full?", file, reason(errno)));
  return locked;
}

Status check_mesh_dir(const std::string& path) {
  std::error_code failed;
  const auto status = std::filesystem::status(path, failed);
  if (!std::filesystem::exists(status))
    return storage(
        fmt::format("the mesh directory {} does not exist; create it (an empty one is an "
                    "empty mesh) or correct --mesh-dir",
                    path));
  if (!std::filesystem::is_directory(status))
    return storage(
        fmt::format("--mesh-dir {} is not a directory; name the directory that holds the "
                    "mesh's YAML files",
                    path));
  if (::access(path.c_str(), R_OK | X_OK) != 0)
    return storage(fmt::format("the mesh directory {} cannot be read: {}; run as a user that may",
                               path, reason(errno)));
  return {};
}

}  // namespace osm::controller
