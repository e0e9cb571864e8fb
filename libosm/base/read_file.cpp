#include "base/read_file.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/descriptor.hpp"
#include "osm/certificate/secret_bytes.hpp"

namespace osm::inline v1 {

namespace {

// The content of an open file, called `path` in errors. `file`: none if errno says why.
Result<std::string> read_open(const Descriptor& file, const std::string& path,
                              std::size_t max_bytes) {
  const auto failed = [&](const std::string& cause) {
    return Error{ErrorCode::kUnreadableSource, path + ": cannot be read: " + cause};
  };
  if (!file) return failed(std::strerror(errno));
  struct stat info {};
  // Pipes and files of /proc do not tell their size.
  const std::size_t told =
      ::fstat(file.get(), &info) == 0 ? static_cast<std::size_t>(info.st_size) : 0;
  // One byte more than expected shows that there is more.
  const std::size_t room = (told == 0 ? max_bytes : std::min(told, max_bytes)) + 1;
  std::string text(room, '\0');
  const int cause = read_all(file, text) ? 0 : errno;
  const std::size_t size = text.size();
  if (cause == 0 && size < room) return text;
  erase(text);
  if (cause != 0) return failed(std::strerror(cause));
  if (size > max_bytes)
    return failed("it is larger than " + std::to_string(max_bytes / 1024) + " KiB");
  return failed("it grew meanwhile; try again");
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  return read_open(Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), path, max_bytes);
}

Result<std::string> read_file_beneath(const std::string& directory, const std::string& name,
                                      std::size_t max_bytes) {
  const std::string path = directory + '/' + name;
  const Descriptor place(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!place) return read_open(place, directory, max_bytes);
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;  // a pipe must not hold the reader
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const Descriptor file(static_cast<int>(
      ::syscall(SYS_openat2, place.get(), name.c_str(), &how, sizeof how)));  // glibc has none
  return read_open(file, path, max_bytes);
}

}  // namespace osm::inline v1
