// A start waits for servers that are late, a replica's name is its own, and its log follows the
// level of MeshConfig.
#include <doctest/doctest.h>
#include <fcntl.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "lib/temporary_directory.hpp"

#include "osm/host/start.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/memory_mesh_spec.hpp"

using namespace osm;
using namespace std::chrono_literals;

namespace {

Error away(const std::string& cause) { return {ErrorCode::kUnavailable, cause}; }

// A start whose pauses take no time.
struct Fixture {
  osm::testing::TemporaryDirectory folder;
  const Descriptor lines{::open(folder.file("log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
  OwnRuntime runtime{{.log_fd = lines.get()}};
  std::vector<std::chrono::nanoseconds> pauses;
  bool ends = false;
  host::Start start{runtime, [this](std::chrono::nanoseconds pause) {
                      pauses.push_back(pause);
                      return ends;
                    }};

  std::string log() {
    CHECK(runtime.json_log().flush(10s));
    return folder.read("log");
  }
};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_SUITE("host::Start") {
  TEST_CASE_FIXTURE(Fixture, "a failure that may pass is repeated, and told meanwhile") {
    start.set_http_address({"127.0.0.1", 9091});
    CHECK(start.missing() == std::vector<std::string>{"its start"});
    int calls = 0;
    const Result<int> done = start.wait_for("its CA", [&]() -> Result<int> {
      ++calls;
      if (calls == 1) return away("refused");
      CHECK(start.missing() == std::vector<std::string>{"its CA: refused"});
      REQUIRE(start.problems().size() == 1);
      CHECK(start.problems()[0].path == "its CA");
      CHECK(start.problems()[0].code == ErrorCode::kUnavailable);
      if (calls < 4) return away("refused");
      return 7;
    });
    CHECK(*done == 7);
    CHECK(start.missing() == std::vector<std::string>{"its start"});
    CHECK(start.problems().empty());
    REQUIRE(pauses.size() == 3);
    CHECK(pauses[0] >= 500ms);
    CHECK(pauses[0] <= 1s);
    CHECK(pauses[2] >= 2s);
    CHECK(pauses[2] <= 4s);
    CHECK(count(log(), "the start waits; it is tried again") == 1);
    CHECK(count(log(), "\"http_address\":\"127.0.0.1:9091\"") == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "no pause is longer than ten seconds, and each other cause is told") {
    int calls = 0;
    const Status done = start.wait_for("its CA", [&]() -> Status {
      if (++calls == 12) return {};
      return away(calls < 6 ? "refused" : "reset");
    });
    CHECK(done.ok());
    for (const auto pause : pauses) CHECK(pause <= 10s);
    CHECK(count(log(), "the start waits; it is tried again") == 2);
  }

  TEST_CASE_FIXTURE(Fixture, "a failure that does not pass by itself ends the start") {
    int calls = 0;
    const Status done = start.wait_for("its CA", [&]() -> Status {
      ++calls;
      return Error{ErrorCode::kInvalidArgument, "no such store"};
    });
    CHECK(done.error().code == ErrorCode::kInvalidArgument);
    CHECK(calls == 1);
    CHECK(pauses.empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a program that is to end gets the last failure") {
    ends = true;
    const Status done = start.wait_for("its CA", []() -> Status { return away("refused"); });
    CHECK(done.error().message == "refused");
    CHECK(start.problems().empty());
  }
}

TEST_SUITE("host::replica_name") {
  TEST_CASE("a name begins with the host's, and each is another one") {
    RandomRng rng(1);
    const std::string name = host::replica_name(rng);
    CHECK(name.find(host::host_name() + '-') == 0);
    CHECK(name.size() == host::host_name().size() + 17);
    CHECK(host::replica_name(rng) != name);
  }
}

TEST_SUITE("host::follow_log_level") {
  TEST_CASE("the level is MeshConfig's, else the program's, until the handle's end") {
    osm::testing::MemoryMeshSpec spec;
    const SystemClock clock;
    net::JsonLog log(2, LogLevel::kError, clock);
    MeshConfig config;
    config.log_level = LogLevel::kDebug;
    auto handle = host::follow_log_level(spec, log, LogLevel::kWarning);
    CHECK(log.enabled(LogLevel::kWarning));
    CHECK_FALSE(log.enabled(LogLevel::kInfo));
    spec.set_mesh_config(config);
    CHECK(log.enabled(LogLevel::kDebug));
    spec.set_mesh_config({});
    CHECK_FALSE(log.enabled(LogLevel::kInfo));
    handle.reset();
    spec.set_mesh_config(config);
    CHECK_FALSE(log.enabled(LogLevel::kInfo));
  }
}
