// The files of a machine from a controller's answers.
#include "osm/machine/bootstrap.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <string>

#include "base/json.hpp"
#include "lib/temporary_directory.hpp"
#include "machine/answers.hpp"
#include "machine/machine_directory.hpp"
#include "machine/proxy_user.hpp"

using namespace osm;
using namespace osm::machine;

namespace {

// A controller with canned answers.
struct Controller {
  Result<std::string> subject{kSubject};
  Result<std::string> answer{kAnswer};
  std::optional<boost::json::value> body{};

  AdminCalls calls() {
    return {.subject = [this] { return subject; },
            .bootstrap =
                [this](const std::string& text) {
                  body = boost::json::parse(text);
                  return answer;
                }};
  }
};

BootstrapOptions web_1(const testing::TemporaryDirectory& directory) {
  return {.machine = {"shop", "web-1"},
          .controller = "192.0.2.1:15128",
          .proxy = {.directory = directory.str(), .owner = ::geteuid()}};
}

}  // namespace

TEST_SUITE("machine::bootstrap") {
  TEST_CASE("the key that is requested is written beside the files of the answer") {
    const testing::TemporaryDirectory directory;
    Controller controller;
    const auto written = bootstrap(web_1(directory), controller.calls());
    REQUIRE_MESSAGE(written.ok(), written.error().text());
    CHECK(written->files == std::vector<std::string>{"sds_key.pem", "sds_cert.pem", "hosts"});
    CHECK(written->uuid == "5f9e1d2c-0000-4000-8000-000000000001");
    CHECK(written->served_until == "2026-01-31T00:00:00Z");
    CHECK(written->not_after == "2026-04-30T00:00:00Z");
    CHECK(directory.read("sds_cert.pem") == "certificate");
    CHECK(directory.read("sds_key.pem").starts_with("-----BEGIN PRIVATE KEY-----"));
    REQUIRE(controller.body);
    CHECK(text_at(*controller.body, "name") == "web-1");
    CHECK(text_at(*controller.body, "namespace") == "shop");
    CHECK(text_at(*controller.body, "controller") == "192.0.2.1:15128");
    CHECK(text_at(*controller.body, "directory") == directory.str());
    CHECK(text_at(*controller.body, "xds") == "delta");
    CHECK(bool_at(*controller.body, "grpc") == false);
    CHECK(number_at(*controller.body, "proxy_uid") == ::geteuid());
    CHECK(text_at(*controller.body, "request").find("CERTIFICATE REQUEST") != std::string::npos);
    CHECK(text_at(*controller.body, "request").find("PRIVATE") == std::string::npos);
  }

  TEST_CASE("the controller is told the variant of xDS, gRPC, and the user that Envoy runs as") {
    const testing::TemporaryDirectory directory;
    Controller controller;
    BootstrapOptions options = web_1(directory);
    options.proxy.owner.reset();
    options.proxy.xds = XdsVariant::kSotw;
    options.proxy.grpc = true;
    const auto written = bootstrap(options, controller.calls());
    REQUIRE_MESSAGE(written.ok(), written.error().text());
    REQUIRE(controller.body);
    CHECK(text_at(*controller.body, "xds") == "sotw");
    CHECK(bool_at(*controller.body, "grpc") == true);
    const std::uint32_t owner = ::geteuid() == 0 ? 1500 : ::geteuid();
    CHECK(number_at(*controller.body, "proxy_uid") == owner);
    struct stat status {};
    REQUIRE(::stat(directory.file("sds_key.pem").c_str(), &status) == 0);
    CHECK(status.st_uid == owner);
  }

  TEST_CASE("the proxy's user can enter directories that are made, whatever the umask is") {
    const testing::TemporaryDirectory directory;
    Controller controller;
    BootstrapOptions options = web_1(directory);
    options.proxy.directory = directory.file("osm/web-1");
    const mode_t before = ::umask(077);
    const auto written = bootstrap(options, controller.calls());
    ::umask(before);
    REQUIRE_MESSAGE(written.ok(), written.error().text());
    for (const char* made : {"osm", "osm/web-1"}) {
      CAPTURE(made);
      struct stat status {};
      REQUIRE(::stat(directory.file(made).c_str(), &status) == 0);
      CHECK((status.st_mode & 07777) == 0755);
    }
  }

  TEST_CASE("no certificate is requested if this process cannot give files to the owner") {
    const testing::TemporaryDirectory directory;
    std::filesystem::permissions(directory.path(), std::filesystem::perms::all);
    Controller controller;
    BootstrapOptions options = web_1(directory);
    const AsProxyUser nobody(true, 65534, 65534);  // root has the right
    options.proxy.owner = ::geteuid() + 1;
    const auto written = bootstrap(options, controller.calls());
    REQUIRE_FALSE(written.ok());
    CHECK(written.error().code == ErrorCode::kStorage);
    CHECK(written.error().message.find("Run as root") != std::string::npos);
    CHECK_FALSE(controller.body);
    CHECK(std::filesystem::is_empty(directory.path()));
  }

  TEST_CASE("the controller is asked, and refuses, if root is to be the owner") {
    const testing::TemporaryDirectory directory;
    std::filesystem::permissions(directory.path(), std::filesystem::perms::all);
    Controller controller;
    controller.answer = Error{ErrorCode::kInvalidArgument, "proxy uid: 0"};
    BootstrapOptions options = web_1(directory);
    const AsProxyUser nobody(true, 65534, 65534);
    options.proxy.owner = 0;
    const auto written = bootstrap(options, controller.calls());
    REQUIRE_FALSE(written.ok());
    CHECK(written.error().message == "proxy uid: 0");
  }

  TEST_CASE("no certificate is requested for a directory with another machine's files") {
    const MachineDirectory directory;
    Controller controller;
    BootstrapOptions options = web_1(directory);
    SUBCASE("of another machine") {
      directory.write("bootstrap.yaml", "# Envoy's bootstrap for shop/web-2, written by a test\n");
    }
    SUBCASE("of no machine") {
      std::filesystem::remove(directory.file("bootstrap.yaml"));
      std::filesystem::remove(directory.file("sds_key.pem"));
    }
    const auto written = bootstrap(options, controller.calls());
    REQUIRE_FALSE(written.ok());
    CHECK(written.error().code == ErrorCode::kConflict);
    CHECK_FALSE(controller.body);
  }

  TEST_CASE("a failure of a request is the caller's own") {
    const testing::TemporaryDirectory directory;
    Controller controller;
    SUBCASE("for the subject") { controller.subject = Error{ErrorCode::kNotFound, "no web-1"}; }
    SUBCASE("for the files") { controller.answer = Error{ErrorCode::kNotFound, "no web-1"}; }
    const auto written = bootstrap(web_1(directory), controller.calls());
    REQUIRE_FALSE(written.ok());
    CHECK(written.error().text() == Error{ErrorCode::kNotFound, "no web-1"}.text());
    CHECK(std::filesystem::is_empty(directory.path()));
  }

  TEST_CASE("an answer of another version writes nothing") {
    const testing::TemporaryDirectory directory;
    Controller controller;
    SUBCASE("no JSON") { controller.subject = std::string("?"); }
    SUBCASE("a key of a new kind") {
      controller.subject = std::string(R"({"common_name": "x", "key_algorithm": "ML-DSA"})");
    }
    SUBCASE("no files") { controller.answer = std::string("{}"); }
    SUBCASE("a list in place of an object") { controller.answer = std::string("[]"); }
    SUBCASE("a file elsewhere") {
      controller.answer = std::string(
          R"({"files": [{"name": "../x", "mode": 384, "proxys": true, "content": ""}]})");
    }
    SUBCASE("a file without a mode") {
      controller.answer =
          std::string(R"({"files": [{"name": "x", "proxys": true, "content": ""}]})");
    }
    const auto written = bootstrap(web_1(directory), controller.calls());
    REQUIRE_FALSE(written.ok());
    CHECK(written.error().code == ErrorCode::kInternal);
    CHECK(std::filesystem::is_empty(directory.path()));
  }
}
