// Log lines are JSON whatever they hold, and a reader that stands still or a full disk stops
// nobody.
#include "osm/runtime/json_log.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "lib/temporary_directory.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"

using namespace osm;
using namespace osm::net;
using namespace std::chrono_literals;

namespace {

constexpr const char* kDropped = "osm_log_lines_dropped_total";

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    REQUIRE(end != std::string::npos);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

int number_of_line(const std::string& line) {
  const std::string key = R"("number":")";
  const std::size_t at = line.find(key);
  REQUIRE(at != std::string::npos);
  return std::stoi(line.substr(at + key.size()));
}

bool read_some(const Descriptor& from, std::string& text) {
  const ssize_t size = ::read(from.get(), text.data(), text.size());
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  return size > 0;
}

struct Pipe {
  Pipe() { REQUIRE(::pipe2(ends, O_CLOEXEC) == 0); }
  ~Pipe() {
    ::close(ends[0]);
    if (ends[1] >= 0) ::close(ends[1]);
  }
  // Reads all that was written. The logs that write here have ended.
  std::string drain() {
    ::close(std::exchange(ends[1], -1));
    std::string text;
    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(got));
    return text;
  }
  int ends[2] = {-1, -1};
};

// The line's message, as JSON.
std::string logged(std::string_view message) {
  testing::ManualClock clock;
  Pipe pipe;
  JsonLog(pipe.ends[1], LogLevel::kInfo, clock).info(message);
  const std::string line = pipe.drain();
  const auto begin = line.find(R"("message":)") + 10;
  return line.substr(begin, line.rfind('}') - begin);
}

TEST_SUITE("net::JsonLog, any bytes") {
  TEST_CASE("quotes, backslashes and control characters are escaped, UTF-8 passes") {
    CHECK(logged("a\"b\\c\n\r\t\x01\x7f") == R"("a\"b\\c\n\r\t\u0001\u007f")");
    CHECK(logged("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80") ==
          "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"");
    CHECK(logged(std::string_view("\0", 1)) == R"("\u0000")");
    CHECK(logged("\xc2\x80\xc2\x9f\xc2\xa0") == "\"\\u0080\\u009f\xc2\xa0\"");
  }

  TEST_CASE("bytes that are not UTF-8 become replacement characters") {
    const std::string replaced = "\xef\xbf\xbd";
    CHECK(logged("a\xff"
                 "b") == "\"a" + replaced + "b\"");
    CHECK(logged("\xc3") == '"' + replaced + '"');                                // cut off
    CHECK(logged("\xc0\xaf") == '"' + replaced + replaced + '"');                 // overlong
    CHECK(logged("\xed\xa0\x80") == '"' + replaced + replaced + replaced + '"');  // surrogate
    CHECK(logged("\xf4\x90\x80\x80") == '"' + replaced + replaced + replaced + replaced + '"');
  }
}

TEST_SUITE("net::JsonLog") {
  TEST_CASE("a line is one JSON object with time, level, message and fields") {
    testing::ManualClock clock(WallTime(std::chrono::milliseconds(1767323045678)));
    Pipe pipe;
    JsonLog(pipe.ends[1], LogLevel::kInfo, clock)
        .info("proxy connected", {{"proxy", "bookstore/v1"}, {"level", "odd"}, {"level", "more"}});
    CHECK(pipe.drain() ==
          R"({"time":"2026-01-02T03:04:05.678Z","level":"info","message":"proxy connected",)"
          R"("proxy":"bookstore/v1","field_level":"odd","field_field_level":"more"})"
          "\n");
  }

  TEST_CASE("received text cannot forge a log line") {
    testing::ManualClock clock;
    Pipe pipe;
    JsonLog(pipe.ends[1], LogLevel::kDebug, clock)
        .warning("refused\n{\"level\":\"info\"}", {{"peer", "x\"}\n{\"a\":\"\x1b[31m"}});
    const std::string text = pipe.drain();
    CHECK(std::count(text.begin(), text.end(), '\n') == 1);
    CHECK(text.find('\x1b') == std::string::npos);
  }

  TEST_CASE("a pipe whose reader has left loses lines, which are counted, and ends no process") {
    const auto before = std::signal(SIGPIPE, SIG_DFL);
    testing::ManualClock clock;
    testing::CapturingMetrics metrics;
    Pipe pipe;
    ::close(std::exchange(pipe.ends[0], -1));
    {
      JsonLog log(pipe.ends[1], LogLevel::kInfo, clock, &metrics);
      CHECK(metrics.has(kDropped));
      log.info("lost");
      log.info("lost as well");
      CHECK(log.flush(30s));
      CHECK(metrics.value(kDropped) == 2);
    }
    std::signal(SIGPIPE, before);
  }

  TEST_CASE("a reader that stands still stops nobody; it gets what fits, and how much did not") {
    testing::ManualClock clock;
    testing::CapturingMetrics metrics;
    Pipe pipe;
    auto log = std::make_unique<JsonLog>(pipe.ends[1], LogLevel::kInfo, clock, &metrics);
    // More than the pipe and the queue take.
    const std::string filler(10'000, 'x');
    const std::size_t all = 3 * JsonLog::kMaxWaitingBytes / filler.size();
    for (std::size_t i = 0; i < all; ++i) log->info(filler, {{"number", std::to_string(i)}});
    CHECK_FALSE(log->flush(1ms));
    const auto dropped = static_cast<std::size_t>(metrics.value(kDropped));
    CHECK(dropped > all / 3);
    CHECK(dropped < all);

    std::string text;
    ::close(std::exchange(pipe.ends[1], -1));  // the log has its own
    std::thread reader([&] { text = pipe.drain(); });
    CHECK(log->flush(30s));
    log->info("the next line");
    log.reset();
    reader.join();
    const std::vector<std::string> lines = split(text);
    REQUIRE(lines.size() == all - dropped + 2);
    int last = -1;
    for (std::size_t i = 0; i + 2 < lines.size(); ++i) {
      const int number = number_of_line(lines[i]);
      CHECK(number > last);
      last = number;
    }
    CHECK(lines[lines.size() - 2].find(R"("level":"warning","message":")" +
                                       std::to_string(dropped) + R"( log lines were dropped")") !=
          std::string::npos);
    CHECK(lines.back().find("the next line") != std::string::npos);
    CHECK(metrics.value(kDropped) == dropped);
  }

  TEST_CASE("a log that nobody reads can be destroyed") {
    testing::ManualClock clock;
    Pipe pipe;
    {
      JsonLog log(pipe.ends[1], LogLevel::kInfo, clock);
      for (int i = 0; i < 30; ++i) log.info(std::string(10'000, 'x'));
    }
    CHECK(pipe.drain().size() >= 60'000);  // what the pipe took
  }

  TEST_CASE("a line longer than the bound is dropped, and told of by the next one") {
    testing::ManualClock clock;
    testing::CapturingMetrics metrics;
    Pipe pipe;
    {
      JsonLog log(pipe.ends[1], LogLevel::kInfo, clock, &metrics);
      log.info(std::string(JsonLog::kMaxWaitingBytes, 'x'));
      log.info("short");
    }
    CHECK(metrics.value(kDropped) == 1);
    const std::vector<std::string> lines = split(pipe.drain());
    REQUIRE(lines.size() == 2);
    CHECK(lines[0].find("short") != std::string::npos);
    CHECK(lines[1].find("1 log lines were dropped") != std::string::npos);
  }

  TEST_CASE("a full disk loses lines, which are counted") {
    testing::ManualClock clock;
    testing::CapturingMetrics metrics;
    const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    REQUIRE(full);
    JsonLog log(full.get(), LogLevel::kInfo, clock, &metrics);
    for (int i = 0; i < 5; ++i) log.info("lost");
    CHECK(log.flush(30s));
    CHECK(metrics.value(kDropped) == 5);
  }

  TEST_CASE("when lines can be written again, the log says how many were lost") {
    testing::ManualClock clock;
    testing::CapturingMetrics metrics;
    const testing::TemporaryDirectory directory;
    const std::string path = directory.file("log");
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    const auto read_end = [&] {
      return Descriptor(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    };
    Descriptor reader = read_end();
    JsonLog log(Descriptor(::open(path.c_str(), O_WRONLY | O_CLOEXEC)).get(), LogLevel::kInfo,
                clock, &metrics);
    reader.close();
    for (int i = 0; i < 3; ++i) log.info("lost");
    CHECK(log.flush(30s));
    CHECK(metrics.value(kDropped) == 3);
    reader = read_end();
    log.info("seen");
    CHECK(log.flush(30s));
    std::string text(4096, '\0');
    REQUIRE(read_some(reader, text));
    const std::vector<std::string> lines = split(text);
    REQUIRE(lines.size() == 2);
    CHECK(lines[0].find("seen") != std::string::npos);
    CHECK(lines[1].find("3 log lines were dropped") != std::string::npos);
    CHECK(metrics.value(kDropped) == 3);
  }

  TEST_CASE("lines below the level are dropped") {
    testing::ManualClock clock;
    Pipe pipe;
    {
      JsonLog log(pipe.ends[1], LogLevel::kWarning, clock);
      log.info("no");
      log.debug("no");
      log.error("yes");
    }
    const std::string text = pipe.drain();
    CHECK(text.find("\"no\"") == std::string::npos);
    CHECK(text.find("\"level\":\"error\"") != std::string::npos);
  }

  TEST_CASE("lines of several threads do not mix") {
    testing::ManualClock clock;
    testing::CapturingMetrics metrics;
    Pipe pipe;
    {
      std::vector<std::thread> writers;
      JsonLog log(pipe.ends[1], LogLevel::kInfo, clock, &metrics);
      for (int i = 0; i < 4; ++i)
        writers.emplace_back([&log, i] {
          for (int n = 0; n < 2; ++n) log.info(std::string(6000, static_cast<char>('a' + i)));
        });
      for (auto& writer : writers) writer.join();
    }
    const std::vector<std::string> lines = split(pipe.drain());
    CHECK(lines.size() == 8);
    for (const std::string& line : lines) {
      const auto message = line.find(R"("message":")") + 11;
      CHECK(line.find_first_not_of(line[message], message) == message + 6000);
    }
  }
}

}  // namespace
