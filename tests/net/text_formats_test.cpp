// Addresses, JSON, log lines and metrics cannot be forged by their content.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <limits>
#include <thread>

#include "osm/net/address.hpp"
#include "osm/net/http.hpp"
#include "osm/runtime/json_log.hpp"
#include "osm/runtime/prometheus_registry.hpp"
#include "osm/testing/manual_clock.hpp"

using namespace osm;
using namespace osm::net;

namespace {

TEST_SUITE("net::Address") {
  TEST_CASE("addresses are read back as they are written") {
    for (const char* text : {"127.0.0.1:80", "localhost:0", "[::1]:65535", "unix:/run/x.sock"}) {
      const auto address = parse_address(text);
      REQUIRE_MESSAGE(address.ok(), text);
      CHECK(address->str() == text);
    }
    CHECK(parse_address("[::1]:80")->host == "::1");
  }

  TEST_CASE("an invalid address is refused with a remedy") {
    for (const char* text : {"", "localhost", ":80", "host:", "host:65536", "host:-1", "host:8x",
                             "::1:80", "[::1:80", "unix:"}) {
      CAPTURE(text);
      const auto address = parse_address(text);
      REQUIRE_FALSE(address.ok());
      CHECK(address.error().code == ErrorCode::kInvalidArgument);
    }
    CHECK(parse_address("::1:80").error().message.find("[::1]:9091") != std::string::npos);
    const auto long_path = parse_address("unix:/" + std::string(200, 'x'));
    CHECK(long_path.error().message.find("107 bytes") != std::string::npos);
  }
}

TEST_SUITE("net::query text") {
  TEST_CASE("any bytes survive encoding and decoding") {
    std::string all;
    for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
    CHECK(decode_query_text(encode_query_text(all)) == all);
    CHECK(encode_query_text("a/b c~") == "a%2Fb%20c~");
    CHECK(decode_query_text("%") == std::nullopt);
    CHECK(decode_query_text("%g0") == std::nullopt);
  }
}

struct Pipe {
  Pipe() { REQUIRE(::pipe2(ends, O_CLOEXEC) == 0); }
  ~Pipe() {
    ::close(ends[0]);
    if (ends[1] >= 0) ::close(ends[1]);
  }
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
    JsonLog log(pipe.ends[1], LogLevel::kInfo, clock);
    log.info("proxy connected", {{"proxy", "bookstore/v1"}, {"level", "odd"}, {"level", "more"}});
    CHECK(pipe.drain() ==
          R"({"time":"2026-01-02T03:04:05.678Z","level":"info","message":"proxy connected",)"
          R"("proxy":"bookstore/v1","field_level":"odd","field_field_level":"more"})"
          "\n");
  }

  TEST_CASE("received text cannot forge a log line") {
    testing::ManualClock clock;
    Pipe pipe;
    JsonLog log(pipe.ends[1], LogLevel::kDebug, clock);
    log.warning("refused\n{\"level\":\"info\"}", {{"peer", "x\"}\n{\"a\":\"\x1b[31m"}});
    const std::string text = pipe.drain();
    CHECK(std::count(text.begin(), text.end(), '\n') == 1);
    CHECK(text.find('\x1b') == std::string::npos);
  }

  TEST_CASE("a pipe that nobody reads loses lines, and ends no process") {
    const auto before = std::signal(SIGPIPE, SIG_DFL);
    testing::ManualClock clock;
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    ::close(ends[0]);
    JsonLog log(ends[1], LogLevel::kInfo, clock);
    log.info("lost");
    sigset_t pending;
    ::sigpending(&pending);
    CHECK(::sigismember(&pending, SIGPIPE) == 0);
    ::close(ends[1]);
    std::signal(SIGPIPE, before);
  }

  TEST_CASE("lines below the level are dropped") {
    testing::ManualClock clock;
    Pipe pipe;
    JsonLog log(pipe.ends[1], LogLevel::kWarning, clock);
    log.info("no");
    log.debug("no");
    log.error("yes");
    const std::string text = pipe.drain();
    CHECK(text.find("\"no\"") == std::string::npos);
    CHECK(text.find("\"level\":\"error\"") != std::string::npos);
  }

  TEST_CASE("lines of several threads do not mix, and a closed reader does no harm") {
    testing::ManualClock clock;
    Pipe pipe;
    std::string text;
    std::thread reader([&] {
      char buffer[512];
      for (ssize_t got = 0; (got = ::read(pipe.ends[0], buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<std::size_t>(got));
    });
    {
      JsonLog log(pipe.ends[1], LogLevel::kInfo, clock);
      std::vector<std::thread> writers;
      for (int i = 0; i < 4; ++i) {
        writers.emplace_back([&log, i] {
          for (int n = 0; n < 100; ++n) log.info(std::string(6000, static_cast<char>('a' + i)));
        });
      }
      for (auto& writer : writers) writer.join();
    }
    ::close(std::exchange(pipe.ends[1], -1));
    reader.join();
    std::size_t lines = 0;
    for (std::size_t at = 0; at < text.size(); ++lines) {
      const auto end = text.find('\n', at);
      REQUIRE(end != std::string::npos);
      const std::string line = text.substr(at, end - at);
      const auto message = line.find(R"("message":")") + 11;
      REQUIRE(line.find_first_not_of(line[message], message) == message + 6000);
      at = end + 1;
    }
    CHECK(lines == 400);
  }
}

TEST_SUITE("net::PrometheusRegistry") {
  TEST_CASE("counters and gauges are exposed with help, type and ordered, escaped labels") {
    PrometheusRegistry registry;
    registry.describe("osm_x_total", "What \\ happened\nso far");
    registry.add("osm_x_total", {{"b", "2"}, {"a", "say \"hi\"\n\\"}}, 1);
    registry.add("osm_x_total", {{"a", "say \"hi\"\n\\"}, {"b", "2"}}, 2);
    registry.add("osm_x_total", {}, 0.5);
    registry.set("osm_y", {{"type", "CDS"}}, 7);
    registry.set("osm_y", {{"type", "CDS"}}, -3);
    CHECK(registry.expose() ==
          "# HELP osm_x_total What \\\\ happened\\nso far\n"
          "# TYPE osm_x_total counter\n"
          "osm_x_total 0.5\n"
          "osm_x_total{a=\"say \\\"hi\\\"\\n\\\\\",b=\"2\"} 3\n"
          "# TYPE osm_y gauge\n"
          "osm_y{type=\"CDS\"} -3\n");
  }

  TEST_CASE("histograms have cumulative buckets from 1 ms to 60 s, a sum and a count") {
    PrometheusRegistry registry;
    for (const double seconds : {0.0005, 0.001, 0.02, 59.0, 61.0})
      registry.observe("osm_t_seconds", {{"stage", "write"}}, seconds);
    const std::string text = registry.expose();
    const auto has = [&](const std::string& line) {
      return text.find(line + '\n') != std::string::npos;
    };
    CHECK(has("# TYPE osm_t_seconds histogram"));
    CHECK(has(R"(osm_t_seconds_bucket{stage="write",le="0.001"} 2)"));
    CHECK(has(R"(osm_t_seconds_bucket{stage="write",le="0.01"} 2)"));
    CHECK(has(R"(osm_t_seconds_bucket{stage="write",le="0.025"} 3)"));
    CHECK(has(R"(osm_t_seconds_bucket{stage="write",le="60"} 4)"));
    CHECK(has(R"(osm_t_seconds_bucket{stage="write",le="+Inf"} 5)"));
    CHECK(has(R"(osm_t_seconds_sum{stage="write"} 120.0215)"));
    CHECK(has(R"(osm_t_seconds_count{stage="write"} 5)"));
  }

  TEST_CASE("dropped metrics are counted by reason") {
    PrometheusRegistry registry(2);
    for (int i = 0; i < 5; ++i) registry.add("osm_many_total", {{"id", std::to_string(i)}}, 1);
    registry.set("osm_many_total", {}, 1);
    registry.add("osm_many_total", {{"id", "0"}}, -1);
    registry.add("osm-bad", {}, 1);
    registry.add("osm_ok_total", {{"le", "1"}}, 1);
    registry.add("osm_ok_total", {{"a", "1"}, {"a", "2"}}, 1);
    registry.observe("osm_t_seconds", {}, std::numeric_limits<double>::quiet_NaN());
    CHECK(registry.expose() ==
          "# TYPE osm_many_total counter\n"
          "osm_many_total{id=\"0\"} 1\n"
          "osm_many_total{id=\"1\"} 1\n"
          "# TYPE osm_metrics_dropped_total counter\n"
          "osm_metrics_dropped_total{reason=\"invalid_name\"} 3\n"
          "osm_metrics_dropped_total{reason=\"negative\"} 1\n"
          "osm_metrics_dropped_total{reason=\"not_a_number\"} 1\n"
          "osm_metrics_dropped_total{reason=\"other_kind\"} 1\n"
          "osm_metrics_dropped_total{reason=\"too_many_series\"} 3\n");
  }

  TEST_CASE("values are exposed as Prometheus writes them") {
    PrometheusRegistry registry;
    registry.set("osm_a", {}, std::numeric_limits<double>::infinity());
    registry.set("osm_b", {}, 1704067200.25);
    registry.set("osm_c", {}, 1e21);
    CHECK(registry.expose().find("osm_a +Inf\n") != std::string::npos);
    CHECK(registry.expose().find("osm_b 1704067200.25\n") != std::string::npos);
    CHECK(registry.expose().find("osm_c 1e+21\n") != std::string::npos);
  }
}

}  // namespace
