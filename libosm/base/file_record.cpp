// A record in a file of the state directory, for a single controller.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>

#include "base/descriptor.hpp"
#include "base/read_file.hpp"
#include "osm/runtime/text_record.hpp"

namespace osm::inline v1 {
namespace {

constexpr std::size_t kMaxRecordBytes = 1024 * 1024;

class FileRecord final : public TextRecord {
 public:
  explicit FileRecord(std::string path) : path_(std::move(path)) {}

  std::string name() const override { return path_; }

  Result<Text> load() override {
    if (::access(path_.c_str(), F_OK) != 0 && errno == ENOENT) return Text{};
    const Result<std::string> text = read_file(path_, kMaxRecordBytes);
    if (!text) return Error{ErrorCode::kStorage, text.error().message};
    return Text{*text, *text};
  }

  Status store(const Text& next) override {
    const std::lock_guard lock(mutex_);
    OSM_TRY(const Text present, load());
    if (present.version != next.version)
      return Error{ErrorCode::kConflict, path_ + ": something else writes it as well"};
    const std::string temporary = path_ + ".tmp";
    const Descriptor file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file || !write_all(file, next.text) || ::fsync(file.get()) != 0) return failed(errno);
    if (::rename(temporary.c_str(), path_.c_str()) != 0) return failed(errno);
    // A step of a rotation takes effect once it is recorded, so it must survive a power cut.
    const std::string parent = std::filesystem::path(path_).parent_path().string();
    const Descriptor directory(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory || ::fsync(directory.get()) != 0) return failed(errno);
    return {};
  }

 private:
  Error failed(int cause) const {
    return {
        ErrorCode::kStorage,
        path_ + ": cannot be written (" + std::generic_category().message(cause) +
            "); let it be a file of a directory that this user may write to, on a disk with space"};
  }

  const std::string path_;
  std::mutex mutex_;  // a comparison and its write are one step
};

}  // namespace

std::unique_ptr<TextRecord> make_file_record(std::string path) {
  return std::make_unique<FileRecord>(std::move(path));
}

}  // namespace osm::inline v1
