#include "base/read_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/descriptor.hpp"
#include "osm/certificate/secret_bytes.hpp"

namespace osm::inline v1 {

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  const auto failed = [&](const std::string& cause) {
    return Error{ErrorCode::kUnreadableSource, path + ": cannot be read: " + cause};
  };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
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

}  // namespace osm::inline v1
