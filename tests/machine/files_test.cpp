// Files of a machine: whole, with their owners and modes, and changed by one process at a time.
#include "osm/machine/files.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/descriptor.hpp"
#include "lib/temporary_directory.hpp"
#include "machine/machine_directory.hpp"
#include "machine/proxy_files.hpp"

using namespace osm;
using namespace osm::machine;
using testing::TemporaryDirectory;

namespace {

std::vector<std::string> names_in(const TemporaryDirectory& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path()))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

Result<bool> removed(const TemporaryDirectory& directory) {
  OSM_TRY(const ProxyFilesLock lock, ProxyFilesLock::take(directory.str()));
  return lock.remove_all();
}

struct stat status_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status;
}

unsigned mode_of(const std::string& path) { return status_of(path).st_mode & 07777; }

}  // namespace

TEST_SUITE("machine::write_files") {
  TEST_CASE("the key and the files are written with their modes") {
    const TemporaryDirectory directory;
    directory.write("hosts", "of before");
    const std::vector<inject::BootstrapFile> files{{"hosts", 0644, false, "names"},
                                                   {"bootstrap.yaml", 0600, true, "envoy"}};
    const Status written =
        write_files({directory.str(), {}}, certificate::PrivateKey(std::string("key")), files);
    REQUIRE_MESSAGE(written.ok(), written.error().text());
    CHECK(names_in(directory) ==
          std::vector<std::string>{"bootstrap.yaml", "hosts", "sds_key.pem"});
    CHECK(directory.read("sds_key.pem") == "key");
    CHECK(directory.read("hosts") == "names");
    CHECK(mode_of(directory.file("sds_key.pem")) == 0600);
    CHECK(mode_of(directory.file("hosts")) == 0644);
  }

  TEST_CASE("the owner gets the key and the proxy's files, and no others") {
    REQUIRE_MESSAGE(::geteuid() == 0, "only root gives files away: run the tests as root");
    const TemporaryDirectory directory;
    const Status written =
        write_files({directory.str(), 1500}, certificate::PrivateKey(std::string("key")),
                    {{"bootstrap.yaml", 0600, true, "envoy"}, {"hosts", 0644, false, "names"}});
    REQUIRE_MESSAGE(written.ok(), written.error().text());
    for (const char* name : {"sds_key.pem", "bootstrap.yaml"}) {
      CAPTURE(name);
      CHECK(status_of(directory.file(name)).st_uid == 1500);
      CHECK(status_of(directory.file(name)).st_gid == 1500);
    }
    CHECK(status_of(directory.file("hosts")).st_uid == 0);
    CHECK(status_of(directory.str()).st_uid == 0);
  }

  TEST_CASE("a name outside of the directory is refused, and nothing is written") {
    const TemporaryDirectory directory;
    for (const char* name : {"", ".hidden", "../hosts", "a/b"}) {
      CAPTURE(name);
      const Status written =
          write_files({directory.str(), {}}, certificate::PrivateKey(std::string("key")),
                      {{"hosts", 0644, false, "names"}, {name, 0644, false, "x"}});
      REQUIRE_FALSE(written.ok());
      CHECK(written.error().code == ErrorCode::kInvalidArgument);
      CHECK(names_in(directory).empty());
    }
  }

  TEST_CASE("a directory that does not exist is named") {
    const TemporaryDirectory directory;
    const Status written =
        write_files({directory.file("none"), {}}, certificate::PrivateKey(std::string("key")), {});
    REQUIRE_FALSE(written.ok());
    CHECK(written.error().code == ErrorCode::kStorage);
    CHECK(written.error().message.find(directory.file("none")) != std::string::npos);
  }
}

TEST_SUITE("machine::ProxyFilesLock") {
  TEST_CASE("the files tell the controller, its names and the certificate's times") {
    const MachineDirectory machine;
    const auto lock = ProxyFilesLock::take(machine.str());
    REQUIRE(lock.ok());
    const auto files = lock->read();
    REQUIRE_MESSAGE(files.ok(), files.error().text());
    CHECK(files->controller == "127.0.0.1:15128");
    CHECK(files->controller_ids == std::vector<std::string>{"spiffe://cluster.local/osm/controller",
                                                            "spiffe://old.local/osm/controller"});
    CHECK(files->named_ids == std::vector<std::string>{"spiffe://old.local/osm/controller"});
    CHECK(files->not_after > files->not_before);
  }

  TEST_CASE("a key of another certificate is refused") {
    const MachineDirectory machine;
    machine.write("sds_key.pem", net::TestCa().issue("DNS:x")->private_key.pem());
    const auto lock = ProxyFilesLock::take(machine.str());
    REQUIRE(lock.ok());
    const auto files = lock->read();
    REQUIRE_FALSE(files.ok());
    CHECK(files.error().code == ErrorCode::kInvalidCertificate);
    CHECK(files.error().message.find("is not the key of") != std::string::npos);
  }

  TEST_CASE("one process at a time has the files") {
    const MachineDirectory machine;
    const Descriptor other(::open(machine.str().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(::flock(other.get(), LOCK_EX) == 0);
    const auto lock = ProxyFilesLock::take(machine.str());
    REQUIRE_FALSE(lock.ok());
    CHECK(lock.error().code == ErrorCode::kConflict);
  }

  TEST_CASE("a replacement that was killed between two renames is completed") {
    const MachineDirectory machine;
    const auto fresh = machine.ca.issue("DNS:fresh");
    machine.write("sds_key.pem", fresh->private_key.pem());  // renamed; the certificate is not yet
    machine.write(".sds_cert.pem.new", fresh->chain_pem);
    const auto lock = ProxyFilesLock::take(machine.str());
    REQUIRE(lock.ok());
    CHECK(machine.read("sds_cert.pem") == fresh->chain_pem);
    CHECK(lock->read().ok());
  }

  TEST_CASE("a replacement that was killed before its first rename is dropped") {
    const MachineDirectory machine;
    const std::string before = machine.read("sds_cert.pem");
    const auto fresh = machine.ca.issue("DNS:fresh");
    machine.write(".sds_key.pem.new", fresh->private_key.pem());
    machine.write(".sds_cert.pem.new", fresh->chain_pem);
    for (int time : {1, 2}) {  // what the first one leaves, the second one might complete
      CAPTURE(time);
      const auto lock = ProxyFilesLock::take(machine.str());
      REQUIRE(lock.ok());
      CHECK(machine.read("sds_cert.pem") == before);
      CHECK_FALSE(std::filesystem::exists(machine.file(".sds_key.pem.new")));
      CHECK_FALSE(std::filesystem::exists(machine.file(".sds_cert.pem.new")));
    }
  }

  TEST_CASE("the machine's files are deleted, and others stay with their directory") {
    const MachineDirectory machine;
    machine.write("notes", "of somebody");
    const auto lock = ProxyFilesLock::take(machine.str());
    REQUIRE(lock.ok());
    const auto gone = lock->remove_all();
    REQUIRE(gone.ok());
    CHECK_FALSE(*gone);
    CHECK(names_in(machine) == std::vector<std::string>{"notes"});
  }

  TEST_CASE("the directory is deleted with what killed processes left of the machine's files") {
    const MachineDirectory machine;
    machine.write(".sds_key.pem.4711", "a half");
    machine.write(".cacert.pem.new", "a half");
    SUBCASE("nothing else is there") {
      const auto gone = removed(machine);
      REQUIRE_MESSAGE(gone.ok(), gone.error().text());
      CHECK(*gone);
      CHECK_FALSE(std::filesystem::exists(machine.path()));
    }
    SUBCASE("an editor has a file open") {
      machine.write(".hosts.swp", "of somebody");
      const auto gone = removed(machine);
      REQUIRE_MESSAGE(gone.ok(), gone.error().text());
      CHECK_FALSE(*gone);
      CHECK(names_in(machine) == std::vector<std::string>{".hosts.swp"});
    }
  }
}
