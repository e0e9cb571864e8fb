#include "base/write_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "base/descriptor.hpp"

namespace osm::inline v1 {

Error file_error(const std::string& path, std::string_view remedy) {
  const int reason = errno;
  return {ErrorCode::kStorage,
          path + ": " + std::generic_category().message(reason) + ". " + std::string(remedy)};
}

Status write_new_file(const std::string& temporary, const WholeFile& file) {
  const Descriptor made(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!made) return file_error(file.path, kFreeSpace);
  const auto fill = [&]() -> Status {
    struct stat status {};
    if (::fstat(made.get(), &status) != 0) return file_error(file.path, kFreeSpace);
    const auto& owner = file.owner;
    if (owner && (status.st_uid != owner->user || status.st_gid != owner->group) &&
        ::fchown(made.get(), owner->user, owner->group) != 0)
      return file_error(file.path, "Run as root, or as the user whose file it is to be");
    if (::fchmod(made.get(), file.mode) != 0 || !write_all(made, file.content) ||
        ::fsync(made.get()) != 0)
      return file_error(file.path, kFreeSpace);
    return {};
  };
  Status filled = fill();
  if (!filled.ok()) ::unlink(temporary.c_str());
  return filled;
}

Status write_file(const WholeFile& file) {
  const std::size_t name = file.path.rfind('/') + 1;
  const std::string temporary =
      file.path.substr(0, name) + '.' + file.path.substr(name) + '.' + std::to_string(::getpid());
  ::unlink(temporary.c_str());  // of a killed process that had the same number
  OSM_TRY(write_new_file(temporary, file));
  if (::rename(temporary.c_str(), file.path.c_str()) == 0) return {};
  const Error failed = file_error(file.path, kFreeSpace);
  ::unlink(temporary.c_str());
  return failed;
}

}  // namespace osm::inline v1
