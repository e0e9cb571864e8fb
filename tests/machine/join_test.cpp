// Joining by a token, at a server that the test answers for. tests/daemons joins real meshes.
#include "osm/machine/join.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "lib/temporary_directory.hpp"
#include "machine/answers.hpp"
#include "machine/proxy_user.hpp"
#include "net/tls_fixture.hpp"
#include "osm/net/http_server.hpp"
#include "osm/runtime/own_runtime.hpp"

using namespace osm;
using namespace osm::machine;
using namespace std::chrono_literals;

namespace {

// A join server, and the machine's threads.
class JoinServer {
 public:
  // `busy`: the number of questions that are answered 503.
  explicit JoinServer(
      std::function<void()> before_answer = [] {}, std::size_t busy = 0)
      : before_answer_(std::move(before_answer)), busy_(busy) {
    server_ =
        net::HttpServer::start(
            {.listen = *net::parse_address("127.0.0.1:0"), .tls = [this] { return certificate_; }},
            runtime_.asio(), runtime_.blocking,
            [this](const net::Request& request) { return answer(request); }, runtime_.log)
            .value();
  }

  JoinHost host() const { return {runtime_.asio(), runtime_.blocking}; }
  JoinOptions options(const testing::TemporaryDirectory& directory) const {
    return {.token = {.id = "id",
                      .secret = "sesame",
                      .join = server_->address().str(),
                      .server_name = "osm-join.osm-system",
                      .controller = "192.0.2.1:15128",
                      .roots = ca_.root_pem()},
            .proxy = {.directory = directory.str(), .owner = ::geteuid()},
            .timeout = 20s};
  }
  std::vector<std::string> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  net::Response answer(const net::Request& request) {
    bool busy = false;
    {
      const std::lock_guard lock(mutex_);
      asked_.push_back(request.path);
      busy = asked_.size() <= busy_;
    }
    before_answer_();
    if (busy)
      return net::json_response(R"({"error": {"code": "not-ready", "message": "others join"}})",
                                503);
    return net::json_response(request.path == "/v1/join" ? kAnswer : kSubject);
  }

  const net::TestCa ca_;
  const certificate::CertificatePtr certificate_ = ca_.issue("DNS:osm-join.osm-system");
  const std::function<void()> before_answer_;
  const std::size_t busy_;
  mutable std::mutex mutex_;
  std::vector<std::string> asked_;
  OwnRuntime runtime_{{.least = LogLevel::kError}};
  std::unique_ptr<net::HttpServer> server_;
};

}  // namespace

TEST_SUITE("machine::join") {
  TEST_CASE("a token is exchanged for the files of the answer") {
    const testing::TemporaryDirectory directory;
    const JoinServer server;
    const auto joined = join(server.options(directory), server.host());
    REQUIRE_MESSAGE(joined.ok(), joined.error().text());
    CHECK(server.asked() == std::vector<std::string>{"/v1/join/subject", "/v1/join"});
    CHECK(joined->files == std::vector<std::string>{"sds_key.pem", "sds_cert.pem", "hosts"});
    CHECK(directory.read("sds_cert.pem") == "certificate");
  }

  TEST_CASE("a server that cannot say yet is asked again, until the time-out") {
    const testing::TemporaryDirectory directory;
    {
      const JoinServer server([] {}, 2);
      const auto joined = join(server.options(directory), server.host());
      REQUIRE_MESSAGE(joined.ok(), joined.error().text());
      CHECK(server.asked() == std::vector<std::string>{"/v1/join/subject", "/v1/join/subject",
                                                       "/v1/join/subject", "/v1/join"});
    }
    const JoinServer server([] {}, 1000);
    JoinOptions options = server.options(directory);
    options.timeout = 1s;
    const auto joined = join(options, server.host());
    REQUIRE_FALSE(joined.ok());
    CHECK(joined.error().code == ErrorCode::kUnavailable);
    CHECK(joined.error().message.find("others join") != std::string::npos);
    CHECK(server.asked().size() >= 2);
  }

  TEST_CASE("a token without a part is sent to nobody") {
    const testing::TemporaryDirectory directory;
    const JoinServer server;
    JoinOptions options = server.options(directory);
    SUBCASE("no roots, in whose place the system's would be") { options.token.roots.clear(); }
    SUBCASE("no name of the server") { options.token.server_name.clear(); }
    SUBCASE("a socket of this machine") { options.token.join = "unix:/tmp/sesame"; }
    SUBCASE("no address") { options.token.join = "x"; }
    const auto joined = join(options, server.host());
    REQUIRE_FALSE(joined.ok());
    CHECK(joined.error().code == ErrorCode::kInvalidArgument);
    CHECK(joined.error().message.find("sesame") == std::string::npos);
    CHECK(server.asked().empty());
    CHECK(std::filesystem::is_empty(directory.path()));
  }

  TEST_CASE("a failure before the certificate leaves the token unused") {
    const testing::TemporaryDirectory directory;
    std::filesystem::permissions(directory.path(), std::filesystem::perms::all);
    const JoinServer server;
    JoinOptions options = server.options(directory);
    const AsProxyUser nobody(true, 65534, 65534);  // root may give files to everybody
    options.proxy.owner = ::geteuid() + 1;
    const auto joined = join(options, server.host());
    REQUIRE_FALSE(joined.ok());
    CHECK(joined.error().code == ErrorCode::kStorage);
    CHECK(server.asked() == std::vector<std::string>{"/v1/join/subject"});
  }

  TEST_CASE("the time-out limits the wait for an answer") {
    const testing::TemporaryDirectory directory;
    std::promise<void> ended;
    const auto until = ended.get_future().share();
    const JoinServer server([until] { until.wait(); });
    JoinOptions options = server.options(directory);
    options.timeout = 1s;
    const auto begin = std::chrono::steady_clock::now();
    const auto joined = join(options, server.host());
    const auto took = std::chrono::steady_clock::now() - begin;
    ended.set_value();
    REQUIRE_FALSE(joined.ok());
    CHECK(joined.error().code == ErrorCode::kDeadlineExceeded);
    CHECK(took < 20s);  // without it, the client's own 30
  }

  TEST_CASE("a server that nobody runs is unavailable, and no directory is made") {
    const testing::TemporaryDirectory directory;
    const JoinServer server;
    JoinOptions options = server.options(directory);
    options.token.join = "127.0.0.1:1";
    options.proxy.directory = directory.file("web-1");
    const auto joined = join(options, server.host());
    REQUIRE_FALSE(joined.ok());
    CHECK(joined.error().code == ErrorCode::kUnavailable);
    CHECK_FALSE(std::filesystem::exists(options.proxy.directory));
  }
}
