#include "etcd/files.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>

namespace osm::inline v1::etcd {
namespace {

constexpr std::streamsize kMaxBytes = 1024 * 1024;

}  // namespace

Result<std::string> read_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamsize size = file ? static_cast<std::streamsize>(file.tellg()) : -1;
  if (size < 0 || size > kMaxBytes) {
    const std::string why = size > kMaxBytes ? "is larger than 1 MiB"
                            : errno != 0     ? std::strerror(errno)
                                             : "cannot be read";
    return Error{ErrorCode::kUnreadableSource, path + ": " + why};
  }
  std::string text(static_cast<std::size_t>(size), '\0');
  file.seekg(0);
  if (!file.read(text.data(), size))
    return Error{ErrorCode::kUnreadableSource, path + ": cannot be read"};
  return text;
}

}  // namespace osm::inline v1::etcd
