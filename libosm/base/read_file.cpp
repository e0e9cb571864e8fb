#include "base/read_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "osm/certificate/secret_bytes.hpp"

namespace osm::inline v1 {

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  const auto failed = [&](const std::string& cause) {
    return Error{ErrorCode::kUnreadableSource, path + ": cannot be read: " + cause};
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return failed(std::strerror(errno));
  struct stat info {};
  // Pipes and files of /proc do not tell their size.
  const std::size_t told = ::fstat(fd, &info) == 0 ? static_cast<std::size_t>(info.st_size) : 0;
  // One byte more than expected shows that there is more.
  std::string text((told == 0 ? max_bytes : std::min(told, max_bytes)) + 1, '\0');
  std::size_t size = 0;
  ssize_t got = 1;
  while (got != 0 && size < text.size()) {
    got = ::read(fd, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    size += static_cast<std::size_t>(got);
  }
  const int cause = got < 0 ? errno : 0;
  ::close(fd);
  if (cause == 0 && size < text.size()) {
    text.resize(size);
    return text;
  }
  erase(text);
  if (cause != 0) return failed(std::strerror(cause));
  if (size > max_bytes)
    return failed("it is larger than " + std::to_string(max_bytes / 1024) + " KiB");
  return failed("it grew meanwhile; try again");
}

}  // namespace osm::inline v1
