// A state directory is private, and belongs to one process at a time.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "lib/temporary_directory.hpp"
#include "osm/host/state_dir.hpp"

using namespace osm;

namespace {

Result<host::StateDir> lock(const std::string& path) {
  return host::StateDir::lock({.path = path, .program = "vendor", .setting = "--state"});
}

}  // namespace

TEST_SUITE("host::StateDir") {
  TEST_CASE("a directory that is absent is made for this user alone") {
    const osm::testing::TemporaryDirectory folder;
    const auto state = lock(folder.file("a/state"));
    REQUIRE(state.ok());
    CHECK(state->file("x") == folder.file("a/state/x"));
    for (const char* made : {"a", "a/state"}) {
      struct stat status {};
      REQUIRE(::stat(folder.file(made).c_str(), &status) == 0);
      CHECK((status.st_mode & 0777) == 0700);
    }
  }

  TEST_CASE("a locked directory is refused with its holder, until the lock's end") {
    const osm::testing::TemporaryDirectory folder;
    const std::string path = folder.file("state");
    auto first = lock(path);
    REQUIRE(first.ok());
    std::optional<host::StateDir> moved(std::move(*first));
    const auto second = lock(path);
    REQUIRE_FALSE(second.ok());
    CHECK(second.error().code == ErrorCode::kUnavailable);
    CHECK(second.error().message == "another vendor (process " + std::to_string(::getpid()) +
                                        ") uses the state directory " + path +
                                        "; stop it, or give this one its own --state");
    moved.reset();
    CHECK(lock(path).ok());
  }

  TEST_CASE("a directory that others may write to is refused by the name of its setting") {
    const osm::testing::TemporaryDirectory folder;
    REQUIRE(::chmod(folder.str().c_str(), 0722) == 0);
    const auto refused = lock(folder.str());
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kStorage);
    CHECK(refused.error().message.find("--state " + folder.str() + ": mode 0722") == 0);
  }
}
