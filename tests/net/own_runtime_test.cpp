// An `OwnRuntime` has threads, a log and metrics of its own and ends them in order.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include "osm/runtime/own_runtime.hpp"

using namespace osm;

namespace {

// A pipe that a log is written into.
struct LogPipe {
  LogPipe() { REQUIRE(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0); }
  ~LogPipe() {
    for (const int end : ends) ::close(end);
  }
  LogPipe(const LogPipe&) = delete;

  std::string read() const {
    std::array<char, 4096> bytes{};
    const auto count = ::read(ends[0], bytes.data(), bytes.size());
    return count > 0 ? std::string(bytes.data(), static_cast<std::size_t>(count)) : "";
  }
  std::array<int, 2> ends{};
};

std::thread::id thread_of(Executor& executor) {
  std::promise<std::thread::id> id;
  executor.post([&id] { id.set_value(std::this_thread::get_id()); });
  return id.get_future().get();
}

TEST_SUITE("OwnRuntime") {
  TEST_CASE("the executors have threads of their own") {
    const OwnRuntime own({.threads = 1, .blocking_threads = 1});
    const Runtime runtime = own;  // copies keep working while it lives
    CHECK(thread_of(runtime.executor) == thread_of(own.asio()));
    CHECK(thread_of(runtime.executor) != thread_of(runtime.blocking));
    CHECK(thread_of(runtime.executor) != std::this_thread::get_id());
    CHECK(runtime.clock.wall_now() >= std::chrono::system_clock::now() - std::chrono::minutes(1));
    CHECK(runtime.rng.next() != runtime.rng.next());
  }

  TEST_CASE("the log goes where the host says, from the level it says") {
    const LogPipe pipe;
    const OwnRuntime own({.least = LogLevel::kWarning, .log_fd = pipe.ends[1]});
    own.log.info("quiet");
    CHECK(own.json_log().flush(std::chrono::seconds(30)));
    CHECK(pipe.read().empty());
    own.json_log().set_least(LogLevel::kInfo);
    own.log.info("heard", {{"key", "value"}});
    CHECK(own.json_log().flush(std::chrono::seconds(30)));
    const std::string line = pipe.read();
    CHECK(line.find(R"("message":"heard","key":"value")") != std::string::npos);
  }

  TEST_CASE("metrics can be exposed") {
    const OwnRuntime own;
    own.metrics.add(Counter{"made_total", ""}, {}, 1);
    CHECK(own.registry().expose().find("made_total 1") != std::string::npos);
  }

  TEST_CASE("the end runs what was posted, also from one executor to the other") {
    std::atomic<int> ran = 0;
    {
      const OwnRuntime own({.threads = 1, .blocking_threads = 1});
      const Runtime runtime = own;
      runtime.blocking.post([&ran, runtime] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        runtime.executor.post([&ran] { ++ran; });
        ++ran;
      });
    }
    CHECK(ran == 2);
  }

  TEST_CASE("tasks that post to each other do not keep it from ending") {
    std::atomic<int> rounds = 0;
    std::function<void()> back;
    std::function<void()> forth;
    {
      const OwnRuntime own({.threads = 1, .blocking_threads = 1});
      const Runtime runtime = own;
      forth = [&back, runtime] { runtime.blocking.post([&back] { back(); }); };
      back = [&rounds, &forth, runtime] {
        ++rounds;
        runtime.executor.post([&forth] { forth(); });
      };
      forth();
      while (rounds < 1000) std::this_thread::yield();
    }
    CHECK(rounds >= 1000);
  }
}

}  // namespace
