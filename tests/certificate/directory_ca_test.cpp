// A CA in a directory is created once by racing processes, and unsafe files are refused with a
// remedy.
#include "osm/certificate/directory_ca.hpp"

#include <doctest/doctest.h>
#include <openssl/err.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "certificate/local_issuer.hpp"
#include "lib/temporary_directory.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/manual_clock.hpp"

using namespace osm;
using namespace osm::certificate;

namespace {

namespace fs = std::filesystem;

const TrustDomain kDomain("cluster.local");

// The CA is two levels below, so that both are made.
class CaDirectory {
 public:
  std::string ca() const { return directory_.file("state/ca"); }
  fs::path file() const { return directory_.path() / "state" / "ca" / "ca.pem"; }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(ca()), fs::directory_iterator()));
  }

 private:
  osm::testing::TemporaryDirectory directory_;
};

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc) << text;
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
}

mode_t mode(const fs::path& path) {
  struct stat status;
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

// The refusal's text, which never shows key material and leaves the file as it was.
std::string refusal(const CaDirectory& directory, const Clock& clock) {
  const auto refused = load_or_create_directory_ca({directory.ca(), kDomain, clock});
  REQUIRE_FALSE(refused.ok());
  CHECK(ERR_peek_error() == 0);
  const std::string text = refused.error().text();
  CHECK(text.find("BEGIN") == std::string::npos);
  CHECK(text.find(directory.ca()) != std::string::npos);
  return text;
}

// Runs `body` in a process of its own. Result: its id.
template <class Body>
pid_t in_process(Body body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(body());
  return child;
}

int wait_for(pid_t child) {
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

}  // namespace

TEST_SUITE("certificate::load_or_create_directory_ca") {
  TEST_CASE("the first start creates a private CA, and the next one loads the same") {
    const CaDirectory directory;
    const SystemClock clock;
    const auto first = load_or_create_directory_ca({directory.ca(), kDomain, clock});
    REQUIRE(first.ok());
    CHECK(mode(directory.ca()) == 0700);
    CHECK(mode(directory.file()) == 0600);
    CHECK(directory.files() == 1);
    const std::string written = read(directory.file());
    const auto second = load_or_create_directory_ca({directory.ca(), kDomain, clock});
    REQUIRE(second.ok());
    CHECK((*first)->trust_bundle_pem() == (*second)->trust_bundle_pem());
    CHECK((*first)->not_after() == (*second)->not_after());
    CHECK(read(directory.file()) == written);
  }

  TEST_CASE("a careless umask does not open the CA to others") {
    const CaDirectory directory;
    const int status = wait_for(in_process([&] {
      ::umask(0);
      const SystemClock clock;
      return load_or_create_directory_ca({directory.ca(), kDomain, clock}).ok() ? 0 : 1;
    }));
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) == 0);
    CHECK(mode(directory.ca()) == 0700);
    CHECK(mode(directory.file()) == 0600);
  }

  TEST_CASE("twenty processes that race, some of them killed, end with one CA and no litter") {
    const SystemClock clock;
    for (int round = 0; round < 5; ++round) {
      const CaDirectory directory;
      fs::create_directories(fs::path(directory.ca()).parent_path());
      int gate[2];
      REQUIRE(::pipe(gate) == 0);
      std::vector<pid_t> children;
      for (int i = 0; i < 20; ++i)
        children.push_back(in_process([&] {
          ::close(gate[1]);
          char byte;
          (void)!::read(gate[0], &byte, 1);  // end of file: all start together
          const auto ca = load_or_create_directory_ca({directory.ca(), kDomain, clock});
          if (!ca.ok()) return 1;
          std::ofstream(fs::path(directory.ca()).parent_path() / std::to_string(::getpid()))
              << (*ca)->trust_bundle_pem();
          return 0;
        }));
      ::close(gate[0]);
      ::close(gate[1]);
      // Killed before it does anything, or while the others are at work.
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (round % 2 == 1 && !fs::exists(directory.ca()) &&
             std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
      ::kill(children[0], SIGKILL);
      std::set<std::string> seen;
      for (const pid_t child : children) {
        const int status = wait_for(child);
        if (WIFSIGNALED(status)) continue;
        CHECK(WEXITSTATUS(status) == 0);
        seen.insert(read(fs::path(directory.ca()).parent_path() / std::to_string(child)));
      }
      REQUIRE(seen.size() == 1);
      const auto ca = load_or_create_directory_ca({directory.ca(), kDomain, clock});
      REQUIRE(ca.ok());
      CHECK((*ca)->trust_bundle_pem() == *seen.begin());
      CHECK(directory.files() == 1);
    }
  }

  TEST_CASE("files of a crashed creator are removed, before and after its link") {
    const CaDirectory directory;
    const SystemClock clock;
    fs::create_directories(directory.ca());
    fs::permissions(directory.ca(), fs::perms::owner_all);
    write(fs::path(directory.ca()) / ".ca.pem.tmp.4711.1", "half a k");
    const auto ca = load_or_create_directory_ca({directory.ca(), kDomain, clock});
    REQUIRE(ca.ok());
    CHECK(directory.files() == 1);
    fs::create_hard_link(directory.file(), fs::path(directory.ca()) / ".ca.pem.tmp.4711.2");
    REQUIRE(load_or_create_directory_ca({directory.ca(), kDomain, clock}).ok());
    CHECK(directory.files() == 1);
  }

  TEST_CASE("a directory or file open to others is refused with the command that closes it") {
    const CaDirectory directory;
    const SystemClock clock;
    REQUIRE(load_or_create_directory_ca({directory.ca(), kDomain, clock}).ok());
    ::chmod(directory.ca().c_str(), 0750);
    CHECK(refusal(directory, clock).find("chmod 700 '" + directory.ca() + "'") !=
          std::string::npos);
    CHECK(mode(directory.ca()) == 0750);
    ::chmod(directory.ca().c_str(), 0700);
    ::chmod(directory.file().c_str(), 0604);
    CHECK(refusal(directory, clock).find("chmod 600 '" + directory.file().string() + "'") !=
          std::string::npos);
    ::chmod(directory.file().c_str(), 0400);  // stricter is fine
    CHECK(load_or_create_directory_ca({directory.ca(), kDomain, clock}).ok());
  }

  TEST_CASE("a CA that belongs to another user is refused with the command that hands it over") {
    REQUIRE_MESSAGE(::geteuid() == 0, "only root can give files away: run the tests as root");
    const CaDirectory directory;
    const SystemClock clock;
    REQUIRE(load_or_create_directory_ca({directory.ca(), kDomain, clock}).ok());
    REQUIRE(::chown(directory.file().c_str(), 1500, 1500) == 0);
    CHECK(refusal(directory, clock).find("chown 0 '" + directory.file().string() + "'") !=
          std::string::npos);
  }

  TEST_CASE("a user who may not read the CA is told which uid needs access") {
    REQUIRE_MESSAGE(::geteuid() == 0, "only root becomes another user: run the tests as root");
    const CaDirectory directory;
    const SystemClock clock;
    REQUIRE(load_or_create_directory_ca({directory.ca(), kDomain, clock}).ok());
    fs::permissions(fs::path(directory.ca()).parent_path().parent_path(), fs::perms::all);
    const fs::path out = fs::path(directory.ca()).parent_path().parent_path() / "out";
    write(out, "");
    ::chmod(out.c_str(), 0666);
    const int status = wait_for(in_process([&] {
      if (::setuid(1500) != 0) return 2;
      const auto refused = load_or_create_directory_ca({directory.ca(), kDomain, clock});
      std::ofstream(out) << (refused.ok() ? "loaded" : refused.error().text());
      return 0;
    }));
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) == 0);
    CHECK(read(out).find("storage: certificate authority") == 0);
    CHECK(read(out).find("let uid 1500 read and write it") != std::string::npos);
  }

  TEST_CASE("symbolic links, directories and fifos in the CA's place are refused") {
    const SystemClock clock;
    {
      const CaDirectory directory;
      REQUIRE(load_or_create_directory_ca({directory.ca(), kDomain, clock}).ok());
      fs::rename(directory.file(), directory.ca() + "/elsewhere");
      fs::create_symlink("elsewhere", directory.file());
      CHECK(refusal(directory, clock).find("must not be a symbolic link") != std::string::npos);
      fs::remove(directory.file());
      fs::create_directory(directory.file());
      CHECK(refusal(directory, clock).find("not a regular file") != std::string::npos);
      fs::remove(directory.file());
      REQUIRE(::mkfifo(directory.file().c_str(), 0600) == 0);
      CHECK(refusal(directory, clock).find("not a regular file") != std::string::npos);
    }
    const CaDirectory directory;
    fs::create_directories(fs::path(directory.ca()).parent_path());
    write(directory.ca(), "a file");
    CHECK(refusal(directory, clock).find("cannot be opened") != std::string::npos);
  }

  TEST_CASE("content that is no CA is refused with the reason and left alone") {
    const CaDirectory directory;
    osm::testing::ManualClock clock;
    const auto ca = load_or_create_directory_ca({directory.ca(), kDomain, clock});
    REQUIRE(ca.ok());
    const std::string good = read(directory.file());
    const std::size_t split = good.find("-----BEGIN CERTIFICATE");
    const auto other = make_root_pem(clock);
    REQUIRE(other.ok());
    struct Row {
      std::string content;
      std::string reason;
    };
    for (const Row& row : {
             Row{"", "no unencrypted PEM private key"},
             Row{"nonsense", "no unencrypted PEM private key"},
             Row{good.substr(0, split / 2), "no unencrypted PEM private key"},
             Row{good.substr(0, split), "no PEM certificate"},
             Row{good.substr(0, split) +
                     other->pem().substr(other->pem().find("-----BEGIN CERTIFICATE")),
                 "does not belong to the certificate"},
             Row{std::string(100'000, 'x'), "too large"},
         }) {
      write(directory.file(), row.content);
      const std::string text = refusal(directory, clock);
      CHECK_MESSAGE(text.find(row.reason) != std::string::npos, text);
      CHECK(read(directory.file()) == row.content);
    }
    write(directory.file(), good);
    clock.set_wall((*ca)->not_after());
    CHECK(refusal(directory, clock).find("certificate-expired: certificate authority") == 0);
  }

  TEST_CASE("a disk without space leaves nothing behind and says what to do") {
    const CaDirectory directory;
    const fs::path out = fs::path(directory.ca()).parent_path().parent_path() / "out";
    int pipe[2];
    REQUIRE(::pipe(pipe) == 0);
    const int status = wait_for(in_process([&] {
      std::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{100, 100};
      if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
      const SystemClock clock;
      const auto refused = load_or_create_directory_ca({directory.ca(), kDomain, clock});
      const std::string text = refused.ok() ? "created" : refused.error().text();
      return ::write(pipe[1], text.data(), text.size()) > 0 ? 0 : 3;
    }));
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) == 0);
    char text[1024];
    const ssize_t size = ::read(pipe[0], text, sizeof text);
    ::close(pipe[0]);
    ::close(pipe[1]);
    REQUIRE(size > 0);
    const std::string message(text, static_cast<std::size_t>(size));
    CHECK_MESSAGE(message.find("storage: certificate authority") == 0, message);
    CHECK_MESSAGE(message.find("free space on its file system") != std::string::npos, message);
    CHECK(directory.files() == 0);
    // With space again, the same directory works.
    const SystemClock clock;
    CHECK(load_or_create_directory_ca({directory.ca(), kDomain, clock}).ok());
  }
}
