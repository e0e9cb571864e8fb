#include "base/private_directory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace osm::inline v1 {
namespace {

Error storage(const PrivatePath& at, std::string_view problem_and_remedy) {
  return {ErrorCode::kStorage, fmt::format("{} {}: {}", at.noun, at.path, problem_and_remedy)};
}

std::string remedy(int cause) {
  switch (cause) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "; free space on its file system (or raise the limit) and start again";
    case EACCES:
    case EPERM:
    case EROFS:
      return fmt::format("; let uid {} read and write it, or name another directory that it may",
                         ::geteuid());
    case ELOOP:
      return "; it must not be a symbolic link";
    default:
      return {};
  }
}

}  // namespace

Error storage_error(const PrivatePath& at, std::string_view action, int cause) {
  return storage(
      at, fmt::format("{}: {}{}", action, std::generic_category().message(cause), remedy(cause)));
}

Status check_private(const PrivatePath& at, const struct stat& status) {
  if (status.st_uid != ::geteuid() && status.st_uid != 0)
    return storage(at, fmt::format("belongs to uid {}, who could replace its content: check the "
                                   "content, then chown {} '{}'",
                                   status.st_uid, ::geteuid(), at.path));
  const mode_t mode = status.st_mode & 07777U;
  if ((mode & at.refused) == 0) return {};
  const bool reading = (mode & at.refused & (S_IRGRP | S_IROTH)) != 0;
  return storage(at, fmt::format("mode {:04o} lets its group or others {} it: check who {}, then "
                                 "chmod {} '{}'",
                                 mode, reading ? "use" : "change", reading ? "read it" : "did",
                                 S_ISDIR(status.st_mode) ? "700" : "600", at.path));
}

Result<Descriptor> open_private_directory(const PrivatePath& at, int flags) {
  std::filesystem::path so_far;
  for (const std::filesystem::path& part : std::filesystem::path(at.path)) {
    so_far /= part;
    if (::mkdir(so_far.c_str(), S_IRWXU) != 0 && errno != EEXIST)
      return storage_error(at, "cannot be created", errno);
  }
  Descriptor opened(::open(at.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags));
  struct stat status {};
  if (!opened || ::fstat(opened.get(), &status) != 0)
    return storage_error(at, "cannot be opened", errno);
  OSM_TRY(check_private(at, status));
  return opened;
}

}  // namespace osm::inline v1
