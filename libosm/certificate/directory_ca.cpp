#include "osm/certificate/directory_ca.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/descriptor.hpp"
#include "base/private_directory.hpp"
#include "osm/certificate/ca_store.hpp"

namespace osm::inline v1::certificate {
namespace {

constexpr const char* kFileName = "ca.pem";
constexpr std::string_view kTemporaryPrefix = ".ca.pem.tmp.";
constexpr off_t kMaxFileSize = 64 * 1024;

PrivatePath private_path(std::string path) { return {"certificate authority", std::move(path)}; }

Error storage(const std::string& path, std::string_view action, int cause) {
  return storage_error(private_path(path), action, cause);
}

Error storage(const std::string& path, const std::string& problem_and_remedy) {
  return {ErrorCode::kStorage, "certificate authority " + path + ": " + problem_and_remedy};
}

class Directory final : public CaStore {
 public:
  static Result<Directory> open(const std::string& path) {
    OSM_TRY(Descriptor fd, open_private_directory(private_path(path), O_NOFOLLOW));
    return Directory(path, std::move(fd));
  }

  std::string name() const override { return "certificate authority " + file_path(); }
  Result<std::optional<PrivateKey>> load() override {
    auto pem = read();
    if (pem.ok() && *pem) remove_temporaries();
    return pem;
  }

  Status create(const PrivateKey& pem) override {
    std::random_device random;
    const std::string name = std::string(kTemporaryPrefix) + std::to_string(::getpid()) + "." +
                             std::to_string(random()) + std::to_string(random());
    Status written = write(name, pem.pem());
    // link() instead of rename(): the loser of a race must not overwrite the CA that others already
    // use. ENOENT: the winner has removed our temporary file.
    if (written && ::linkat(fd_.get(), name.c_str(), fd_.get(), kFileName, 0) != 0 &&
        errno != EEXIST && errno != ENOENT)
      written = storage(file_path(), "cannot be created", errno);
    ::unlinkat(fd_.get(), name.c_str(), 0);
    if (!written) return written;
    // Make the name durable, whichever process created it.
    if (::fsync(fd_.get()) != 0) return storage(path_, "cannot be written", errno);
    return {};
  }

 private:
  Directory(std::string path, Descriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  Result<std::optional<PrivateKey>> read() const {
    // Open without blocking: a fifo must not stop the start.
    const Descriptor file(
        ::openat(fd_.get(), kFileName, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file && errno == ENOENT) return std::optional<PrivateKey>();
    struct stat status;
    if (!file || ::fstat(file.get(), &status) != 0)
      return storage(file_path(), "cannot be opened", errno);
    if (!S_ISREG(status.st_mode))
      return storage(file_path(), "is not a regular file; move it away");
    OSM_TRY(check_private(private_path(file_path()), status));
    if (status.st_size > kMaxFileSize) return storage(file_path(), "is too large for a CA");

    std::string text(static_cast<std::size_t>(status.st_size), '\0');
    const EraseOnExit erased(text);
    if (!read_all(file, text)) return storage(file_path(), "cannot be read", errno);
    return std::optional<PrivateKey>(std::in_place, std::move(text));
  }

  Status write(const std::string& name, const std::string& text) const {
    const Descriptor file(
        ::openat(fd_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file || ::fchmod(file.get(), 0600) != 0)
      return storage(file_path(), "cannot be created", errno);
    if (!write_all(file, text) || ::fsync(file.get()) != 0)
      return storage(file_path(), "cannot be written", errno);
    return {};
  }

  // Once a CA exists, no temporary file can become it any more, so all are removed: those of
  // crashed creators and those of running ones.
  void remove_temporaries() const {
    std::error_code failed;
    // The directory that is open, wherever its path leads by now.
    const std::string open = "/proc/self/fd/" + std::to_string(fd_.get());
    for (std::filesystem::directory_iterator at(open, failed), end; at != end; at.increment(failed))
      if (const std::string name = at->path().filename(); name.starts_with(kTemporaryPrefix))
        ::unlinkat(fd_.get(), name.c_str(), 0);
  }

  std::string file_path() const { return path_ + "/" + kFileName; }

  std::string path_;
  Descriptor fd_;
};

}  // namespace

Result<std::unique_ptr<CaStore>> open_directory_ca_store(const std::string& directory) {
  OSM_TRY(Directory opened, Directory::open(directory));
  return std::unique_ptr<CaStore>(std::make_unique<Directory>(std::move(opened)));
}

Result<std::unique_ptr<Issuer>> load_or_create_directory_ca(const DirectoryCaOptions& options) {
  OSM_TRY(Directory directory, Directory::open(options.directory));
  return load_or_create_ca({directory, options.trust_domain, options.clock});
}

}  // namespace osm::inline v1::certificate
