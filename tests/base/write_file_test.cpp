// Files that are replaced whole.
#include "base/write_file.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "lib/temporary_directory.hpp"

using namespace osm;

namespace {

std::size_t count_in(const testing::TemporaryDirectory& directory) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path()))
    count += entry.exists() ? 1 : 0;
  return count;
}

}  // namespace

TEST_SUITE("base::write_file") {
  TEST_CASE("a file is replaced with its content and mode, and nothing stays beside it") {
    const testing::TemporaryDirectory directory;
    const std::string path = directory.write("hosts", "before");
    const Status written = write_file({.path = path, .mode = 0640, .content = "after"});
    REQUIRE_MESSAGE(written.ok(), written.error().text());
    CHECK(directory.read("hosts") == "after");
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777) == 0640);
    CHECK(status.st_uid == ::geteuid());
    CHECK(count_in(directory) == 1);
  }

  TEST_CASE("a temporary file of a killed process with the same number is replaced") {
    const testing::TemporaryDirectory directory;
    directory.write(".hosts." + std::to_string(::getpid()), "a half");
    const Status written = write_file({.path = directory.file("hosts"), .content = "ours"});
    REQUIRE_MESSAGE(written.ok(), written.error().text());
    CHECK(directory.read("hosts") == "ours");
    CHECK(count_in(directory) == 1);
  }

  TEST_CASE("a link is replaced and not followed") {
    const testing::TemporaryDirectory directory;
    directory.write("target", "of somebody");
    std::filesystem::create_symlink("target", directory.file("hosts"));
    REQUIRE(write_file({.path = directory.file("hosts"), .content = "ours"}).ok());
    CHECK(directory.read("target") == "of somebody");
    CHECK_FALSE(std::filesystem::is_symlink(directory.file("hosts")));
  }

  TEST_CASE("a failure names the file with the remedy, and leaves nothing behind") {
    const testing::TemporaryDirectory directory;
    std::string path = directory.file("none/hosts");
    SUBCASE("there is no directory") {}
    SUBCASE("a directory has the name") {
      path = directory.file("hosts");
      std::filesystem::create_directory(path);
    }
    const std::size_t before = count_in(directory);
    const Status written = write_file({.path = path, .content = "x"});
    REQUIRE_FALSE(written.ok());
    CHECK(written.error().code == ErrorCode::kStorage);
    CHECK(written.error().message.starts_with(path + ": "));
    CHECK(written.error().message.ends_with(". Check the directory's free space and permissions"));
    CHECK(count_in(directory) == before);
  }
}
