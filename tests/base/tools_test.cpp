// Back-off doubles with jitter; labelled metrics of two meshes stay apart; times, files,
// hexadecimal digits and lenient JSON are read and written as documented.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "base/backoff.hpp"
#include "base/hex.hpp"
#include "base/json.hpp"
#include "base/read_file.hpp"
#include "base/times.hpp"
#include "base/utf8.hpp"
#include "lib/run.hpp"
#include "lib/temporary_directory.hpp"
#include "osm/runtime/labelled_metrics.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"

using namespace osm;

namespace {

using namespace std::chrono_literals;

struct FixedRng final : Rng {
  explicit FixedRng(std::uint64_t n) : number(n) {}
  std::uint64_t next() override { return number; }
  std::uint64_t number;
};

TEST_SUITE("Backoff") {
  TEST_CASE("the delay doubles with every failure up to the longest") {
    FixedRng no_jitter(0);
    const Backoff backoff{1s, 60s};
    CHECK(backoff.delay(1, no_jitter) == 1s);
    CHECK(backoff.delay(2, no_jitter) == 2s);
    CHECK(backoff.delay(6, no_jitter) == 32s);
    CHECK(backoff.delay(7, no_jitter) == 60s);
    CHECK(backoff.delay(std::numeric_limits<unsigned>::max(), no_jitter) == 60s);
  }

  TEST_CASE("a delay is between half and all of its full length") {
    RandomRng rng(testing::seed());
    const Backoff backoff{1s, 60s};
    for (int i = 0; i < 1000; ++i) {
      const auto delay = backoff.delay(3, rng);
      REQUIRE(delay >= 2s);
      REQUIRE(delay <= 4s);
    }
  }

  TEST_CASE("a jittered delay is up to a quarter longer") {
    RandomRng rng(testing::seed());
    for (int i = 0; i < 1000; ++i) {
      const auto delay = jittered(4s, rng);
      REQUIRE(delay >= 4s);
      REQUIRE(delay <= 5s);
    }
    CHECK(jittered(0s, rng) == 0s);
  }
}

TEST_SUITE("times") {
  TEST_CASE("a time is written as RFC 3339 asks, with decimals cut off") {
    const WallTime time{std::chrono::sys_days{std::chrono::January / 2 / 2026} + 3h + 4min + 5s +
                        678'999'999ns};
    CHECK(rfc3339(time) == "2026-01-02T03:04:05Z");
    CHECK(rfc3339(time, 3) == "2026-01-02T03:04:05.678Z");
    CHECK(rfc3339(time, 6) == "2026-01-02T03:04:05.678999Z");
    CHECK(rfc3339(WallTime{-1s}) == "1969-12-31T23:59:59Z");
  }

  TEST_CASE("the time of a certificate is read, and years without end become the farthest time") {
    const auto read = [](const char* text) {
      ASN1_TIME* time = ASN1_TIME_new();
      REQUIRE(ASN1_TIME_set_string(time, text) == 1);
      const auto found = time_of(time);
      ASN1_TIME_free(time);
      return found;
    };
    CHECK(read("20260102030405Z") ==
          WallTime{std::chrono::sys_days{std::chrono::January / 2 / 2026} + 3h + 4min + 5s});
    CHECK(read("99991231235959Z") == WallTime{9'000'000'000s});
    CHECK_FALSE(time_of(nullptr));
  }
}

TEST_SUITE("read_file") {
  TEST_CASE("a file is read whole, and a larger one is refused") {
    const testing::TemporaryDirectory directory;
    const std::string path = directory.file("file");
    std::ofstream(path) << std::string(2048, 'x');
    CHECK(read_file(path, 2048).value() == std::string(2048, 'x'));
    const auto larger = read_file(path, 2047);
    REQUIRE_FALSE(larger.ok());
    CHECK(larger.error() ==
          Error{ErrorCode::kUnreadableSource, path + ": cannot be read: it is larger than 1 KiB"});
    std::ofstream(path, std::ios::trunc);
    CHECK(read_file(path, 10).value().empty());
  }

  TEST_CASE("the output of a pipe and a file without a size are read whole") {
    const testing::TemporaryDirectory directory;
    const std::string path = directory.file("pipe");
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    std::thread writer([&] { std::ofstream(path) << "secret"; });
    CHECK(read_file(path, 100).value() == "secret");
    writer.join();
    CHECK_FALSE(read_file("/proc/self/status", 100'000).value().empty());
  }

  TEST_CASE("an error names the file and the cause") {
    CHECK(read_file("/nowhere/file", 10).error() ==
          Error{ErrorCode::kUnreadableSource,
                "/nowhere/file: cannot be read: No such file or directory"});
    CHECK(read_file("/", 10).error().message == "/: cannot be read: Is a directory");
  }

  TEST_CASE("a link that leaves its directory is not followed, and one that stays in it is") {
    const testing::TemporaryDirectory directory;
    directory.write("secret", "secret");
    std::filesystem::create_directories(directory.path() / "in/..data");
    const std::string in = directory.file("in");
    directory.write("in/..data/token", "token");
    std::filesystem::create_symlink("..data/token", in + "/token");  // as in a Secret's volume
    std::filesystem::create_symlink("../secret", in + "/out");
    std::filesystem::create_symlink(directory.file("secret"), in + "/absolute");
    std::filesystem::create_symlink("/proc/self/exe", in + "/magic");
    CHECK(read_file_beneath(in, "token", 10).value() == "token");
    CHECK(read_file_beneath(in, "token", 4).error().code == ErrorCode::kUnreadableSource);
    for (const std::string name : {"out", "absolute", "magic", "../secret", "none"}) {
      CAPTURE(name);
      const auto refused = read_file_beneath(in, name, 10'000'000);
      REQUIRE_FALSE(refused.ok());
      CHECK(refused.error().message.starts_with(in + '/' + name + ": cannot be read: "));
    }
    CHECK_FALSE(read_file_beneath(in + "/none", "token", 10).ok());
  }
}

TEST_SUITE("utf8") {
  TEST_CASE("control characters and marks of direction are escaped, other text stays") {
    CHECK(escape_controls("a\x1b[2J\x7f\xc2\x9b", "\\x") == "a\\x1b[2J\\x7f\\x9b");
    CHECK(escape_controls(
              "\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\xaa\xe2\x80\xae\xe2\x81\xa6\xe2\x81\xa9z",
              "?") == "\\u061c\\u200e\\u200f\\u202a\\u202e\\u2066\\u2069z");
    // U+061B, U+200D, U+202F, U+2065, U+206A, U+05D0, and bytes that are no character.
    for (const std::string text :
         {"\xd8\x9b", "\xe2\x80\x8d", "\xe2\x80\xaf", "\xe2\x81\xa5", "\xe2\x81\xaa", "\xd7\x90",
          "\xe2\x80", "\xe2", "\xe2\x80\xee", "\xc2"})
      CHECK(escape_controls(text, "\\x") == text);
  }
}

TEST_SUITE("lenient JSON") {
  TEST_CASE("a member that is absent, null or of another type reads as empty") {
    const auto map = parse_json_object(
        R"({"text":"a","truth":true,"number":7,"map":{"port":80},"list":[1,2],"none":null})", "it");
    REQUIRE(map.ok());
    CHECK(text_at(*map, "text") == "a");
    CHECK(bool_at(*map, "truth") == true);
    CHECK(number_at(*map, "number") == 7);
    CHECK(port_at(map_at(*map, "map"), "port") == Port{80});
    CHECK(list_at(*map, "list").size() == 2);
    CHECK(member(*map, "none") == nullptr);
    for (const char* name : {"none", "absent", "list"}) {
      CAPTURE(name);
      CHECK(text_at(*map, name).empty());
      CHECK_FALSE(bool_at(*map, name));
      CHECK(number_at(*map, name) == 0);
      CHECK_FALSE(port_at(*map, name));
      CHECK(map_at(*map, name).empty());
    }
    CHECK(list_at(*map, "map").empty());
    CHECK(member(boost::json::value(1), "text") == nullptr);
  }

  TEST_CASE("a value that is no object is refused without quoting it") {
    for (const char* text : {"", "[]", "{", "7", "secret"}) {
      const auto refused = parse_json_object(text, "the answer");
      REQUIRE_FALSE(refused.ok());
      CHECK(refused.error().text() == "invalid-syntax: the answer is not a JSON object");
    }
    CHECK(parse_json_object(R"({"a":)" + std::string(200, '[') + std::string(200, ']') + '}', "it")
              .ok());
  }
}

TEST_CASE("two meshes with labelled metrics do not overwrite each other's gauges") {
  testing::CapturingMetrics shared;
  LabelledMetrics east(shared, {{"mesh", "east"}});
  LabelledMetrics west(shared, {{"mesh", std::string("west")}});
  MetricsSink& of_east = east;
  constexpr Gauge kProxies{"osm_proxies", ""};
  of_east.set(kProxies, {}, 1);
  west.set(kProxies, {}, 2);
  west.add(Counter{"osm_requests_total", "", {"code"}}, {{"code", "200"}}, 3);
  east.observe(Histogram{"osm_request_seconds", "", {"code"}}, {{"code", "200"}}, 0.5);
  CHECK(shared.value("osm_proxies", {{"mesh", "east"}}) == 1);
  CHECK(shared.value("osm_proxies", {{"mesh", "west"}}) == 2);
  CHECK_FALSE(shared.has("osm_proxies"));
  CHECK(shared.value("osm_requests_total", {{"mesh", "west"}, {"code", "200"}}) == 3);
  CHECK(shared.observations("osm_request_seconds", {{"mesh", "east"}, {"code", "200"}}).size() ==
        1);
}

TEST_CASE("bytes are written as lower-case hexadecimal digits") {
  const std::uint8_t bytes[] = {0x00, 0x1f, 0xab};
  CHECK(hex_of(bytes) == "001fab");
  CHECK(hex_of({}).empty());
}

}  // namespace
