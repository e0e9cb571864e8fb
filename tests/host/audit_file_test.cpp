// An audit log in a file has a line for each certificate, and tells when it cannot be written.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <boost/json/parse.hpp>
#include <filesystem>

#include "lib/temporary_directory.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/host/audit_file.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

using namespace osm;

namespace {

struct Fixture {
  osm::testing::TemporaryDirectory folder;
  osm::testing::ManualClock clock;
  osm::testing::ManualExecutor executor{clock};
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  RandomRng rng{1};
  Runtime runtime{executor, executor, clock, rng, log, metrics};

  Result<std::unique_ptr<host::AuditFile>> open(const std::string& path) {
    return host::open_audit_file({.path = path, .setting = "--audit", .runtime = runtime});
  }
  void issue(host::AuditFile& audit, const std::string& address) {
    certificate::Certificate issued;
    issued.fingerprint = "abc";
    audit.issued(issued, {.address = address});
  }
};

}  // namespace

TEST_SUITE("host::open_audit_file") {
  TEST_CASE_FIXTURE(Fixture, "a record is one line, whatever its texts") {
    const auto audit = open(folder.file("audit")).value();
    issue(*audit, "a\n\x1b[31m\xff");
    const std::string text = folder.read("audit");
    CHECK(text.find('\n') == text.size() - 1);
    CHECK(text.find('\x1b') == std::string::npos);
    const auto line = boost::json::parse(text).as_object();
    CHECK(line.at("event") == "certificate-issued");
    CHECK(line.at("fingerprint") == "abc");
    CHECK(line.at("reason") == "first");
    CHECK_FALSE(audit->problem());
  }

  TEST_CASE_FIXTURE(Fixture, "a file is made with mode 0600") {
    REQUIRE(open(folder.file("audit")).ok());
    struct stat made {};
    REQUIRE(::stat(folder.file("audit").c_str(), &made) == 0);
    CHECK((made.st_mode & 0777) == 0600);
  }

  TEST_CASE_FIXTURE(Fixture, "a file that others may write is refused by the name of its setting") {
    const std::string path = folder.write("audit", "");
    REQUIRE(::chmod(path.c_str(), 0622) == 0);
    const auto refused = open(path);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kStorage);
    CHECK(refused.error().message.find("--audit " + path + ": mode 0622") == 0);
    const auto device = open("/dev/null");
    REQUIRE_FALSE(device.ok());
    CHECK(device.error().message == "--audit /dev/null: is not a regular file; use - for stdout");
  }

  TEST_CASE_FIXTURE(Fixture, "a file that cannot be opened again is a problem until it can") {
    std::filesystem::create_directory(folder.path() / "logs");
    const auto audit = open(folder.file("logs/audit")).value();
    std::filesystem::rename(folder.path() / "logs", folder.path() / "away");
    issue(*audit, "lost");
    REQUIRE(audit->problem());
    CHECK(audit->problem()->code == ErrorCode::kStorage);
    CHECK(log.count("error: a certificate is issued, and the audit log cannot be written") == 1);
    CHECK(log.count("lost") == 1);
    std::filesystem::rename(folder.path() / "away", folder.path() / "logs");
    issue(*audit, "kept");
    CHECK_FALSE(audit->problem());
    CHECK(log.count("info: the audit log can be written again") == 1);
    CHECK(folder.read("logs/audit").find("kept") != std::string::npos);
  }
}
