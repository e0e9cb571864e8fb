// Tasks, timers and descriptors run on the event loop and stop with their handles.
#include "osm/runtime/asio_executor.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <future>

#include "net/io_fixture.hpp"
#include "osm/testing/thread_executor.hpp"

using namespace osm;
using namespace osm::net;

namespace {

using namespace std::chrono_literals;

struct Pipe {
  Pipe() { REQUIRE(::pipe2(ends, O_NONBLOCK | O_CLOEXEC) == 0); }
  ~Pipe() {
    for (int end : ends)
      if (end >= 0) ::close(end);
  }
  void write(std::string_view text) const {
    REQUIRE(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  std::string read(std::size_t most) const {
    std::string text(most, '\0');
    const ssize_t got = ::read(ends[0], text.data(), most);
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
  }
  int ends[2] = {-1, -1};
};

TEST_SUITE("net::AsioExecutor") {
  TEST_CASE("a posted task runs on the context's threads, not inside post") {
    IoThreads io;
    std::promise<std::thread::id> ran;
    io.executor.post([&] { ran.set_value(std::this_thread::get_id()); });
    auto future = ran.get_future();
    REQUIRE(future.wait_for(10s) == std::future_status::ready);
    CHECK(future.get() != std::this_thread::get_id());
  }

  TEST_CASE("a timer fires once after its delay; a dropped handle prevents it") {
    IoThreads io;
    std::atomic<int> cancelled_ran{0};
    std::promise<void> fired;
    {
      Subscription cancelled = io.executor.post_after(1ms, [&] { ++cancelled_ran; });
      // It may fire before, which is a race; it must not fire after.
    }
    const int after_cancel = cancelled_ran;
    const auto start = std::chrono::steady_clock::now();
    Subscription timer = io.executor.post_after(20ms, [&] { fired.set_value(); });
    REQUIRE(fired.get_future().wait_for(10s) == std::future_status::ready);
    CHECK(std::chrono::steady_clock::now() - start >= 20ms);
    CHECK(cancelled_ran == after_cancel);
  }

  TEST_CASE("dropping a timer's handle waits for its task, but not inside it") {
    IoThreads io;
    std::promise<void> started;
    std::promise<void> release;
    std::atomic<bool> finished{false};
    Subscription timer = io.executor.post_after(0ms, [&] {
      started.set_value();
      release.get_future().wait();
      finished = true;
    });
    started.get_future().wait();
    std::thread releaser([&] { release.set_value(); });
    timer.reset();
    CHECK(finished);
    releaser.join();

    std::promise<void> done;
    Subscription own;
    std::mutex mutex;
    std::lock_guard lock(mutex);
    auto shared = std::make_shared<Subscription>();
    std::promise<void> assigned;
    *shared = io.executor.post_after(0ms, [&, shared] {
      assigned.get_future().wait();
      shared->reset();
      done.set_value();
    });
    assigned.set_value();
    CHECK(done.get_future().wait_for(10s) == std::future_status::ready);
  }

  TEST_CASE("a watched descriptor is reported whenever something can be read, also what was left") {
    IoThreads io;
    Pipe pipe;
    std::mutex mutex;
    std::string seen;
    Subscription watch = io.executor.watch(pipe.ends[0], [&] {
      std::lock_guard lock(mutex);
      seen += pipe.read(1);  // less than there is, on purpose
    });
    const auto saw = [&](const char* text) {
      return testing::wait_until([&] {
        std::lock_guard lock(mutex);
        return seen == text;
      });
    };
    REQUIRE(watch);
    pipe.write("abc");
    CHECK(saw("abc"));
    pipe.write("d");
    CHECK(saw("abcd"));
  }

  TEST_CASE("after a watch's handle died nothing is called, and the descriptor still works") {
    IoThreads io;
    Pipe pipe;
    std::atomic<int> calls{0};
    Subscription watch = io.executor.watch(pipe.ends[0], [&] {
      pipe.read(16);
      ++calls;
    });
    pipe.write("a");
    REQUIRE(testing::wait_until([&] { return calls == 1; }));
    watch.reset();
    pipe.write("b");
    std::promise<void> flushed;
    io.executor.post([&] { flushed.set_value(); });
    flushed.get_future().wait();
    CHECK(calls == 1);
    CHECK(pipe.read(16) == "b");
    // The same descriptor can be watched again.
    Subscription again = io.executor.watch(pipe.ends[0], [&] {
      pipe.read(16);
      ++calls;
    });
    pipe.write("c");
    CHECK(testing::wait_until([&] { return calls == 2; }));
  }

  TEST_CASE("a watch may end itself inside its callback") {
    IoThreads io;
    Pipe pipe;
    std::atomic<int> calls{0};
    Subscription watch;
    std::promise<void> assigned;
    watch = io.executor.watch(pipe.ends[0], [&] {
      if (calls == 0) assigned.get_future().wait();
      watch.reset();
      ++calls;  // last: the test goes on with it
    });
    assigned.set_value();
    pipe.write("a");
    REQUIRE(testing::wait_until([&] { return calls == 1; }));
    pipe.write("b");
    CHECK(calls == 1);
  }

  TEST_CASE("a closed writer counts as readable; a regular file cannot be watched") {
    IoThreads io;
    Pipe pipe;
    std::promise<void> called;
    std::atomic<bool> once{false};
    Subscription watch;
    watch = io.executor.watch(pipe.ends[0], [&] {
      if (!once.exchange(true)) called.set_value();
    });
    ::close(std::exchange(pipe.ends[1], -1));
    CHECK(called.get_future().wait_for(10s) == std::future_status::ready);

    TemporaryDirectory folder;
    const int file = ::open(folder.file("x").c_str(), O_CREAT | O_RDWR, 0600);
    CHECK_FALSE(io.executor.watch(file, [] {}));
    ::close(file);
  }
}

}  // namespace
