#include "vm_bootstrap.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace osm::cli {
namespace {

namespace json = boost::json;

Error storage(const std::string& path, std::string_view remedy) {
  const int reason = errno;
  return {ErrorCode::kStorage,
          fmt::format("{}: {}. {}", path, std::generic_category().message(reason), remedy)};
}

// Closes and, until committed, removes.
class TemporaryFile {
 public:
  TemporaryFile(std::string path, mode_t mode)
      : path_(std::move(path)),
        fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode)) {}
  ~TemporaryFile() {
    if (fd_ < 0) return;
    ::close(fd_);
    if (!committed_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int fd() const { return fd_; }
  bool commit(const std::string& final_path) {
    committed_ = ::rename(path_.c_str(), final_path.c_str()) == 0;
    return committed_;
  }

 private:
  std::string path_;
  int fd_;
  bool committed_ = false;
};

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

struct File {
  std::string name;
  mode_t mode = 0600;
  bool proxys = true;
  std::string_view content;
};

Status write_file(const File& file, const WriteOptions& options) {
  const std::string path = options.directory + '/' + file.name;
  TemporaryFile temporary(fmt::format("{}/.{}.{}", options.directory, file.name, ::getpid()),
                          file.mode);
  constexpr std::string_view kRemedy = "Check the directory's free space and permissions";
  if (temporary.fd() < 0) return storage(path, kRemedy);
  if (file.proxys && options.owner && ::fchown(temporary.fd(), *options.owner, *options.owner)) {
    return storage(path, "Run as root, or leave --owner to the current user");
  }
  if (::fchmod(temporary.fd(), file.mode) || !write_all(temporary.fd(), file.content) ||
      ::fsync(temporary.fd()) || !temporary.commit(path)) {
    return storage(path, kRemedy);
  }
  return {};
}

Result<File> decode_file(const json::value& value) {
  const Error malformed{ErrorCode::kInternal, "the controller's answer is not of this version"};
  const json::object* object = value.if_object();
  if (!object) return malformed;
  const auto* name = object->if_contains("name");
  const auto* mode = object->if_contains("mode");
  const auto* proxys = object->if_contains("proxys");
  const auto* content = object->if_contains("content");
  if (!name || !name->is_string() || !mode || !mode->is_int64() || !proxys || !proxys->is_bool() ||
      !content || !content->is_string()) {
    return malformed;
  }
  File file{std::string(name->as_string()), static_cast<mode_t>(mode->as_int64() & 0777),
            proxys->as_bool(), content->as_string()};
  if (file.name.empty() || file.name.front() == '.' || file.name.find('/') != std::string::npos) {
    return malformed;
  }
  return file;
}

std::string next_steps(const json::value& answer, const WriteOptions& options,
                       const std::string& names) {
  const auto member = [&](const char* name) {
    const auto* value = answer.as_object().if_contains(name);
    return value && value->is_string() ? std::string(value->as_string()) : std::string("-");
  };
  return fmt::format(
      "Wrote {0}: {1}\nProxy {2}, certificate {3} until {4}.\n\n"
      "On the machine, as root:\n"
      "  cat {0}/hosts >> /etc/hosts      # the mesh's names\n"
      "  {0}/intercept.sh                 # undo with --remove\n"
      "and start Envoy with the command at the top of {0}/bootstrap.yaml.\n",
      options.directory, names, member("uuid"), member("common_name"), member("not_after"));
}

}  // namespace

Result<std::string> write_bootstrap(const json::value& answer, const WriteOptions& options) {
  const json::object* object = answer.if_object();
  const json::value* files = object ? object->if_contains("files") : nullptr;
  if (!files || !files->is_array() || files->as_array().empty()) {
    return Error{ErrorCode::kInternal, "the controller's answer holds no files"};
  }
  std::error_code failed;
  std::filesystem::create_directories(options.directory, failed);
  if (failed) {
    return Error{ErrorCode::kStorage,
                 fmt::format("{}: {}. Choose another --out", options.directory, failed.message())};
  }
  std::string names;
  for (const json::value& value : files->as_array()) {
    OSM_TRY(const File file, decode_file(value));
    if (const Status written = write_file(file, options); !written.ok()) return written.error();
    names += (names.empty() ? "" : ", ") + file.name;
  }
  return next_steps(answer, options, names);
}

}  // namespace osm::cli
