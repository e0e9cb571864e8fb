// Leaving, as far as the programs that it starts. e2e.vm_leave drains machines of a real mesh.
#include "osm/machine/leave.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "machine/machine_directory.hpp"
#include "osm/runtime/system.hpp"

using namespace osm;
using namespace osm::machine;

namespace {

// A machine that leaves without being drained, since its certificate has ended.
struct LeavingMachine : MachineDirectory {
  explicit LeavingMachine(const std::string& script) : MachineDirectory(std::chrono::hours(-1)) {
    write("intercept.sh", "#!/bin/sh\n" + script + '\n');
    std::filesystem::permissions(file("intercept.sh"), std::filesystem::perms::owner_all);
  }
  Result<LeaveResult> leave() const {
    return machine::leave({.drain = {.directory = str()}, .force = true}, SystemClock());
  }
  bool has_key() const { return std::filesystem::exists(file("sds_key.pem")); }
};

bool is_root() { return ::geteuid() == 0; }

}  // namespace

TEST_SUITE("machine::leave") {
  TEST_CASE("interception is removed, then the files are") {
    REQUIRE_MESSAGE(is_root(), "only root leaves: run the tests as root");
    const testing::TemporaryDirectory proof;
    const LeavingMachine machine("echo \"$@\" > " + proof.file("arguments"));
    const auto left = machine.leave();
    REQUIRE_MESSAGE(left.ok(), left.error().text());
    CHECK_FALSE(left->drained);
    CHECK(left->units.empty());
    CHECK(left->directory_deleted);
    CHECK(proof.read("arguments") == "--remove\n");
    CHECK_FALSE(std::filesystem::exists(machine.path()));
  }

  TEST_CASE("the files stay if interception is not removed") {
    REQUIRE_MESSAGE(is_root(), "only root leaves: run the tests as root");
    const LeavingMachine machine("exit 3");
    const auto left = machine.leave();
    REQUIRE_FALSE(left.ok());
    CHECK(left.error().code == ErrorCode::kStorage);
    CHECK(left.error().message.find("intercept.sh failed") != std::string::npos);
    CHECK(machine.has_key());
  }

  TEST_CASE("a lost exit status is no success") {
    REQUIRE_MESSAGE(is_root(), "only root leaves: run the tests as root");
    const LeavingMachine machine("exit 3");
    const auto before = ::signal(SIGCHLD, SIG_IGN);
    const auto left = machine.leave();
    ::signal(SIGCHLD, before);
    REQUIRE_FALSE(left.ok());
    CHECK(left.error().code == ErrorCode::kStorage);
    CHECK(left.error().message.find("its exit status is lost") != std::string::npos);
    CHECK(machine.has_key());
  }

  TEST_CASE("signals that the caller blocks are not blocked in the programs") {
    REQUIRE_MESSAGE(is_root(), "only root leaves: run the tests as root");
    // exec: a shell unblocks them in the programs that it starts.
    const LeavingMachine machine("exec grep -q '^SigBlk:[[:space:]]*0*$' /proc/self/status");
    sigset_t blocked, before;
    ::sigemptyset(&blocked);
    ::sigaddset(&blocked, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
    const auto left = machine.leave();
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    CHECK_MESSAGE(left.ok(), left.error().text());
  }

  TEST_CASE("only root leaves") {
    const LeavingMachine machine("exit 0");
    const bool root = is_root();
    if (root) REQUIRE(::seteuid(65534) == 0);
    const auto left = machine.leave();
    if (root) REQUIRE(::seteuid(0) == 0);
    REQUIRE_FALSE(left.ok());
    CHECK(left.error().code == ErrorCode::kPermissionDenied);
    CHECK(left.error().message.find("root") != std::string::npos);
    CHECK(machine.has_key());
  }
}
